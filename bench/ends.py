"""The two ends of what is measured: places on this machine where programs run, and what they cost.

Both routers of a lab and the hosts behind them are network namespaces here. Everything that is compared runs between
the same two routers over the same underlay.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import Lab, Router
from lab.lan import Lan
from lab.process import LabError, run, wait
from zerotier_multi.op.benchmark.usage import busy
from zerotier_multi.usage import cpu_seconds


@dataclass(frozen=True)
class Place:
    """Somewhere to run programs: words that go before a command."""

    name: str
    prefix: tuple[str, ...]

    def command(self, command: Sequence[str]) -> list[str]:
        """The command of this machine that runs ``command`` there."""
        return [*self.prefix, *command]

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program there to its end. Raises :class:`LabError` when it fails."""
        return run(self.command(command), **options)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program there; it dies with this one, and its output is kept from the terminal unless asked for."""
        none = subprocess.DEVNULL
        bound = self.command(["setpriv", "--pdeathsig", "KILL", *command])
        return subprocess.Popen(bound, **{"stdin": none, "stdout": none, "stderr": none, "text": True, **options})

    def listens(self, port: int, protocol: str = "t") -> None:
        """Wait until a program there has a port."""
        ports = ["ss", f"-Hln{protocol}"]
        wait(lambda: f":{port} " in self.run(ports).stdout, timeout=10, what=f"{self.name}: a server on port {port}")


@dataclass(frozen=True)
class End:
    """One end of a measurement: a place and the address that it is reached at; ``more`` where streams are shared by several."""

    place: Place
    address: str
    more: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """All of them, in the order in which both ends have them."""
        return self.address, *self.more


@dataclass
class Site:
    """Two routers on an underlay, which all subjects share, and the directory of the peers' programs."""

    lab: Lab
    near: Router
    far: Router
    peers: Path
    stock: str | None  # path of zerotier-one, where this machine has it
    behind: tuple[str, str] | None = None  # prefixes behind both, where the link is to carry what hosts there send

    @property
    def routers(self) -> list[Router]:
        return [self.near, self.far]

    @property
    def places(self) -> tuple[Place, Place]:
        """Where programs of this machine run in the routers' networks."""
        here, there = (Place(r.name, ("ip", "netns", "exec", r.namespace)) for r in self.routers)
        return here, there

    @property
    def underlay(self) -> tuple[str, str]:
        """IPv4 addresses of both on the underlay."""
        return self.near.underlay4, self.far.underlay4

    def pids(self, names: Iterable[str]) -> list[int]:
        """Processes of some programs in the networks of both routers, by the host's numbers, in the order of their start.

        A name is that of a program's file, or of the module that a Python runs.
        """
        wanted, found = set(names), []
        for router in self.routers:
            for pid in run(["ip", "netns", "pids", router.namespace], check=False).stdout.split():
                process = Path("/proc", pid)
                try:
                    program, words = os.readlink(process / "exe"), (process / "cmdline").read_text().split("\0")
                except OSError:  # it has ended
                    continue
                module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
                if wanted & {Path(program).name, module}:
                    found.append(int(pid))
        return found


def host(lan: Lan) -> Place:
    """The host behind a router."""
    return Place(f"host of {lan.router.name}", tuple(lan.router.command(lan.command([]))))


def stop(process: subprocess.Popen[Any], timeout: float = 10.0) -> None:
    """End a program that :meth:`Place.popen` has started."""
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


# -- what it costs


@dataclass(frozen=True)
class Cost:
    """CPU seconds since some time before: of the whole machine, and of some processes."""

    machine: float
    processes: float

    def since(self, earlier: Cost) -> Cost:
        """What was used in between."""
        return Cost(self.machine - earlier.machine, self.processes - earlier.processes)


def cost(pids: Iterable[int]) -> Cost:
    """What was used so far. A process that has ended raises :class:`LabError`."""
    try:
        own = sum(cpu_seconds(Path(f"/proc/{pid}")) for pid in pids)
    except OSError:
        raise LabError("a process that is measured has ended") from None
    return Cost(sum(busy(Path("/proc/stat").read_text(), time.monotonic()).values()), own)


def pss(pids: Iterable[int]) -> float:
    """Proportional set size of processes together, MB."""
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(text.partition("\nPss:")[2].split()[0])
    return total / 1000


def available() -> float:
    """Memory of this machine that programs can still have, MB."""
    return int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) / 1000
