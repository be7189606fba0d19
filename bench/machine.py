"""The machine and the versions of all that is measured, as the report shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from bench.results import Machine
from lab.process import run
from zerotier_multi.box import engine_version

FEATURES = ("aes", "avx", "avx2", "avx512f", "vaes", "vpclmulqdq", "pclmulqdq", "gfni", "sha_ni", "asimd", "pmull")  # of ciphers


def machine(cpuinfo: str | None = None) -> Machine:
    """This machine. ``cpuinfo`` is the text of ``/proc/cpuinfo``."""
    text = cpuinfo if cpuinfo is not None else Path("/proc/cpuinfo").read_text()
    memory = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    virtual = run(["systemd-detect-virt"], check=False).stdout.strip()
    return described(text, os.cpu_count() or 1, os.uname().release, memory, virtual)


def described(cpuinfo: str, cores: int, kernel: str, memory_bytes: int, virtual: str) -> Machine:
    """A machine by the text of its ``/proc/cpuinfo``, and what else it says; ``virtual`` as systemd-detect-virt has it."""
    return Machine(
        cpu=_field(cpuinfo, "model name") or _field(cpuinfo, "Model") or os.uname().machine,
        cores=cores,
        cpu_features=tuple(name for name in FEATURES if name in (_field(cpuinfo, "flags") or _field(cpuinfo, "Features")).split()),
        kernel=kernel,
        memory_bytes=memory_bytes,
        virtual="" if virtual == "none" else virtual,
    )


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def versions(peers: Path, stock: str | None, debs: Iterable[Path]) -> dict[str, str]:
    """Versions of our packages, of the peers as they were built, and of the programs that measure."""
    found = {path.name.split("_")[0]: path.name.split("_")[1] for path in sorted(debs)}
    for path in sorted(peers.glob("*.version")):
        found[path.stem] = path.read_text().strip()
    if stock:
        found["zerotier-one"] = ".".join(map(str, engine_version(stock)))
    found["iperf3"] = run(["iperf3", "--version"]).stdout.split()[1]
    found["Debian"] = Path("/etc/debian_version").read_text().strip()
    return found
