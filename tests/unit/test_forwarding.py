"""Source validation and forwarding that is disabled: what the plans want of nftables."""

from __future__ import annotations

import pytest
from tests.unit.test_mss import plan
from zerotier_multi.pathd.nftables.forwarding import chains

BEHIND = " chain validation {\n  type filter hook prerouting priority raw\n  iifname \"zt0p*\" jump zt0-sources\n }\n"
LINK = "  ip6 saddr { ::, fe80::/10 } return\n"
STRICT = '  meta nfproto {0} fib saddr oifname "zt0p*" return\n  meta nfproto {0} drop\n'
LOOSE = "  meta nfproto {0} fib saddr oif missing drop\n"


@pytest.mark.parametrize(
    "text, rules",
    [
        ("ip source-validation strict", STRICT.format("ipv4")),
        ("ipv6 source-validation strict", LINK + STRICT.format("ipv6")),
        ("ip source-validation loose\nipv6 source-validation loose", LOOSE.format("ipv4") + LINK + LOOSE.format("ipv6")),
        ("ip source-validation disable\nipv6 source-validation strict", LINK + STRICT.format("ipv6")),
    ],
)
def test_sources_are_validated_before_connection_tracking(text: str, rules: str) -> None:
    assert chains([plan(text)]) == f" chain zt0-sources {{\n{rules} }}\n{BEHIND}"


@pytest.mark.parametrize(
    "text, rules",
    [
        ("ip disable-forwarding", ['iifname "zt0p*" meta nfproto ipv4 drop']),
        ("ipv6 disable-forwarding\nvrf red", ['meta sdifname "zt0p*" meta nfproto ipv6 drop']),
    ],
)
def test_what_arrives_is_not_forwarded(text: str, rules: list[str]) -> None:
    head = " chain no-forwarding {\n  type filter hook forward priority mangle\n"
    assert chains([plan(text)]) == head + "".join(f"  {rule}\n" for rule in rules) + " }\n"


@pytest.mark.parametrize("text", ["", "ip source-validation disable", "ip disable-forwarding\ndisable"])
def test_no_chain_where_nothing_is_wanted(text: str) -> None:
    assert chains([plan(text)]) == "" == chains([])
