"""Datagrams through two instances are what was sent: each of them, in the order of its flow, whatever the offloads are.

What one end sends in a burst the other end has before the next burst, so nothing is lost for want of room.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.process import run, wait
from tests.engine.test_contract import Host, Node, bring_up, engine, hosts, link, mac, reaches  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

TAP = ["tso", "uso", "tcp-gro", "udp-gro"]
UNDERLAY = ["underlay-gso", "underlay-gro", "shortcut"]
MTU = 1394
BURSTS, FLOWS = 50, 3
AES = {"aes", "pclmulqdq"} <= set(Path("/proc/cpuinfo").read_text().split())  # without them the core works alone
UDP_SEGMENT, SO_NO_CHECK, SO_RCVBUFFORCE, CLONE_NEWNET = 103, 11, 33, 0x40000000
DISCOVER = {4: (socket.IPPROTO_IP, 10), 6: (socket.IPPROTO_IPV6, 23)}  # IP_MTU_DISCOVER, IPV6_MTU_DISCOVER


def socket_in(host: Host, family: int) -> socket.socket:
    """A UDP socket of another namespace; the thread that makes it goes there and ends."""
    made = []

    def make() -> None:
        namespace = os.open(f"/run/netns/{host.name}", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM))
        finally:
            os.close(namespace)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


@contextmanager
def flows(sender: Host, receiver: Host, address: str, checksum: bool) -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Connected sockets here, and those of the far end that receive from them; every other one may not fragment."""
    family = 6 if ":" in address else 4
    with ExitStack() as stack:
        made = []
        for number in range(FLOWS):
            near, far = (stack.enter_context(socket_in(host, family)) for host in (sender, receiver))
            far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
            far.bind(("0.0.0.0" if family == 4 else "::", 7000 + number))
            far.settimeout(15)
            near.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, not checksum)
            near.setsockopt(*DISCOVER[family], number % 2 * 2)
            near.connect((address, 7000 + number))
            made.append((near, far))
        yield made


def burst(chance: random.Random, near: socket.socket, largest: int, whole: bool, segments: bool) -> list[bytes]:
    """Send some datagrams; returns them. ``whole``: none in fragments; ``segments``: the kernel may cut them."""
    sizes = [0, 1, 2, 3, 63, 64, 65, 100, 535, 536, 1199, 1200, 1201, largest - 1, largest]
    size = chance.choice(sizes)
    kind = chance.choice(["same", "mixed", "segments", "large"])
    if kind == "segments" and segments and size:
        data = chance.randbytes(min(60000, size * chance.randrange(1, 40) + chance.randrange(size)))
        near.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size)
        near.send(data)
        near.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        return [data[at : at + size] for at in range(0, len(data), size)]
    lengths = [size] * chance.randrange(1, 12)
    if kind == "mixed":
        lengths = [chance.randrange(largest + 1) for _ in range(chance.randrange(1, 8))]
    elif kind == "large" and not whole:
        lengths = [size, size, chance.choice([1500, 4001, 9000]), size]
    sent = [chance.randbytes(length) for length in lengths]
    for data in sent:
        near.send(data)
    return sent


def exchange(sender: Host, receiver: Host, address: str, *, checksum: bool = True) -> int:
    """Many bursts of several flows at once, each of which arrives as it was sent; returns how many datagrams that were."""
    largest = MTU - (48 if ":" in address else 28)
    count = 0
    chance = random.Random(largest)
    with flows(sender, receiver, address, checksum) as pairs:
        for number in range(BURSTS):
            sent = [burst(chance, near, largest, index % 2 == 1, checksum) for index, (near, _) in enumerate(pairs)]
            count += sum(len(data) for data in sent)
            for index, (_, far) in enumerate(pairs):
                for place, data in enumerate(sent[index]):
                    got = far.recv(65536)
                    assert got == data, (
                        f"burst {number}, flow {index}, datagram {place}: {len(data)} bytes sent, {len(got)} received"
                    )
        assert not select.select([far for _, far in pairs], [], [], 0)[0]
    return count


def address_both(a: Node, b: Node, device: str, prefix4: str, prefix6: str) -> None:
    """Addresses .1 and .2, ::1 and ::2 on a device of both ends, and the neighbours."""
    for number, node, other in ((1, a, b), (2, b, a)):
        lladdr = mac((other.home / "identity.public").read_text())
        for address, length in ((f"{prefix4}{number}", 30), (f"{prefix6}{number}", 64)):
            node.host.run("ip", "addr", "replace", f"{address}/{length}", "dev", device, *(["nodad"] if ":" in address else []))
        for address in (f"{prefix4}{3 - number}", f"{prefix6}{3 - number}"):
            node.host.run("ip", "neigh", "replace", address, "lladdr", lladdr, "dev", device)


def packets(node: Node, counter: str) -> int:
    """How many packets the kernel has handed over to the TAP (tx) or got from it (rx); a super-packet is one."""
    return int(node.host.run("cat", f"/sys/class/net/zt0p1/statistics/{counter}_packets"))


def offloads(node: Node) -> dict[str, bool]:
    code, networks = node.get("/network")
    assert code == 200 and isinstance(networks, list)
    status = node.get("/status")[1]
    assert isinstance(status, dict)
    return {**networks[0]["offloads"], **status["underlay"]["offloads"]}


Make = Callable[[Sequence[str]], tuple[Node, Node]]


@pytest.fixture
def ends(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> Make:
    """Start two linked instances without some offloads."""

    def make(off: Sequence[str]) -> tuple[Node, Node]:
        a, b = Node(engine, hosts[0], tmp_path / "a"), Node(engine, hosts[1], tmp_path / "b")
        for node in (a, b):
            node.settings["offloadDisable"] = [*off, "an offload of the future"]
        link(a, b, (["198.51.100.1"], ["198.51.100.2"]))
        bring_up(a, b)
        wait(lambda: reaches(a), timeout=20, what="echo over the link")
        address_both(a, b, "zt0p1", "10.14.0.", "2001:db8:14::")
        return a, b

    return make


@pytest.mark.parametrize(
    "off",
    [[], ["uso"], ["udp-gro"], ["tso", "underlay-gso"], ["tcp-gro", "underlay-gro"], [*TAP, *UNDERLAY]],
    ids=lambda off: "+".join(off) or "none",
)
def test_datagrams_arrive_as_they_were_sent(ends: Make, off: list[str]) -> None:
    a, b = ends(off)
    has = offloads(a)
    assert list(has) == [*TAP, *UNDERLAY]
    new = has["uso"] or has["udp-gro"]  # this kernel has it
    machine = {**dict.fromkeys(has, True), "uso": new, "udp-gro": new, "shortcut": AES}
    assert has == {name: machine[name] and name not in off for name in has}
    before = packets(a, "tx"), packets(b, "rx")
    count = exchange(a.host, b.host, "10.14.0.2") + exchange(a.host, b.host, "2001:db8:14::2")
    for name, counter, node, earlier in (("uso", "tx", a, before[0]), ("udp-gro", "rx", b, before[1])):
        assert (packets(node, counter) - earlier < count) == has[name]


@pytest.fixture
def lans(ends: Make) -> Iterator[tuple[Host, Host]]:
    """Hosts behind two routers, 10.16.1.2 and 10.16.2.2, 2001:db8:16:1::2 and 2001:db8:16:2::2."""
    behind = []
    routers = ends([])
    try:
        for number, node in enumerate(routers, start=1):
            host = Host(f"ztlan{number}-{os.getpid()}")
            behind.append(host)
            run(["ip", "-n", node.host.name, "link", "add", "lan", "type", "veth", "peer", "name", "eth0", "netns", host.name])
            for which, device, last in ((node.host, "lan", 1), (host, "eth0", 2)):
                which.run("ip", "addr", "add", f"10.16.{number}.{last}/24", "dev", device)
                which.run("ip", "addr", "add", f"2001:db8:16:{number}::{last}/64", "dev", device, "nodad")
                which.run("ip", "link", "set", device, "mtu", str(MTU), "up")
            for family, prefix, via in ((4, "10.16.{}.0/24", "10.14.0.{}"), (6, "2001:db8:16:{}::/64", "2001:db8:14::{}")):
                there = 3 - number
                node.host.run("ip", f"-{family}", "route", "add", prefix.format(there), "via", via.format(there))
            host.run("ip", "route", "add", "default", "via", f"10.16.{number}.1")
            host.run("ip", "-6", "route", "add", "default", "via", f"2001:db8:16:{number}::1")
            node.host.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        yield behind[0], behind[1]
    finally:
        for host in behind:
            host.close()


def test_datagrams_of_hosts_behind_routers(lans: tuple[Host, Host]) -> None:
    near, far = lans
    for address in ("10.16.2.2", "2001:db8:16:2::2"):
        wait(
            lambda target=address: (
                run(["ip", "netns", "exec", near.name, "ping", "-c1", "-W1", target], check=False).returncode == 0
            ),
            timeout=20,
            what="the other host",
        )  # type: ignore[misc]
        exchange(near, far, address)
    exchange(near, far, "10.16.2.2", checksum=False)
