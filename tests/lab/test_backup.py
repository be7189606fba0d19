"""An instance that is a backup: it carries nothing while another path works, and everything while none does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab import Router
from lab.flows import Flows, Seen
from lab.scenario import status, wait_paths

ZT = "set interfaces zerotier zt0"
CUT = (
    "table inet cut { chain in { type filter hook input priority 0; udp dport 9993-9995 drop; }; "
    "chain out { type filter hook output priority 0; udp sport 9993-9995 drop; }; }"
)
REST = ("up", "up", "up", "backup")
MOVED = 2.0  # seconds in which flows of paths that were cut are on the backup
RESTING = 25  # packets in ten seconds, with the answers to the remote: probes every 200 ms are a hundred


def states(router: Router) -> tuple[str, ...]:
    return tuple(path["state"] for path in status(router)["bundles"]["zt0"]["paths"])


def sent(router: Router) -> int:
    """Packets that have left over path 4."""
    return int(router.read("/sys/class/net/zt0p4/statistics/tx_packets"))


def rests(router: Router) -> bool:
    """Whether a second passes with hardly a packet."""
    begin, before = time.monotonic(), sent(router)
    router.wait(lambda: time.monotonic() > begin + 1, what="a second")
    return sent(router) - before < RESTING // 5


@pytest.fixture(scope="module")
def routers(pair: list[Router]) -> Iterator[list[Router]]:
    """The first one says which instance is its backup; the second one has it from its probes."""
    pair[0].must_configure(f"{ZT} instance 4 backup")
    for router in pair:
        router.wait(lambda r=router: states(r) == REST, timeout=20, what="path 4 as a backup")
        router.wait(lambda r=router: rests(r), timeout=20, what="rare probes")
    yield pair
    pair[0].configure("delete interfaces zerotier zt0 instance 4 backup")
    wait_paths(pair, 4)


@contextmanager
def flowing(routers: list[Router]) -> Iterator[list[Seen]]:
    """Flows between both; the list has what they saw once they have ended."""
    flows, seen = Flows(*routers), list[Seen]()
    try:
        yield seen
        seen += flows.end()
    finally:
        flows.kill()


def test_both_routers_spare_the_backup(routers: list[Router]) -> None:
    before = [sent(router) for router in routers]
    begin = time.monotonic()
    with flowing(routers) as seen:
        routers[0].wait(lambda: time.monotonic() > begin + 10, what="ten seconds of traffic")
    for router, was in zip(routers, before, strict=True):
        assert sent(router) - was < RESTING
    assert sum(flow.sent for flow in seen) > 10_000 and sum(flow.lost for flow in seen) == 0


def test_it_takes_over_and_gives_back_without_a_loss(routers: list[Router]) -> None:
    with flowing(routers) as seen:
        routers[1].run(["nft", "-f", "-"], text_input=CUT)
        for router in routers:
            router.wait(lambda r=router: states(r)[3] == "up" and "up" not in states(r)[:3], timeout=20, what="path 4 in use alone")
    assert max(flow.gap for flow in seen) < MOVED
    with flowing(routers) as seen:
        routers[1].run(["nft", "delete", "table", "inet", "cut"])
        for router in routers:
            router.wait(lambda r=router: states(r) == REST, timeout=60, what="all paths back, and the backup at rest")
    assert sum(flow.lost for flow in seen) == 0
    told = routers[0].run(["journalctl", "-t", "zerotier-pathd", "-o", "cat"]).stdout
    assert "zt0/4 to R2 (IPv4): backup -> up: it is a backup, and no other path to the remote works" in told
    assert "zt0/4 to R2 (IPv4): up -> backup: it is a backup, and another path to the remote works" in told


@pytest.mark.parametrize(
    "restart", [["systemctl", "restart", "zerotier-pathd"], ["ztsh", "restart", "zerotier", "zt0", "instance", "4"]]
)
def test_what_the_remote_has_said_outlasts_a_restart(routers: list[Router], restart: list[str]) -> None:
    """The router that has it by the probes alone: it would use the path until the remote says so again."""
    routers[1].run(restart, timeout=120)
    seen = set()

    def back() -> bool:
        seen.add(states(routers[1])[3])
        return states(routers[1]) == REST

    routers[1].wait(back, timeout=30, what="all paths back, and the backup at rest")
    assert "up" not in seen


def test_it_serves_while_the_others_restart(routers: list[Router]) -> None:
    with flowing(routers) as seen:
        routers[0].run(["ztsh", "restart", "zerotier", "zt0"], timeout=120)
        for router in routers:
            router.wait(lambda r=router: states(r) == REST, timeout=30, what="all paths back, and the backup at rest")
    assert sum(flow.lost for flow in seen) == 0
