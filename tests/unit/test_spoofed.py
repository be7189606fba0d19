"""What comes over a path with an address of this router as its source: what the plans want of nftables."""

from __future__ import annotations

from tests.unit.test_mss import plan
from zerotier_multi.pathd.nftables.spoofed import chains
from zerotier_multi.netlink.links import Address


def test_the_chains_that_are_wanted() -> None:
    local = [Address(2, "198.51.100.1/24"), Address(2, "2001:db8:1::1/64"), Address(3, "198.51.100.1/32")]
    assert chains([plan()], local) == (
        " chain own-sources {\n"
        "  ip saddr 127.0.0.0/8 drop\n"
        "  ip6 saddr ::ffff:0:0/96 drop\n"
        "  ip saddr { 10.0.55.1, 10.14.0.1, 10.14.0.5, 10.14.0.9, 10.14.0.13, 198.51.100.1 } drop\n"
        "  ip6 saddr { 2001:db8:1::1 } drop\n"
        " }\n"
        " chain prerouting {\n"
        "  type filter hook prerouting priority raw\n"
        '  iifname "zt0p*" jump own-sources\n'
        " }\n"
    )


def test_they_are_the_same_whether_the_instances_run_or_not() -> None:
    assert chains([plan()], ()) == chains([plan()], [Address(2, text) for text in ("10.0.55.1/32", "10.14.0.1/30")])


def test_none_without_a_bundle_that_runs() -> None:
    assert chains([], ()) == chains([plan("disable")], ()) == ""
