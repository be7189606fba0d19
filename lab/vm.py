"""A virtual machine: QEMU with a serial console, and what can be done to it from outside.

Where there is no KVM it is emulated in software, which costs a factor of ten or more; times seen here say
nothing about hardware.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from lab.console import Console
from lab.process import LabError, run, wait
from lab.qmp import Qmp

OVMF = Path("/usr/share/OVMF")
FIRMWARE = {
    "bios": None,
    "uefi": ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
    "secure": ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"),  # Secure Boot with Microsoft's keys
}
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils"}
# A processor without what is quick in silicon and slow in software: string instructions that go byte by byte, a fifth
# level of page tables, checks at every access to a process's memory. And a small store of translated code: each process
# has its libraries elsewhere, so in a large one their pages collect so many translations that throwing them away, one
# by one when such a page gets another use, takes half of a start. QEMU 7.2 computes the upper half of VAESENC wrongly.
PROCESSOR = "max,-erms,-fsrm,-la57,-smap,-pku,-vaes,-vpclmulqdq"
EMULATION = ["-accel", "tcg,thread=multi,tb-size=48", "-cpu", PROCESSOR]
# A key of the keyboard for each character; capitals and the like are with shift.
_KEYS = {" ": "spc", "\n": "ret", "-": "minus", ".": "dot", "/": "slash", "\t": "tab", "'": "apostrophe"}


def emulated() -> bool:
    """Whether machines run without KVM."""
    return os.environ.get("ZTM_VM_ACCEL", "tcg") != "kvm"


def patience() -> float:
    """What every time limit is stretched by, on a machine that is slow."""
    return float(os.environ.get("ZTM_VM_PATIENCE", "1"))


@dataclass
class Hardware:
    """What a machine is made of."""

    firmware: str = "bios"
    iso: Path | None = None  # in the CD drive
    stick: Path | None = None  # the same, as a disk that is only read
    disks: list[Path] = field(default_factory=list)
    first: str = "medium"  # what is started from: "medium" or "disk"
    first_disk: int = 0  # which of the disks is tried before the others
    # Ports, each with this end and the other end of its cable, see :func:`new_cable`.
    cables: list[tuple[int, int]] = field(default_factory=list)
    unplugged: set[int] = field(default_factory=set)  # which of them have no cable in them at the start
    uplink: bool = False  # a port behind which DHCP answers, and nothing else
    memory: int = 1024  # MiB
    # Emulated processors wait for each other's locks most of the time where the host has not one core for each.
    cpus: int = 1 if emulated() else 2


class Vm:
    """One machine. Use as a context manager; it is off until :meth:`start`."""

    def __init__(self, name: str, hardware: Hardware, directory: Path) -> None:
        for program, package in PROGRAMS.items():
            if not shutil.which(program):
                raise LabError(f"{program} is missing; install it with: apt install {package}")
        self.name, self.hardware, self._directory = name, hardware, directory
        self._process: subprocess.Popen[bytes] | None = None
        self._console: Console | None = None
        self._qmp: Qmp | None = None
        self.started = 0.0
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Vm:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.cut_power()

    # -- life

    def start(self) -> None:
        """Switch it on."""
        if self._process:
            raise LabError(f"{self.name} is already running")
        for name in ("qmp", "serial"):
            (self._directory / name).unlink(missing_ok=True)
        log = (self._directory / "qemu.log").open("ab")
        self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.started = time.monotonic()
        wait(self._answers, timeout=60, what=f"{self.name}: QEMU")
        self._qmp = Qmp(self._directory / "qmp")
        self._console = Console(self._directory / "serial", patience=patience())
        for port in self.hardware.unplugged:
            self.plug(port, False)
        self._qmp.execute("cont")

    def _answers(self) -> bool:
        assert self._process
        if self._process.poll() is not None:
            text = (self._directory / "qemu.log").read_text(errors="replace")[-2000:]
            self._process = None
            raise SystemError(f"{self.name}: QEMU ended at once\n{text}")
        return (self._directory / "qmp").exists() and (self._directory / "serial").exists()

    def _command(self) -> list[str]:
        hardware, directory = self.hardware, self._directory
        secure = hardware.firmware == "secure"
        command = [
            # It ends with us, however we end.
            "setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-name", self.name, "-nodefaults", "-no-user-config", "-S",
            "-machine", f"q35,smm={'on' if secure else 'off'}",
            *(EMULATION if emulated() else ["-accel", "kvm", "-cpu", "host"]),
            "-smp", str(hardware.cpus), "-m", str(hardware.memory),
            "-device", "VGA,xres=800,yres=600", "-display", "none",
            "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
            "-chardev", f"socket,id=serial,path={directory / 'serial'},server=on,wait=off,"
            f"logfile={directory / 'serial.log'},logappend=on",
            "-serial", "chardev:serial", "-qmp", f"unix:{directory / 'qmp'},server=on,wait=off",
        ]  # fmt: skip
        if firmware := FIRMWARE[hardware.firmware]:
            settings = directory / "firmware.fd"
            if not settings.exists():
                shutil.copy(OVMF / firmware[1], settings)
            if secure:
                command += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
            command += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={OVMF / firmware[0]}"]
            command += ["-drive", f"if=pflash,unit=1,format=raw,file={settings}"]
        first = 0 if hardware.first == "disk" else 10
        for number, disk in enumerate(hardware.disks):
            turn = first + (0 if number == hardware.first_disk else number + 1)
            command += ["-drive", f"if=none,id=disk{number},format=qcow2,file={disk}"]
            command += ["-device", f"virtio-blk-pci,drive=disk{number},bootindex={turn}"]
        if hardware.stick:
            command += ["-drive", f"if=none,id=stick,format=raw,readonly=on,file={hardware.stick}"]
            command += ["-device", "virtio-blk-pci,drive=stick,bootindex=5"]
        if hardware.iso:
            command += ["-drive", f"if=none,id=cd,media=cdrom,format=raw,readonly=on,file={hardware.iso}"]
            command += ["-device", "ide-cd,drive=cd,bootindex=6"]
        if hardware.uplink:
            command += ["-netdev", "user,id=uplink,restrict=on", "-device", "virtio-net-pci,netdev=uplink,romfile="]
        for number, (own, other) in enumerate(hardware.cables):
            ends = [f"{end}.type=inet,{end}.host=127.0.0.1,{end}.port={udp}" for end, udp in (("local", own), ("remote", other))]
            command += ["-netdev", ",".join([f"dgram,id=cable{number}", *ends])]
            command += ["-device", f"virtio-net-pci,id=port{number},netdev=cable{number},mac={self.mac(number)},romfile="]
        return command

    def mac(self, port: int) -> str:
        """Address of one of its ports, as no other machine has it."""
        own = self.hardware.cables[port][0]
        return f"52:54:00:00:{own >> 8:02x}:{own & 255:02x}"

    @property
    def console(self) -> Console:
        """Its serial console."""
        if not self._console:
            raise LabError(f"{self.name} is off")
        return self._console

    @property
    def seconds(self) -> float:
        """Time since it was switched on."""
        return time.monotonic() - self.started

    def execute(self, command: str, **arguments: object) -> object:
        """A command of QEMU's machine protocol."""
        if not self._qmp:
            raise LabError(f"{self.name} is off")
        return self._qmp.execute(command, **arguments)

    def plug(self, port: int, in_it: bool) -> None:
        """Put the cable into a port, or take it out; the port loses its carrier."""
        self.execute("set_link", name=f"port{port}", up=in_it)

    def writes(self) -> int:
        """How often the machine has written to its disks since it was switched on."""
        drives: Any = self.execute("query-blockstats")
        return sum(int(drive["stats"]["wr_operations"]) for drive in drives)

    def cut_power(self) -> None:
        """Off at once: QEMU is killed, and nothing that the machine had not written is written any more."""
        if self._process:
            self._process.kill()
            self._ended()

    def wait_off(self, timeout: float = 120.0) -> None:
        """Wait until it has switched itself off."""
        if self._process:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise LabError(f"{self.name}: not off after {timeout:g} s") from None
            self._ended()

    def _ended(self) -> None:
        assert self._process
        self._process.wait()
        for connection in (self._console, self._qmp):
            if connection:
                connection.close()
        self._process = self._console = self._qmp = None

    # -- the screen and the keyboard

    def screenshot(self, path: Path) -> bytes:
        """What stands on the screen, as a PNG in a file; returns its bytes."""
        self.execute("screendump", filename=str(path.resolve()), format="png")
        return path.read_bytes()

    def type(self, text: str) -> None:
        """Press keys of the keyboard (letters, digits and some marks)."""
        for character in text:
            if character in _KEYS or character.islower() or character.isdigit():
                keys = [_KEYS.get(character, character)]
            elif character.isupper():
                keys = ["shift", character.lower()]
            else:
                raise LabError(f"no key is known for {character!r}")
            self.execute("send-key", keys=[{"type": "qcode", "data": key} for key in keys])
            time.sleep(0.15)  # the keyboard takes no more than a few keys at once, and tells nobody when it has


def new_cable() -> tuple[int, int]:
    """Two ends of a cable: UDP ports of this machine. What reaches a machine that is off is lost, as on any cable."""
    udp = (socket.AF_INET, socket.SOCK_DGRAM)
    with socket.socket(*udp) as one, socket.socket(*udp) as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def new_disk(path: Path, megabytes: int) -> Path:
    """An empty disk."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), f"{megabytes}M"])
    return path
