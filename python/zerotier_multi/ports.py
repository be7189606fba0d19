"""Who has the port of an instance, and what else keeps it from working, in words."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from zerotier_multi.engine_choice import has_socket
from zerotier_multi.listener import LISTENING, UDP_TABLES, Sock, rows, user_name
from zerotier_multi.plan import InstancePlan

_TIME_WAIT = 6  # net/tcp_states.h


@dataclass(frozen=True)
class Holder:
    """A socket of another program at a port; ``pid`` 0 and no ``program``: not known, as for all but root."""

    protocol: str  # TCP or UDP
    user: str  # empty: connections that have just ended hold the port for a minute, as zerotier-one sees it
    pid: int = 0
    program: str = ""

    def __str__(self) -> str:
        if not self.user:
            return "connections that have just ended"
        return f"{self.program} (pid {self.pid}) of user {self.user}" if self.pid else f"user {self.user}"


def in_the_way(instance: InstancePlan, named: bool = True) -> Holder | None:
    """Who has the port of an instance that does not run; None for nobody. ztnode runs without its TCP port.

    Without ``named`` only the user is known: the program is looked for in all processes.
    """
    return holder(instance.port, tcp=not has_socket(instance.engine), named=named)


def holder(port: int, tcp: bool = True, named: bool = True) -> Holder | None:
    """Who has a UDP port of this machine or, with ``tcp``, listens on that of TCP."""
    streams = [one for one in rows() if one.own[1] == port] if tcp else []
    listening, udp = [one for one in streams if one.state == LISTENING], [one for one in rows(UDP_TABLES) if one.own[1] == port]
    for protocol, found in (("TCP", listening), ("UDP", udp)):
        if found:
            pid, program = process_with(found[0].inode) if named else (0, "")
            return Holder(protocol, user_name(found[0].user), pid, program)
    return Holder("TCP", "") if any(one.state == _TIME_WAIT for one in streams) else None


def process_with(inode: int, proc: Path = Path("/proc")) -> tuple[int, str]:
    """Number and name of a process that has a socket open; (0, "") where that cannot be seen."""
    for process in proc.glob("[0-9]*"):
        try:
            if any(os.readlink(entry) == f"socket:[{inode}]" for entry in os.scandir(process / "fd")):
                # A program may call itself anything.
                name = "".join(c if c.isprintable() and c.isascii() else "?" for c in (process / "comm").read_text().strip())
                return int(process.name), name
        except OSError:
            continue
    return 0, ""


def udp_places(port: int, sockets: Iterable[Sock] | None = None) -> list[tuple[str, int]]:
    """Addresses at which programs of root have a UDP port, with the port."""
    found = rows(UDP_TABLES) if sockets is None else sockets
    return sorted({one.own for one in found if one.own[1] == port and one.user == 0})
