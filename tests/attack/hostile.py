"""A hostile root on a router of the lab: sends any frame over its paths; and what the router that is attacked looks like."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

from lab import Router

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


def hardware(router: Router, device: str) -> str:
    """MAC of a device."""
    return router.read(f"/sys/class/net/{device}/address").strip()


def link_local(router: Router, device: str) -> str:
    """The link-local address of a device."""
    found = router.json(["ip", "-j", "-6", "address", "show", "dev", device, "scope", "link"])
    return str(found[0]["addr_info"][0]["local"])


def memory(router: Router, unit: str) -> int:
    """Bytes that the main process of a unit has in memory."""
    pid = router.run(["systemctl", "show", "--value", "--property=MainPID", unit]).stdout.strip()
    found = re.search(r"VmRSS:\s+(\d+) kB", router.read(f"/proc/{pid}/status"))
    assert found
    return int(found[1]) * 1024


_SETTINGS = """
for file in $(find /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf -type f -name '[a-z]*' ! -name stable_secret); do
    echo "$file $(cat $file 2>/dev/null)"
done
ip nexthop
ip -4 rule; ip -6 rule
ip -4 neigh show nud permanent; ip -6 neigh show nud permanent
ip -br address show
nft -s list ruleset
cat /etc/resolv.conf
"""


def state(router: Router) -> str:
    """What nobody else may change: routes, rules, next hops, settings, addresses, permanent neighbours, the firewall."""
    routes = [_lasting(router.json(["ip", "-j", f"-{family}", "route", "show", "table", "all"])) for family in (4, 6)]
    return "\n".join([router.run(["sh", "-c", _SETTINGS]).stdout, *(repr(route) for table in routes for route in table)])


def _lasting(routes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Routes without the numbers that change by themselves."""
    return sorted(({k: v for k, v in route.items() if k not in ("expires", "used", "age")} for route in routes), key=repr)
