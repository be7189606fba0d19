"""Notifications of the kernel: read in portions, kept only where they matter, and told when some were lost."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from zerotier_multi.names import RT_PROTO
from zerotier_multi.netlink import messages
from zerotier_multi.netlink.messages import HEADER, Message
from zerotier_multi.netlink.rtnl import Rtnl
from zerotier_multi.netlink.sockets import MANY, Closable, EventSocket
from zerotier_multi.pathd.kernel.notices import GROUPS, Neighbours, Prefixes, concerns_us
from zerotier_multi.pathd.router import Router

NAMESPACE = f"events-{os.getpid()}"
ROUTES = 20_000  # of another program: far more than fit into the queue
PREFIXES = Prefixes(["203.0.113.0/24"])


def everything(_message: Message) -> bool:
    return True


def matters(message: Message) -> bool:
    return concerns_us(message, ()) or PREFIXES.touched_by(message)


@pytest.fixture
def namespace() -> Iterator[Callable[[Callable[[], Closable]], Any]]:
    """Makes a socket in a network namespace with one device: it stays in the namespace that it was made in."""
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    batch("link set lo up", "address add 192.0.2.1/24 dev lo")
    made: list[Closable] = []

    def inside(make: Callable[[], Closable]) -> Closable:
        def work() -> None:
            with open(f"/run/netns/{NAMESPACE}") as file:
                assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0) == 0
            made.append(make())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return made[-1]

    yield inside
    for each in made:
        each.close()
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


@pytest.fixture
def events(namespace: Callable[[Callable[[], Closable]], Any]) -> EventSocket:
    """The daemon's notices."""
    found: EventSocket = namespace(lambda: EventSocket(GROUPS))
    return found


def batch(*commands: str) -> None:
    subprocess.run(["ip", "-n", NAMESPACE, "-batch", "-"], input="\n".join(commands), text=True, check=True)


def route(number: int) -> str:
    return f"route add 198.{18 + number // 65536}.{number // 256 % 256}.{number % 256} dev lo"


def test_routes_of_others_are_read_and_not_kept(events: EventSocket) -> None:
    batch(*map(route, range(100)), "route add 203.0.113.7 dev lo", *map(route, range(100, 200)))
    found = events.read(matters)
    assert found is not None and [PREFIXES.touched_by(message) for message in found] == [True]
    assert events.read(everything) == []


def test_of_a_full_table_nothing_is_kept_and_what_comes_after_the_loss_is_told(events: EventSocket) -> None:
    batch(*map(route, range(ROUTES)), "route add 203.0.113.7 dev lo")
    readings = 0
    while (found := events.read(everything)) is None:
        readings += 1
        assert readings <= 10, "it has an end"
    assert readings and found == []
    batch("route add 203.0.113.8 dev lo")
    assert [message.type for message in events.read(matters) or ()] == [messages.RTM_NEWROUTE]


def test_the_kernel_queues_nothing_after_a_loss_until_the_queue_was_empty(events: EventSocket) -> None:
    """So a reading that ends before that has not told the last loss."""
    batch(*map(route, range(ROUTES)))
    with pytest.raises(OSError, match=os.strerror(errno.ENOBUFS)):
        events._socket.recv(1)
    batch("route add 203.0.113.7 dev lo")
    kinds, lost = [], 0
    while select.select([events], [], [], 0)[0]:
        try:
            kinds.append(events._socket.recv(1 << 16))
        except OSError:
            lost += 1
    assert kinds and not lost and not any(socket.inet_aton("203.0.113.7") in kind for kind in kinds)


def test_the_default_routes_of_a_full_table_are_read_without_the_rest(namespace: Callable[[Callable[[], Closable]], Any]) -> None:
    rtnl: Rtnl = namespace(Rtnl)
    batch("route add default via 198.51.100.9 dev lo onlink metric 20", *map(route, range(ROUTES)))
    tracemalloc.start()
    try:
        assert rtnl.default_gateways(4, 1, 254) == ["198.51.100.9"] and rtnl.uplinks() == {(4, 1)}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20, "20,000 routes are two megabytes"
    finally:
        tracemalloc.stop()


def test_prefixes_that_others_route_over_a_device_are_found_however_they_are_routed(
    namespace: Callable[[Callable[[], Closable]], Any],
) -> None:
    rtnl: Rtnl = namespace(Rtnl)
    batch(
        *map(route, range(2000)),
        "link add zt0 type bridge", "link set zt0 up", "address add 203.0.113.1/24 dev zt0", "address add 2001:db8::1/64 dev zt0 nodad",
        "route add 198.18.1.0/24 dev zt0 proto static", "route add 198.18.2.0/24 via 203.0.113.9 dev zt0 proto bgp table 77",
        "nexthop add id 7 dev zt0", "route add 198.18.3.0/24 nhid 7", "nexthop add id 8 dev lo", "route add 198.18.4.0/24 nhid 8",
        "route add 198.18.5.0/24 nexthop dev lo nexthop dev zt0", f"route add 198.18.6.0/24 dev zt0 proto {RT_PROTO}",
        "route add 2001:db8:1::/48 dev zt0", "route add unreachable 198.18.7.0/24",
    )  # fmt: skip
    wanted = [f"198.18.{number}.0/24" for number in (1, 3, 5, 2)] + ["2001:db8:1::/48"]
    found = rtnl.prefixes_over(rtnl.links()["zt0"].index)
    assert sorted(found) == sorted(wanted) and found[-1] == wanted[-1]
    assert rtnl.prefixes_over(99) == []


class Queue:
    """A netlink socket in miniature: datagrams, and errors between them."""

    def __init__(self, *content: bytes | OSError) -> None:
        self.content = list(content)

    def recv(self, _size: int) -> bytes:
        if not self.content:
            raise BlockingIOError
        first = self.content.pop(0)
        if isinstance(first, OSError):
            raise first
        return first


def over(queue: Queue) -> EventSocket:
    made = EventSocket([])
    made._socket.close()
    made._socket = queue  # type: ignore[assignment]
    return made


def datagram(number: int) -> bytes:
    body = struct.pack("=I", number)
    return HEADER.pack(HEADER.size + len(body), messages.RTM_NEWLINK, 0, 0, 0) + body


def numbers(found: list[Message] | None) -> list[int] | None:
    return None if found is None else [struct.unpack("=I", message.body)[0] for message in found]


def test_a_reading_takes_a_portion_and_leaves_the_rest() -> None:
    queue = Queue(*map(datagram, range(2 * MANY + 5)))
    events = over(queue)
    assert numbers(events.read(everything)) == list(range(MANY)) and len(queue.content) == MANY + 5
    assert numbers(events.read(lambda message: message.body == struct.pack("=I", MANY + 7))) == [MANY + 7]
    assert numbers(events.read(everything)) == [2 * MANY + n for n in range(5)] and events.read(everything) == []


def test_after_a_loss_nothing_counts_until_the_queue_was_empty() -> None:
    full = OSError(errno.ENOBUFS, "")
    queue = Queue(datagram(1), full, *map(datagram, range(MANY)))
    events = over(queue)
    kept: list[Message] = []
    assert events.read(lambda message: kept.append(message) or True) is None and len(kept) == 1
    assert queue.content, "a portion of what is left over"
    assert events.read(everything) is None and not queue.content
    queue.content = [datagram(7)]
    assert numbers(events.read(everything)) == [7]


def test_another_error_is_none_of_a_loss() -> None:
    with pytest.raises(OSError, match="gone"):
        over(Queue(OSError(errno.EBADF, "gone"))).read(everything)


@pytest.mark.parametrize(
    ("notices", "told"),
    [
        (None, None),
        ([], False),
        ([Message(messages.RTM_NEWROUTE, struct.pack("=BBBBBBBBI", 2, 32, 0, 0, 254, 3, 0, 1, 0))], False),
        ([Message(messages.RTM_NEWLINK, b"")], True),
    ],
    ids=["some were lost", "none", "a route of others", "a device"],
)
def test_what_was_lost_is_looked_for_at_leisure(notices: list[Message] | None, told: bool | None) -> None:
    """A table of another program that is filled may lose notices all the time."""
    router = SimpleNamespace(
        notices=SimpleNamespace(read=lambda keep: None if notices is None else list(filter(keep, notices))),
        _repairs=SimpleNamespace(ignored=lambda _now: ()),
        _neighbours=Neighbours(),
        _prefixes=PREFIXES,
        _gateways=SimpleNamespace(stale=False),
    )
    assert Router.noticed(router) is told  # type: ignore[arg-type]
    assert router._gateways.stale == (told is not False)
