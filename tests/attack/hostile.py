"""A hostile root on a router of the lab: sends any frame over its paths; and what the router that is attacked looks like."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from lab import Router, scenario

# Sends the frames of standard input, each as hexadecimal digits behind its device.
_SEND = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
for line in sys.stdin:
    device, data = line.split()
    while True:
        try:
            sock.sendto(bytes.fromhex(data), (device, 0))
            break
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno != 105:  # ENOBUFS
                raise
"""

# Prints who sends what to a UDP port, over either family, until that is "end" for as many times as told.
_LISTEN = """
import socket, sys
sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
sock.bind(("::", int(sys.argv[1])))
print("ready", flush=True)
left = int(sys.argv[2])
while left:
    data, source = sock.recvfrom(2048)
    left -= data == b"end"
    if data != b"end":
        print(source[0].removeprefix("::ffff:"), data.decode(), flush=True)
"""


def send(router: Router, frames: Iterable[tuple[str, bytes]]) -> None:
    """Send frames, each out of the device that is named with it, as fast as the devices take them."""
    lines = "".join(f"{device} {data.hex()}\n" for device, data in frames)
    router.run(["/usr/bin/python3", "-c", _SEND], text_input=lines, timeout=120)


# Prints the ICMP messages of our own probes that leave by a device: family, and the message as hexadecimal digits.
_OVERHEAR = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.bind((sys.argv[1], 3))
print("ready", flush=True)
left = int(sys.argv[2])
while left:
    frame, source = sock.recvfrom(2048)
    four = frame[12:14] == b"\\x08\\x00"
    message = frame[34:] if four else frame[54:]
    if source[2] == 4 and message[8:12] == bytes.fromhex("7a746d31"):
        print(4 if four else 6, message.hex(), flush=True)
        left -= 1
"""

# Prints the addresses that ARP answers on a device tell of, until that of the second argument.
_ASK = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
sock.bind((sys.argv[1], 0x0806))
for line in sys.stdin:
    sock.send(bytes.fromhex(line))
while True:
    frame = sock.recv(2048)
    told = socket.inet_ntoa(frame[28:32])
    if frame[20:22] == b"\\x00\\x02":
        print(told)
        if told == sys.argv[2]:
            break
"""


def overheard(router: Router, device: str, count: int) -> list[tuple[int, bytes]]:
    """So many of a router's own probes, as (family, ICMP message)."""
    lines = router.run(["/usr/bin/python3", "-c", _OVERHEAR, device, str(count)]).stdout.splitlines()[1:]
    return [(int(family), bytes.fromhex(message)) for family, message in map(str.split, lines)]


def answered(router: Router, device: str, questions: Iterable[bytes], last: str) -> list[str]:
    """Addresses that ARP requests are answered for, up to ``last``."""
    lines = "".join(f"{question.hex()}\n" for question in questions)
    return router.run(["/usr/bin/python3", "-c", _ASK, device, last], text_input=lines, timeout=20).stdout.split()


@contextmanager
def listening(router: Router, port: int, ends: int) -> Iterator[subprocess.Popen[str]]:
    """A program that tells what comes to a UDP port; it ends by itself after so many words "end"."""
    program = router.popen(["/usr/bin/python3", "-c", _LISTEN, str(port), str(ends)])
    assert program.stdout and program.stdout.readline() == "ready\n"
    try:
        yield program
    finally:
        program.kill()
        program.wait()


@cache
def hardware(router: Router, device: str) -> str:
    """MAC of a device, which is that of its instance's identity."""
    return router.read(f"/sys/class/net/{device}/address").strip()


def link_local(router: Router, device: str) -> str:
    """The link-local address of a device."""
    found = router.json(["ip", "-j", "-6", "address", "show", "dev", device, "scope", "link"])
    return next(str(entry["local"]) for link in found for entry in link.get("addr_info", []) if "local" in entry)


def memory(router: Router, unit: str) -> int:
    """Bytes that the main process of a unit has in memory."""
    return scenario.memory(router, scenario.main_pid(router, unit)) * 1024


_SETTINGS = """
grep -rs '' /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf | sort
ip nexthop
for target in 10.0.55.2 10.0.55.3 2001:db8:55::2 2001:db8:55::3 192.0.2.1 2001:db8:7::7 198.51.100.3; do
    ip route get $target 2>&1 | sed 's/expires.*//'
done
ip -4 rule; ip -6 rule
ip -4 neigh show nud permanent; ip -6 neigh show nud permanent
ip -br address show
nft -s -t list ruleset
cat /etc/resolv.conf
"""


def state(router: Router) -> str:
    """What nobody else may change: routes, rules, next hops, settings, addresses, permanent neighbours, the firewall."""
    routes = [_lasting(router.json(["ip", "-j", f"-{family}", "route", "show", "table", "all"])) for family in (4, 6)]
    return "\n".join([router.run(["sh", "-c", _SETTINGS]).stdout, *(repr(route) for table in routes for route in table)])


def _lasting(routes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Routes without the numbers that change by themselves."""
    return sorted(({k: v for k, v in route.items() if k not in ("expires", "used", "age")} for route in routes), key=repr)
