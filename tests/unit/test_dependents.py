"""Lines of other parts of the configuration, as VyOS gives them, that name devices of a bundle."""

from __future__ import annotations

from typing import Any

from zerotier_multi.dependents import SECTIONS, warnings

ELSEWHERE: dict[tuple[str, ...], dict[str, Any]] = {
    ("firewall", "flowtable"): {"FT": {"interface": ["eth1", "zt0p4"], "offload": "software", "description": "zt0p4"}},
    ("protocols",): {
        "ospf": {"interface": {"zt0p4": {"area": "0"}, "zt0p1": {}, "zt00p4": {}, "zt1p4": {}}},
        "static": {"route": {"192.168.9.0/24": {"interface": {"zt0": {}}}}},
    },
    ("service",): {"ntp": {"interface": "zt0p4"}},
    ("high-availability",): {"vrrp": {"group": {"LAN": {"track": {"interface": ["zt0"]}}}}},
    ("qos",): {},
}


def test_lines_that_a_boot_would_refuse_are_named() -> None:
    assert set(ELSEWHERE) == set(SECTIONS)
    lines = ["firewall flowtable FT interface zt0p4", "protocols ospf interface zt0p4", "service ntp interface zt0p4"]
    refused = ["firewall", "protocols ospf", "service"]
    assert warnings("zt0", ("zt0", "zt0p1"), ELSEWHERE) == [
        f"{line}: zt0 will have no device zt0p4; delete this line, or VyOS refuses {what} at the next boot"
        for line, what in zip(lines, refused, strict=True)
    ]


def test_without_the_bundle_all_of_its_devices_are_missed() -> None:
    told = warnings("zt0", (), ELSEWHERE)
    assert len(told) == 6 and any(text.startswith("high-availability vrrp group LAN track interface zt0:") for text in told)


def test_what_is_there_is_no_matter() -> None:
    assert warnings("zt0", ("zt0", "zt0p1", "zt0p4"), ELSEWHERE) == []
    assert warnings("zt2", (), ELSEWHERE) == []
