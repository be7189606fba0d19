"""A line that drops large packets without a word, as LTE with IPv6 does: paths that are up, and TCP that stalls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab import Router
from lab.process import LabError
from lab.scenario import IDENTITY, iperf, loopback, member_bytes, reach, shares, status

OVERHEAD = 66  # bytes around a packet of the bundle on an IPv4 underlay
PORT = 9993


def narrow(router: Router, length: int, instance: int) -> None:
    """Drop underlay packets of more than ``length`` bytes on their way in to an instance."""
    router.run(["nft", "-f", "-"], text_input=(
        "table inet fault_narrow { chain input { type filter hook input priority 0; "
        f"udp dport {PORT + instance - 1} meta length > {length} drop; }}\n}}\n"
    ))  # fmt: skip


@pytest.fixture
def routers(pair: list[Router]) -> Iterator[list[Router]]:
    """All paths go over IPv4, whose header is 20 bytes shorter than that of IPv6."""
    for router in pair:
        # Packets come one by one, as off a wire, or a small one is dropped with the large one before it.
        router.run(["ethtool", "-K", "eth0", "tx-udp-segmentation", "off"])
        router.run(["nft", "add table ip6 only4 { chain out { type filter hook output priority 0; udp dport 9993-9996 drop; }; }"])
    for router in pair:
        router.wait(
            lambda r=router: all(p["state"] == "up" and ":" not in address(p) for p in paths(r)), timeout=60, what="paths over IPv4"
        )
    reach(pair[0], loopback(pair[0]), loopback(pair[1]))
    yield pair
    pair[1].run(["nft", "delete", "table", "inet", "fault_narrow"], check=False)


def paths(router: Router) -> list[dict[str, Any]]:
    """As ``show zerotier zt0 paths`` has them."""
    return router.json([IDENTITY, "show_paths", "--bundle", "zt0", "--raw"])["paths"]


def address(path: dict[str, Any]) -> str:
    """Where the remote is, without its port; with colons where it is not known."""
    return (path["underlay_address"] or "::").rpartition(":")[0]


def passes(router: Router) -> dict[int, tuple[str, int | None]]:
    """State and largest packet of each path, by the number of its instance."""
    return {p["instance"]: (p["state"], p["passes"]) for p in status(router)["bundles"]["zt0"]["paths"]}


def are(router: Router, expected: dict[int, tuple[str, int | None]]) -> bool:
    """Raises :class:`lab.process.LabError` with what they are instead."""
    if (found := passes(router)) != expected:
        raise LabError(str(found))
    return True


def told(router: Router) -> str:
    return router.run(["ztsh", "show", "zerotier", "zt0"]).stdout


def journal(router: Router, event: str) -> str:
    return router.run(["journalctl", "-t", "zerotier-pathd", f"ZEROTIER_EVENT={event}", "-o", "cat"]).stdout


def test_a_path_that_drops_full_packets_is_left_and_what_passes_is_told(routers: list[Router]) -> None:
    line = 1440
    narrow(routers[1], line, 2)
    wide = ("up", None)
    for router in routers:
        expected = {1: wide, 2: ("narrow", line - OVERHEAD), 3: wide, 4: wide}
        router.wait(lambda r=router, e=expected: are(r, e), timeout=120, what="path 2 known as narrow")
        shown = told(router)
        assert f"probes of more than {line - OVERHEAD} bytes are lost" in shown
        assert f"set interfaces zerotier zt0 mtu {line - OVERHEAD}" in shown
        assert (
            f"zt0/2 to {routers[router is routers[0]].name} (IPv4): probes of more than {line - OVERHEAD} bytes are lost"
            in journal(router, "path-narrow")
        )
    before = member_bytes(routers[0])
    report = iperf(*routers, flows=16, seconds=2, source=loopback(routers[0]), target=loopback(routers[1]))
    assert all(stream["sender"]["bytes"] > 100_000 for stream in report["end"]["streams"]), "a flow has stalled"
    assert shares(before, member_bytes(routers[0]))["zt0p2"] < 0.01
    routers[1].run(["nft", "delete", "table", "inet", "fault_narrow"])
    for router in routers:
        router.wait(lambda r=router: are(r, dict.fromkeys(range(1, 5), wide)), timeout=60, what="path 2 up again")
        router.wait(lambda r=router: "zt0/2" in journal(r, "path-wide"), timeout=10, what="its end in the journal")
