"""Traffic between two ends, by iperf3 or iperf 2, and what came of it.

Debian's iperf3 3.12 has one thread, so streams are spread over several processes; iperf 2 has threads of its own and
is the cross-check.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.ends import Cost, End, Place, cost
from lab.process import LabError

FIRST_PORT = 5201
SEARCH = 7  # rates that are tried for UDP without loss; the last two differ by a 64th of the first
BUFFER = 4 << 20  # bytes, where the system allows them
SLACK = 40.0  # seconds that a program may take longer than it was asked to


@dataclass(frozen=True)
class Kind:
    """A kind of traffic; its streams are shared by so many processes in each direction."""

    streams: int
    processes: int = 1
    both: bool = False  # both ways at once: ``streams`` each way, and the sum counts
    udp: int = 0  # bytes of a datagram; 0 is TCP
    program: str = "iperf3"
    loss: float = 1.0  # UDP: the share that may be lost; below 1 the rate is searched at which no more is
    buffer: int = 0  # bytes of a socket's buffers; 0 is the system's default


KINDS: Mapping[str, Kind] = {
    "tcp-1": Kind(1),
    "tcp-8": Kind(8, 2),
    "tcp-16": Kind(16, 4),
    "tcp-64": Kind(64, 4),
    "tcp-bidir": Kind(4, 1, both=True),
    "udp-1200": Kind(1, udp=1200),
    "udp-64": Kind(1, udp=64),
    "udp-1200 lossless": Kind(1, udp=1200, loss=0.005),
    "tcp-16 iperf2": Kind(16, program="iperf2"),
}


@dataclass(frozen=True)
class Carried:
    """What traffic came to: received Mbit/s, share lost (UDP), CPU over its time, and the commands of the sender."""

    mbit: float
    lost: float
    seconds: float
    cost: Cost
    commands: tuple[str, ...]

    @property
    def cpu_per_gbit(self) -> float:
        """CPU seconds of the whole machine for each Gbit that was received."""
        return self.cost.machine / (self.mbit * self.seconds / 1000)

    @property
    def process_cpu_per_gbit(self) -> float:
        """The same of the subject's processes alone."""
        return self.cost.processes / (self.mbit * self.seconds / 1000)


def scaled(kind: Kind, times: int) -> Kind:
    """So many times the streams, over four processes at most: the receivers' cores are those of the subject here."""
    return replace(kind, streams=kind.streams * times, processes=max(kind.processes, min(4, kind.processes * times)))


def over(kind: Kind, ways: int) -> Kind:
    """The kind with as many processes as it takes to use so many pairs of addresses alike; streams are rounded up."""
    if ways < 2 or kind.streams == 1:
        return kind
    processes = min(kind.streams, ways * -(-kind.processes // ways))
    return replace(kind, processes=processes, streams=processes * -(-kind.streams // processes))


def client_commands(kind: Kind, target: str, source: str, seconds: int, rate_mbit: float = 0) -> list[list[str]]:
    """The senders' commands; process N speaks with the server on port 5201 + N. ``rate_mbit`` limits every stream."""
    streams = kind.streams // kind.processes
    if kind.program == "iperf2":
        command = ["iperf", "-c", target, "-B", source, "-P", str(streams), "-t", str(seconds), "-f", "m"]
        return [[*command, "-p", str(FIRST_PORT + number)] for number in range(kind.processes)]
    commands = []
    for number in range(kind.processes * (2 if kind.both else 1)):
        command = ["iperf3", "-J", "-c", target, "-B", source, "-p", str(FIRST_PORT + number), "-t", str(seconds)]
        command += ["-P", str(streams)] if streams > 1 else []
        command += ["-u", "-l", str(kind.udp)] if kind.udp else []
        command += ["-b", f"{rate_mbit:g}M" if rate_mbit else "0"] if kind.udp or rate_mbit else []
        command += ["-w", str(kind.buffer)] if kind.buffer else []
        command += ["-R"] if number >= kind.processes else []
        commands.append(command)
    return commands


def whole(seconds: float) -> int:
    """Seconds as iperf3 takes them: whole ones, and 0 would be for ever."""
    return max(1, round(seconds))


def received(report: Mapping[str, Any]) -> tuple[float, float]:
    """Received Mbit/s and share of lost datagrams of an iperf3 report. Raises :class:`LabError` with iperf3's own words."""
    if "error" in report:
        raise LabError(f"iperf3: {report['error']}")
    end = report["end"]
    whole = end.get("sum_received") or end["sum"]
    lost = float(end.get("sum", {}).get("lost_percent") or 0) / 100
    return float(whole["bits_per_second"]) / 1e6, lost


def received_iperf2(text: str) -> float:
    """Received Mbit/s out of what a server of iperf 2 prints with ``-f m``: the sum, or its only stream."""
    found = re.findall(r"^\[(SUM|\s*\d+)\].*?([\d.]+) Mbits/sec", text, re.MULTILINE)
    sums = [float(rate) for name, rate in found if name == "SUM"]
    if not found:
        raise LabError(f"iperf 2 printed no rate: {text[-200:]!r}")
    return sums[-1] if sums else float(found[-1][1])


class Senders:
    """Traffic that runs; :meth:`end` waits for it."""

    def __init__(self, kind: Kind, here: End, there: End, seconds: float, rate_mbit: float = 0) -> None:
        ways = list(zip(here.addresses, there.addresses, strict=True))
        kind = over(kind, len(ways))
        if kind.program == "iperf2":
            _demand_iperf2(here.place, there.place)
        self._kind, self.seconds = kind, whole(seconds)
        count = len(client_commands(kind, there.address, here.address, self.seconds, rate_mbit))
        used = [ways[number % len(ways)] for number in range(count)]  # of each process
        self._commands = [
            client_commands(kind, target, source, self.seconds, rate_mbit)[number] for number, (source, target) in enumerate(used)
        ]
        self._servers: list[subprocess.Popen[str]] = []
        self._clients: list[subprocess.Popen[str]] = []
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            for number, (_, target) in enumerate(used):
                port = FIRST_PORT + number
                server = ["iperf3", "-s", "-1", "-B", target, "-p", str(port)]
                if kind.program == "iperf2":
                    server = ["iperf", "-s", "-B", target, "-p", str(port), "-f", "m", "-P", str(kind.streams // kind.processes)]
                self._servers.append(there.place.popen(server, **(pipe if kind.program == "iperf2" else {})))
                there.place.listens(port)
            self._clients = [here.place.popen(command, **pipe) for command in self._commands]
        except BaseException:
            self.kill()
            raise

    @property
    def commands(self) -> tuple[str, ...]:
        """What the senders run."""
        return tuple(map(shlex.join, self._commands))

    def end(self) -> tuple[float, float]:
        """Wait for the end; received Mbit/s and share of lost datagrams."""
        try:
            limit = time.monotonic() + self.seconds + SLACK
            texts = [client.communicate(timeout=max(1.0, limit - time.monotonic()))[0] for client in self._clients]
            if self._kind.program == "iperf2":
                return sum(received_iperf2(server.communicate(timeout=10)[0]) for server in self._servers), 0.0
            return combine([_report(text) for text in texts])
        except subprocess.TimeoutExpired:
            raise LabError(f"{self.commands[0]}: not done after {self.seconds + SLACK:g} s") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Stop at once."""
        for process in (*self._clients, *self._servers):
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def combine(reports: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Received Mbit/s of several processes together, and the mean share of lost datagrams."""
    figures = [received(report) for report in reports]
    return sum(rate for rate, _ in figures), sum(lost for _, lost in figures) / len(figures)


def _report(text: str) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except ValueError:
        raise LabError(f"iperf3 printed no report: {text[-200:]!r}") from None


def _demand_iperf2(*places: Place) -> None:
    """Raises :class:`LabError` at once; a server that is not there would be waited for."""
    for place in places:
        if place.run(["which", "iperf"], check=False).returncode:
            raise LabError(f"{place.name} has no iperf (2); install it there: apt install iperf")


def _machine() -> Cost:
    return cost(())


def socket_limits(place: Place) -> list[int]:
    """The largest buffers that sockets may ask for there, in bytes: to receive and to send."""
    paths = [f"/proc/sys/net/core/{name}" for name in ("rmem_max", "wmem_max")]
    try:
        return list(map(int, place.run(["cat", *paths]).stdout.split()))
    except LabError:  # an older kernel shows them outside network namespaces only
        return [int(Path(path).read_text()) for path in paths]


def carry(
    name: str, ends: tuple[End, End], seconds: float, meter: Callable[[], Cost] = _machine, times: int = 1, mbit: float = 0
) -> Carried:  # fmt: skip
    """Send one kind of traffic, ``times`` its streams, for so long, and take what it costs meanwhile.

    ``mbit`` is the rate of all streams together; 0 is as fast as possible.
    UDP that may not be lost is sent several times, half as long, and the highest rate that arrives counts.
    """
    kind = scaled(KINDS[name], times)
    if kind.udp:
        # The default buffer is full after a hundred packets: what is lost then is the receiver's, not the link's.
        kind = replace(kind, buffer=min(BUFFER, *(limit for end in ends for limit in socket_limits(end.place))))
    if kind.loss == 1:
        return _once(kind, ends, seconds, meter, mbit / kind.streams)
    flood = _once(kind, ends, seconds / 2, meter)
    return highest(lambda rate: _once(kind, ends, seconds / 2, meter, rate), flood, kind.loss)


def highest(attempt: Callable[[float], Carried], flood: Carried, loss: float) -> Carried:
    """The attempt at the highest rate (Mbit/s) at which at most ``loss`` is lost, by halving what is below the rate that arrives
    of a flood. Raises :class:`LabError` when more is lost at each."""
    if flood.lost <= loss:
        return flood
    best, low, high = None, 0.0, flood.mbit
    for number in range(SEARCH):
        rate = (low + high) / 2 if number else high  # a flood may cost more than it carries
        tried = attempt(rate)
        if tried.lost <= loss:
            best, low, high = tried, rate, high if number else 2 * high
        else:
            high = rate
    if best is None:
        raise LabError(f"more than {loss:.1%} is lost at any rate down to {high:.0f} Mbit/s")
    return best


def _once(kind: Kind, ends: tuple[End, End], seconds: float, meter: Callable[[], Cost], rate_mbit: float = 0) -> Carried:
    senders = Senders(kind, *ends, seconds, rate_mbit)
    before = meter()
    try:
        mbit, lost = senders.end()
        spent = meter().since(before)
    finally:
        senders.kill()
    if mbit <= 0:
        raise LabError(f"nothing was received: {senders.commands[0]}")
    return Carried(mbit, lost, senders.seconds, spent, senders.commands)
