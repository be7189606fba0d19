"""Many small UDP flows between two routers, or hosts behind them, echoed, and what happens to each while something breaks.

Each flow sends every 10 ms from a port of its own and notes when the echoes come: so a gap in either direction
shows, to 10 ms.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from lab.lan import Lan
from lab.router import Router
from lab.scenario import loopback

PERIOD = 0.01
PORT = 7000

_ECHO = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
sock = socket.socket(family, socket.SOCK_DGRAM)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
sock.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, source = sock.recvfrom(64)
    try:
        sock.sendto(data, source)
    except OSError:
        pass
"""
# Ends with the line "end" on standard input; then prints what each flow saw.
_CLIENT = """
import json, selectors, socket, struct, sys, time
own, other, port, first, count, period = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]), float(sys.argv[6])
family = socket.AF_INET6 if ":" in own else socket.AF_INET
selector = selectors.DefaultSelector()
socks = []
for n in range(count):
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sock.bind((own, first + n)); sock.connect((other, port)); sock.setblocking(False)
    selector.register(sock, selectors.EVENT_READ, n)
    socks.append(sock)
selector.register(sys.stdin, selectors.EVENT_READ, None)
ticks, got, last, gaps = [], [set() for _ in range(count)], [0.0] * count, [(0.0, 0.0)] * count
begin = time.monotonic()
due, running, ending = begin, True, None
print("ready", flush=True)
while ending is None or time.monotonic() < ending:
    now = time.monotonic()
    if running and now >= due:
        for n, sock in enumerate(socks):
            try:
                sock.send(struct.pack("!I", len(ticks)))
            except OSError:
                pass
        ticks.append(now)
        due += period
        if due < now - 0.1: due = now
    for key, _ in selector.select(max(0.0, min(due - now, 0.05)) if running else 0.02):
        if key.data is None:
            sys.stdin.readline()
            selector.unregister(sys.stdin)
            running, ending = False, time.monotonic() + 0.5
            continue
        try:
            while True:
                number, = struct.unpack("!I", key.fileobj.recv(64))
                at = time.monotonic()
                n = key.data
                if last[n] and at - last[n] > gaps[n][0]: gaps[n] = (at - last[n], last[n] - begin)
                last[n] = at; got[n].add(number)
        except OSError:
            pass
end = time.monotonic() - 0.5
for n in range(count):
    if end - last[n] > gaps[n][0]: gaps[n] = (end - (last[n] or begin), (last[n] or begin) - begin)
print(json.dumps([
    {"sent": len(ticks), "missing": [at for k, at in enumerate(ticks) if k not in seen], "gap": gap[0], "at": gap[1]}
    for seen, gap in zip(got, gaps)
]))
"""


@dataclass(frozen=True)
class Seen:
    """What a flow saw: packets sent, the longest time without an echo and when it began (s).

    ``missing`` is when those were sent whose echo never came, in seconds of the monotonic clock, which all routers share.
    """

    sent: int
    missing: list[float]
    gap: float
    at: float

    @property
    def lost(self) -> int:
        """Packets whose echo never came."""
        return len(self.missing)


class Flows:
    """Flows that run until :meth:`end`. ``devices`` are the member devices there and back of each.

    ``first`` is the port of the first one; other ports are other flows to the kernel's hash.
    """

    def __init__(
        self,
        client: Router | Lan,
        server: Router | Lan,
        count: int = 32,
        *,
        first: int = 20000,
        addresses: tuple[str, str] | None = None,
    ) -> None:
        own, other = addresses or (_address(client), _address(server))
        self.devices = [
            (_device(client, own, first + n, other, PORT), _device(server, other, PORT, own, first + n)) for n in range(count)
        ]
        self._server = server.popen(["/usr/bin/python3", "-c", _ECHO, other, str(PORT)])
        assert self._server.stdout and self._server.stdout.readline() == "ready\n"
        command = ["/usr/bin/python3", "-c", _CLIENT, own, other, str(PORT), str(first), str(count), str(PERIOD)]
        self._client = subprocess.Popen(
            _command(client, ["setpriv", "--pdeathsig", "KILL", *command]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._client.stdout and self._client.stdout.readline() == "ready\n"

    def end(self) -> list[Seen]:
        """Stop sending, wait for the last echoes, and tell what each flow saw."""
        output, _ = self._client.communicate("end\n", timeout=30)
        self.kill()
        return [Seen(**flow) for flow in json.loads(output)]

    def kill(self) -> None:
        """Stop at once."""
        for process in (self._client, self._server):
            process.kill()
            process.wait()


def _address(end: Router | Lan) -> str:
    return end.address if isinstance(end, Lan) else loopback(end)


def _command(end: Router | Lan, command: list[str]) -> list[str]:
    return end.router.command(end.command(command)) if isinstance(end, Lan) else end.command(command)


def _device(end: Router | Lan, source: str, sport: int, target: str, dport: int) -> str:
    router, way = (end.router, ["iif", end.device]) if isinstance(end, Lan) else (end, [])
    flow = ["from", source, *way, "ipproto", "17", "sport", str(sport), "dport", str(dport)]
    answer = router.json(["ip", "-j", "route", "get", target, *flow])
    return str(answer[0]["dev"])
