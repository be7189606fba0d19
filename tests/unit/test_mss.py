"""The MSS of forwarded connections: what the plans want, and what stands in the real nftables of a namespace."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.pathd.desired import DeviceState
from zerotier_multi.pathd.mss import LOOK, Mss, ruleset
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan

NAMESPACE = f"mss-{os.getpid()}"
NFT = ("ip", "netns", "exec", NAMESPACE, "nft")
HEAD = "  type filter hook forward priority mangle\n  meta l4proto != tcp accept\n  tcp flags & (syn | rst) != syn accept\n"


def plan(text: str = "") -> Plan:
    return make_plan(bundle(EXAMPLE + text), (Cpu(0, 0),), "x")


def devices(*mtus: int) -> dict[str, DeviceState]:
    return {f"zt0p{k}": DeviceState(f"zt0p{k}", True, mtu, 0) for k, mtu in enumerate(mtus, start=1)}


def rules(text: str, *mtus: int) -> list[str]:
    """Rules of the bundle's chain, without what all of them have."""
    lines = ruleset([plan(text)], devices(*mtus)).splitlines()
    return [line.strip().replace("meta nfproto ", "").replace("tcp option maxseg size set ", "") for line in lines if "maxseg" in line]


def test_the_table_that_is_wanted_without_a_word_in_the_configuration() -> None:
    assert ruleset([plan()], devices(1394, 1394, 1394, 1394)) == (
        "table inet zerotier_multi {\n chain zt0 {\n"
        "  meta nfproto ipv4 tcp option maxseg size set rt mtu\n  meta nfproto ipv4 tcp option maxseg size set 1354\n"
        "  meta nfproto ipv6 tcp option maxseg size set rt mtu\n  meta nfproto ipv6 tcp option maxseg size set 1334\n"
        " }\n chain forward {\n" + HEAD + '  oifname "zt0p*" jump zt0\n  iifname "zt0p*" jump zt0\n }\n}\n'
    )


@pytest.mark.parametrize(
    "text, mtus, wanted",
    [
        ("", (), ["ipv4 rt mtu", "ipv6 rt mtu"]),
        ("", (2810, 1394), ["ipv4 rt mtu", "ipv4 1354", "ipv6 rt mtu", "ipv6 1334"]),
        ("ip adjust-mss 1200", (1394,), ["ipv4 1200", "ipv6 rt mtu", "ipv6 1334"]),
        ("ip adjust-mss clamp-mss-to-pmtu\nipv6 adjust-mss 1220", (1394,), ["ipv4 rt mtu", "ipv4 1354", "ipv6 1220"]),
        ("ipv6 adjust-mss disable", (1394,), ["ipv4 rt mtu", "ipv4 1354"]),
    ],
)
def test_what_is_configured(text: str, mtus: tuple[int, ...], wanted: list[str]) -> None:
    assert rules(text, *mtus) == wanted


@pytest.mark.parametrize("text", ["ip adjust-mss disable\nipv6 adjust-mss disable", "disable"])
def test_no_table_where_nothing_is_wanted(text: str) -> None:
    assert ruleset([plan(text)], devices(1394)) == "" == ruleset([], {})


def test_in_a_vrf_the_device_that_a_packet_came_in_by_is_the_slave() -> None:
    text = ruleset([plan("vrf blue")], {})
    assert 'meta sdifname "zt0p*" jump zt0' in text and "iifname" not in text


def test_a_plan_tells_it_and_an_older_one_means_the_default() -> None:
    told = plan("ip adjust-mss 1200\nipv6 adjust-mss disable")
    assert from_json(to_json(told)) == told and told.adjust_mss == (1200, "disable")
    assert plan().adjust_mss == ("clamp-mss-to-pmtu", "clamp-mss-to-pmtu")


def nft(*arguments: str) -> str:
    return subprocess.run([*NFT, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def mss() -> Iterator[Mss]:
    """One whose events are those of a network namespace of its own, too."""
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    made: list[Mss] = []

    def make() -> None:
        with open(f"/run/netns/{NAMESPACE}") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
        made.append(Mss(NFT))

    thread = threading.Thread(target=make)  # a socket stays in the namespace that it was made in
    thread.start()
    thread.join()
    yield made[0]
    assert made[0].events
    made[0].events.close()
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


WANTED = ruleset([plan()], devices(1394))
OTHER = ruleset([plan("ip adjust-mss 1200\nvrf blue")], devices(1394))


def test_it_stands_changes_and_goes(mss: Mss) -> None:
    nft("add table inet others")
    assert mss.hold("", 0.0) == ([], []) and nft("list", "tables") == "table inet others\n"
    assert mss.hold(WANTED, 1.0) == ([], [])
    assert nft("list", "ruleset").count("maxseg size set") == 4
    assert mss.hold(OTHER, 2.0) == ([], []) and " 1200" in nft("list", "ruleset")
    assert mss.hold("", 3.0) == ([], []) and nft("list", "tables") == "table inet others\n"


def test_what_a_daemon_before_has_left_goes_too(mss: Mss) -> None:
    assert Mss(NFT).hold(WANTED, 0.0) == ([], [])
    assert mss.hold("", 0.0) == ([], []) and nft("list", "tables") == ""


@pytest.mark.parametrize("deed", ["flush ruleset", "flush chain inet zerotier_multi zt0", "delete rule inet zerotier_multi forward handle {}"])
def test_who_changes_it_is_heard_and_it_comes_back(mss: Mss, deed: str) -> None:
    mss.hold(WANTED, 0.0)
    mss.touched()  # its own doing, that it hears of as well
    assert mss.hold(WANTED, 1.0) == ([], [])
    before = nft("-s", "list", "ruleset")
    nft("add table inet others")
    assert not mss.touched(), "tables of others are not ours"
    nft("delete table inet others")
    handle = next(line.rpartition(" ")[2] for line in nft("-a", "list", "ruleset").splitlines() if "jump zt0" in line)
    nft(deed.format(handle))
    assert mss.touched()
    problems, drifted = mss.hold(WANTED, 2.0)
    assert problems == [] and drifted == ["nft table inet zerotier_multi was changed by another program; it is as it was again"]
    assert nft("-s", "list", "ruleset") == before


def test_an_audit_sees_what_it_has_not_heard_of(mss: Mss) -> None:
    mss.hold(WANTED, 0.0)
    nft("flush", "ruleset")
    assert mss.hold(WANTED, LOOK - 1) == ([], []) and nft("list", "ruleset") == ""
    assert mss.hold(WANTED, LOOK)[1] and nft("list", "ruleset").count("maxseg") == 4


def test_without_nft_one_sentence_tells_it_and_nothing_is_tried_all_the_time() -> None:
    mss = Mss(("/nonexistent/nft",))
    assert mss.hold("", 0.0) == ([], [])
    problem = "the MSS of forwarded TCP connections is not adjusted (nft is not installed; install nftables, or set ip and ipv6 adjust-mss disable)"
    assert mss.hold(WANTED, 1.0) == ([problem], [])
    begin = time.monotonic()
    for _ in range(1000):
        assert mss.hold(WANTED, 2.0) == ([problem], [])
    assert time.monotonic() - begin < 0.5
    assert mss.hold("", 3.0) == ([], [])


def test_what_nft_refuses_is_told_and_tried_again(mss: Mss) -> None:
    problems, _ = mss.hold("table inet zerotier_multi { nonsense }", 0.0)
    assert len(problems) == 1 and problems[0].startswith("the MSS of forwarded TCP connections is not adjusted (")
    assert mss.hold(WANTED, 1.0) == ([], []) and nft("list", "ruleset").count("maxseg") == 4
