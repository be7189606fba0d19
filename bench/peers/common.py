"""What all peers need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.ends import Cost, Place, cost
from lab.process import run, wait

ADDRESSES = ("10.20.0.1", "10.20.0.2")  # of the ends of a peer's link


class Unavailable(RuntimeError):
    """A subject cannot be had on this machine; the text says why in one sentence."""


@dataclass(frozen=True)
class Link:
    """A link that carries traffic: its addresses, its processes by the host's numbers, how it was made, and its devices."""

    addresses: tuple[str, str]
    pids: tuple[int, ...] = ()  # of what carries the traffic
    others: tuple[int, ...] = ()  # of what else the subject cannot do without
    commands: tuple[str, ...] = ()
    device: str = ""  # what leads to the other end; empty where routes do that already
    routes: bool = False  # it has set the routes to what is behind the other end itself
    meter: Callable[[], Cost] | None = None  # of processes that are not on this machine

    @property
    def processes(self) -> tuple[int, ...]:
        """All of the subject's."""
        return self.pids + self.others

    def cost(self) -> Cost:
        """What was used so far, by all of them. A process that has ended raises :class:`LabError`."""
        return self.meter() if self.meter else cost(self.processes)


def program(peers: Path, name: str) -> str:
    """Path of a peer's program in the directory of peers. Raises :class:`Unavailable` with what building it said."""
    path = peers / "bin" / name
    if path.exists():
        return str(path)
    why = peers / f"{name}.why"
    lines = why.read_text().split("\n") if why.exists() else []
    raise Unavailable(lines[0] if lines and lines[0] else f"{name} was not built: run bench/peers/build {peers} {name}")


def give(place: Place, device: str, address: str, mtu: int = 0) -> None:
    """Give a point-to-point device its address, and set it up."""
    place.run(["ip", "address", "replace", f"{address}/24", "dev", device])
    place.run(["ip", "link", "set", device, *(["mtu", str(mtu)] if mtu else []), "up"])


def exists(place: Place, device: str) -> bool:
    """Whether a place has a device."""
    return place.run(["ip", "link", "show", device], check=False).returncode == 0


def reached(place: Place, address: str, what: str, timeout: float = 20.0) -> None:
    """Wait until an echo comes back."""
    ping = ["ping", "-c1", "-W1", address]
    wait(lambda: place.run(ping, check=False).returncode == 0, timeout=timeout, what=f"echo over {what}")


def kernel_has(module: str) -> None:
    """Load a module of the kernel, where that is possible; whether it works is for the caller to try."""
    run(["modprobe", module], check=False) if Path("/sbin/modprobe").exists() else None
