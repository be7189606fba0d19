"""The MSS of forwarded connections: what the plans want of nftables."""

from __future__ import annotations

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.pathd.kernel.desired import DeviceState
from zerotier_multi.pathd.nftables.mss import chains
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan

HEAD = "  type filter hook forward priority mangle\n  meta l4proto != tcp accept\n  tcp flags & (syn | rst) != syn accept\n"


def plan(text: str = "") -> Plan:
    return make_plan(bundle(EXAMPLE + text), (Cpu(0, 0),), "x")


def devices(*mtus: int) -> dict[str, DeviceState]:
    return {f"zt0p{k}": DeviceState(f"zt0p{k}", True, mtu, 0) for k, mtu in enumerate(mtus, start=1)}


def rules(text: str, *mtus: int) -> list[str]:
    """Rules of the bundle's chain, without what all of them have."""
    lines = chains([plan(text)], devices(*mtus)).splitlines()
    return [
        line.strip().replace("meta nfproto ", "").replace("tcp option maxseg size set ", "") for line in lines if "maxseg" in line
    ]


def test_the_table_that_is_wanted_without_a_word_in_the_configuration() -> None:
    assert chains([plan()], devices(1394, 1394, 1394, 1394)) == (
        " chain zt0 {\n"
        "  meta nfproto ipv4 tcp option maxseg size set rt mtu\n  meta nfproto ipv4 tcp option maxseg size set 1354\n"
        "  meta nfproto ipv6 tcp option maxseg size set rt mtu\n  meta nfproto ipv6 tcp option maxseg size set 1334\n"
        " }\n chain forward {\n" + HEAD + '  oifname "zt0p*" jump zt0\n  iifname "zt0p*" jump zt0\n }\n'
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
    assert chains([plan(text)], devices(1394)) == "" == chains([], {})


def test_in_a_vrf_the_device_that_a_packet_came_in_by_is_the_slave() -> None:
    text = chains([plan("vrf blue")], {})
    assert 'meta sdifname "zt0p*" jump zt0' in text and "iifname" not in text


def test_a_plan_tells_it_and_an_older_one_means_the_default() -> None:
    told = plan("ip adjust-mss 1200\nipv6 adjust-mss disable")
    assert from_json(to_json(told)) == told and told.adjust_mss == (1200, "disable")
    assert plan().adjust_mss == ("clamp-mss-to-pmtu", "clamp-mss-to-pmtu")
