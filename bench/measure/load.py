"""Traffic between the routers and between hosts behind them, and 1 GB of random data."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.ends import End, stop
from bench.measure.common import Context, Reading
from bench.peers.common import Link
from bench.results import Parameter
from bench.traffic import KINDS, carry
from lab.process import LabError

GIGABYTE = 10**9
PORT = 5001

# Random data made before the clock starts, as a file that was compressed is; sent at once, confirmed by the receiver.
_SEND = """
import os, socket, sys, time
source, target, port, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
block = os.urandom(1 << 24)
sock = socket.create_connection((target, port), 10, (source, 0))
sock.settimeout(120)
begin, left = time.monotonic(), size
while left:
    part = min(left, len(block)); sock.sendall(memoryview(block)[:part]); left -= part
sock.shutdown(socket.SHUT_WR)
assert sock.recv(2) == b"ok"
print(time.monotonic() - begin)
"""
_RECEIVE = """
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
sock, _ = listener.accept()
left, buffer = int(sys.argv[3]), bytearray(1 << 20)
while left and (got := sock.recv_into(buffer)): left -= got
sock.sendall(b"no" if left else b"ok")
"""


def throughput(context: Context) -> Iterator[Reading]:
    """All kinds of traffic of the scenario between the routers."""
    with context.link() as link:
        yield from _kinds(context, context.ends(link), link, context.parameters["traffic"], {})


def forwarded(context: Context) -> Iterator[Reading]:
    """The same between hosts behind the routers, with and without receive offload on the routers' LANs."""
    with context.link(lans=True) as link:
        yield from _forwarded(context, link)


def pinned(context: Context) -> Iterator[Reading]:
    """The same with the programs of both routers on one CPU, which the scenario names."""
    with context.link(lans=True) as link:
        for pid in link.pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {context.parameters["cpu"]})
        yield from _forwarded(context, link)


def _forwarded(context: Context, link: Link) -> Iterator[Reading]:
    context.lans[0].reach(context.lans[1].address)
    for offload in context.parameters["lan_offload"]:
        for lan in context.lans:
            lan.set_gro(offload != "off", udp=offload == "udp")
        kinds = [name for name in context.parameters["traffic"] if offload != "udp" or KINDS[name].udp]
        yield from _kinds(context, context.hosts, link, kinds, {"lan_offload": offload})


def _kinds(
    context: Context, ends: tuple[End, End], link: Link, kinds: Sequence[str], more: dict[str, Parameter]
) -> Iterator[Reading]:
    for name in kinds:
        parameters: dict[str, Parameter] = {"traffic": name, **more}
        try:
            carried = carry(name, ends, context.seconds, link.cost)
        except LabError as error:
            yield Reading(parameters, context.plan.metric, context.plan.unit, context.plan.better, failed=str(error))
            continue
        yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
        yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
        if link.pids:
            yield Reading(parameters, "cpu per Gbit of the processes", "CPU s", "lower", carried.process_cpu_per_gbit)
        if KINDS[name].udp:
            yield Reading(parameters, "lost", "%", "lower", carried.lost * 100)
            yield Reading(parameters, "packets", "kpps", "higher", carried.mbit * 1000 / 8 / KINDS[name].udp)


def transfer(context: Context) -> Iterator[Reading]:
    """1 GB of random data over one connection."""
    size = int(context.parameters.get("bytes", GIGABYTE))
    with context.link() as link:
        before = link.cost()
        seconds = send(context.ends(link), size)
        spent = link.cost().since(before)
        yield context.main(size * 8 / seconds / 1e6, {"bytes": size}, link.commands)
        yield Reading({"bytes": size}, "duration", "s", "lower", seconds)
        yield Reading({"bytes": size}, "cpu per Gbit", "CPU s", "lower", spent.machine / (size * 8 / 1e9))


def send(ends: tuple[End, End], size: int) -> float:
    """Seconds until the other end confirms that it has all of ``size`` random bytes."""
    here, there = ends
    server = there.place.popen(_python(_RECEIVE, [there.address, PORT, size]))
    try:
        there.place.listens(PORT)
        client = here.place.popen(_python(_SEND, [here.address, there.address, PORT, size]), stdout=subprocess.PIPE)
        try:
            return float(client.communicate(timeout=300)[0])
        except (ValueError, subprocess.TimeoutExpired):
            raise LabError(f"{size} bytes to {there.address} did not arrive") from None
        finally:
            stop(client)
    finally:
        stop(server)


def _python(program: str, arguments: Sequence[object]) -> list[str]:
    return ["/usr/bin/python3", "-c", program, *map(str, arguments)]
