"""Sockets of a lab's router keep sending while its IPv6 routes change, whatever the generation of the machine's own is."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from lab.generation import run_ahead
from lab.process import run

NAMESPACE = "ztl-generation"
CHANGES = 1500  # more than the routes of a machine that has just been started
# Two sockets of one CPU, in turn: what the first looks up anew is let go under the second.
SEND = f"""
import os, socket, subprocess
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
sockets = [socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) for _ in range(2)]
for sock in sockets:
    sock.connect(("2001:db8:55::2", 7000))
ip = subprocess.Popen(["ip", "-6", "-force", "-batch", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def sent():
    return int(open("/sys/class/net/there/statistics/tx_packets").read())
lost = 0
for _ in range({CHANGES}):
    ip.stdin.write("route add unreachable 2001:db8:99::/64\\nroute del unreachable 2001:db8:99::/64\\nroute get ::1\\n")
    ip.stdin.flush()
    ip.stdout.readline()
    before = sent()
    for sock in sockets:
        sock.send(b"flow")
    lost += before + 2 - sent()
print(lost)
"""


@pytest.fixture
def namespace() -> Iterator[str]:
    """One with a route over a next-hop object, to a device that takes everything."""
    run(["ip", "netns", "add", NAMESPACE])
    try:
        run_ahead(NAMESPACE)
        lines = (
            "link set lo up",
            "link add name there type veth peer name back",
            "link set back up",
            "link set there up",
            "addr add 2001:db8:1::1/64 dev there nodad",
            "neigh add 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev there nud permanent",
            "nexthop add id 1 via 2001:db8:1::2 dev there",
            "route add 2001:db8:55::2/128 nhid 1",
        )
        run(["ip", "-netns", NAMESPACE, "-6", "-batch", "-"], text_input="\n".join(lines) + "\n")
        yield NAMESPACE
    finally:
        run(["ip", "netns", "del", NAMESPACE])


def test_sockets_of_a_router_outlive_changes_of_its_routes(namespace: str) -> None:
    assert int(run(["ip", "netns", "exec", namespace, sys.executable, "-c", SEND]).stdout) <= 0
