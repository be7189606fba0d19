"""``make test-kernels``: ztnode on kernels and processors that this machine does not have.

Each kernel is started in an emulated machine (QEMU, no KVM) whose initramfs is a small Debian 12 with this tree and
its package of ztnode; the tests of offloads, cipher and link run there, as they run here in ``make test``. A kernel is the name of a
Debian release, whose package is taken from the mirrors that apt uses here, or a directory into which somebody has unpacked one
(``boot/vmlinuz-*`` and ``lib/modules``). A processor is one of QEMU's models: Nehalem has no AES, Westmere has AES and no AVX.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lab.host import debian_sources
from lab.process import LabError, run
from lab.rootfs import PACKAGES, unmount
from lab.vm import PROCESSOR

ROOT = Path(__file__).resolve().parents[2]
NOT_NEEDED = {"systemd", "systemd-sysv", "dbus", "frr", "login", "sudo", "isc-dhcp-client", "less"}
TREE = ("lab", "python", "packages/ztsh", "tests", "interface-definitions", "src", "pytest.ini", "build/debs")
MODULES = (
    "kernel/net",
    "kernel/drivers/net",
    "kernel/crypto",
    "kernel/lib",
    "kernel/arch",
    "kernel/drivers/ptp",
    "kernel/drivers/pps",
)
TESTS = (
    "tests/engine/test_datagrams.py",
    "tests/engine/test_cipher.py",
    "tests/engine/test_contract.py::test_a_link_without_a_controller_over_ipv4",
    "tests/engine/test_contract.py::test_a_link_over_ipv6",
    "tests/engine/test_checked_data.py",
    "tests/engine/test_contract.py::test_packets_of_all_sizes",
)
INIT = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for place in /run /tmp /dev/shm; do mount -t tmpfs tmpfs $place; done
for module in tun veth nf_tables; do modprobe $module; done
ip link set lo up
cd /tree
export PYTHONPATH=python:packages/ztsh:. PYTHONDONTWRITEBYTECODE=1 GIGABYTES=0.05 PATH=/usr/sbin:/usr/bin:/sbin:/bin
echo "kernel $(uname -r),$(for flag in avx2 aes pclmulqdq; do grep -q -w $flag /proc/cpuinfo && echo -n " $flag" || echo -n " no $flag"; done)"
python3 -m pytest -p no:cacheprovider -v -rs --color=no @TESTS@
echo "exit status $?"
echo o >/proc/sysrq-trigger
sleep 60
"""
QEMU = (
    "qemu-system-x86_64",
    "-nographic",
    "-no-reboot",
    "-nic",
    "none",
    "-smp",
    "2",
    "-m",
    "3072",
    "-accel",
    "tcg,thread=multi,tb-size=256",
)


def mirror(release: str) -> str:
    """A line for mmdebstrap: the mirror that this machine uses, with another release."""
    line = next(line for line in debian_sources().splitlines() if " bookworm " in line)
    return line.replace(" bookworm ", f" {release} ")


def unpacked(kernel: str, cache: Path) -> Path:
    """The directory of a kernel's package. Raises :class:`LabError` when there is none of that name."""
    if "/" in kernel:
        return Path(kernel)
    target = cache / f"kernel-{kernel}"
    if not target.exists():
        part = cache / f"kernel-{kernel}.part"
        shutil.rmtree(part, ignore_errors=True)
        package = "--include=linux-image-cloud-amd64"
        command = ["mmdebstrap", "--quiet", "--variant=extract", "--mode=root", package, kernel, str(part), mirror(kernel)]
        try:
            run(command, timeout=600)
        except LabError as error:
            raise LabError(
                f"KERNELS={kernel}: the mirror of this machine gave no kernel of that Debian release; name one that it has, such as "
                f"trixie, or a directory with boot/vmlinuz-* ({_last(str(error))})"
            ) from None
        part.rename(target)
    return target


def system(cache: Path) -> Path:
    """An archive (cpio) of the file system without kernel and tree, made once."""
    packages = sorted({*PACKAGES, "python3-pytest", "python3-hypothesis"} - NOT_NEEDED)
    target, tree = cache / "system.cpio", cache / "system"
    recipe = cache / "system.packages"
    if not target.exists() or not recipe.exists() or recipe.read_text() != " ".join(packages):
        unmount(tree)
        shutil.rmtree(tree, ignore_errors=True)
        include = f"--include={','.join(packages)}"
        run(
            ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root", include, "bookworm", str(tree), mirror("bookworm")],
            timeout=900,
        )
        unmount(tree)  # mmdebstrap has left /proc in it once
        for unused in ("usr/share/doc", "usr/share/locale", "usr/share/man", "var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(tree / unused, ignore_errors=True)
        archive(tree, target)
        recipe.write_text(" ".join(packages))
        shutil.rmtree(tree)
    return target


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["nothing"])[-1]


def archive(tree: Path, target: Path) -> None:
    """Everything below a directory as the kernel takes it for an initramfs."""
    pack = 'cd "$1" && find . -mindepth 1 | cpio --quiet --owner=0:0 -o -H newc >"$2"'
    run(["sh", "-c", pack, "sh", str(tree), str(target)], timeout=300)


def rest(kernel: Path, tests: Sequence[str], work: Path) -> tuple[Path, Path]:
    """The kernel's file, and an archive of its modules, this tree and the program that the machine starts with."""
    images = sorted(kernel.glob("boot/vmlinuz-*"))
    if not images:
        raise LabError(f"KERNELS={kernel}: there is no boot/vmlinuz-* in it; unpack a kernel's package there with dpkg -x")
    version = images[-1].name.removeprefix("vmlinuz-")
    modules = next((p for p in (kernel / "lib/modules" / version, kernel / "usr/lib/modules" / version) if p.exists()), None)
    tree = work / "rest"
    shutil.rmtree(tree, ignore_errors=True)
    if modules:
        target = tree / "usr/lib/modules" / version
        for part in MODULES:
            if (modules / part).exists():
                shutil.copytree(modules / part, target / part)
        for name in modules.glob("modules.*"):
            shutil.copy(name, target)
        run(["depmod", "-b", str(tree / "usr"), version])
    for name in TREE:
        source, goal = ROOT / name, tree / "tree" / name
        goal.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, goal, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "build" if name != "build/debs" else "")
            )
        else:
            shutil.copy(source, goal)
    (tree / "init").write_text(INIT.replace("@TESTS@", " ".join(f"'{test}'" for test in tests)))
    (tree / "init").chmod(0o755)
    archive(tree, work / "rest.cpio")
    shutil.rmtree(tree)
    return images[-1], work / "rest.cpio"


def started(image: Path, archives: Sequence[Path], cpu: str, log: Path, limit: float) -> int:
    """Start a machine and wait for its end; the exit status of its tests. Raises :class:`LabError` when it has none in ``limit`` seconds."""
    initrd = log.with_suffix(".initrd")
    with initrd.open("wb") as out:
        for part in archives:  # the kernel unpacks one after the other
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 24)
    words = ["-cpu", PROCESSOR if cpu == "max" else cpu, "-kernel", str(image), "-initrd", str(initrd)]
    words += ["-append", "console=ttyS0 loglevel=3 panic=-1 mitigations=off rdinit=/init"]
    try:
        with log.open("wb") as out:
            machine = subprocess.Popen([*QEMU, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            try:
                machine.wait(limit)
            except subprocess.TimeoutExpired:
                raise LabError(f"the machine was not done after {limit:g} s; its console is {log}") from None
            finally:
                machine.kill()
                machine.wait()
    finally:
        initrd.unlink()
    console = log.read_text(errors="replace")
    found = re.findall(r"^exit status (\d+)\r?$", console, re.MULTILINE)
    if not found:
        raise LabError(f"the machine ended before its tests; its console is {log}, and ends with: {_last(console)}")
    return int(found[-1])


def main() -> int:
    """Run all tests on every kernel with the first processor, and on the last kernel with the others; 0 when all passed."""
    parser = argparse.ArgumentParser(prog="tests.kernels", description=__doc__)
    parser.add_argument("--kernels", nargs="+", default=["bullseye", "bookworm", "trixie"])
    parser.add_argument("--cpus", nargs="+", default=["max", "Westmere", "Nehalem"])
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--seconds", type=float, default=3600, help="the most that one machine may take")
    options = parser.parse_args()
    cache = Path("build/kernels").absolute()
    cache.mkdir(parents=True, exist_ok=True)
    machines = [(kernel, options.cpus[0]) for kernel in options.kernels] + [(options.kernels[-1], cpu) for cpu in options.cpus[1:]]
    bad = 0
    for kernel, cpu in machines:
        log = cache / f"{Path(kernel).name}-{cpu}.log"
        begin = time.monotonic()
        try:
            image, more = rest(unpacked(kernel, cache), options.tests, cache)
            status = started(image, (system(cache), more), cpu, log, options.seconds)
            told = summary(log.read_text(errors="replace")) + ("" if status == 0 else f"; see {log}")
        except LabError as error:
            status, told = 1, str(error)
        bad += status != 0
        print(f"{Path(kernel).name}, {cpu}: {told} ({time.monotonic() - begin:.0f} s)", flush=True)
    return 1 if bad else 0


def summary(console: str) -> str:
    """Kernel and result, out of what a machine has printed."""
    lines = console.replace("\r", "").split("\n")
    kernel = next((line[line.index("kernel ") :] for line in lines if re.search(r"kernel \d+\.\d+.* aes", line)), "no kernel")
    result = next((line.strip("= ") for line in reversed(lines) if re.search(r"\d+ (passed|failed|error)", line)), "no summary")
    return f"{kernel}: {result}"


if __name__ == "__main__":
    sys.exit(main())
