"""Lines of other parts of the configuration, as VyOS gives them, that name devices of a bundle."""

from __future__ import annotations

from typing import Any

import pytest
from zerotier_multi.dependents import SECTIONS, warnings

ELSEWHERE: dict[tuple[str, ...], dict[str, Any]] = {
    ("firewall", "flowtable"): {"FT": {"interface": ["eth1", "zt0p4"], "offload": "software", "description": "zt0p4"}},
    ("policy", "local-route"): {"rule": {"10": {"inbound-interface": "zt0p4", "set": {"table": "100"}}}},
    ("policy", "local-route6"): {},
    ("protocols",): {
        "ospf": {"interface": {"zt0p4": {"area": "0"}, "zt0p1": {}, "zt00p4": {}, "zt1p4": {}}},
        # These do not ask for it.
        "static": {"route": {"192.168.9.0/24": {"interface": {"zt0": {}}}}},
        "bfd": {"peer": {"10.14.0.2": {"source": {"interface": "zt0p4"}}}},
    },
    ("service",): {
        "ntp": {"interface": "zt0p4"},
        "router-advert": {"interface": {"zt0p4": {}}},
        "dhcp-server": {"listen-interface": ["zt0p4"]},
        "dns": {"dynamic": {"name": {"x": {"address": {"interface": "zt0p4"}}}}},
    },
    ("vrf", "name"): {
        "blue": {"table": "200", "protocols": {"isis": {"interface": {"zt0p4": {}}}, "static": {"interface": {"zt0p4": {}}}}},
        "zt0p4": {"table": "201"},
        "interface": {"protocols": {"zt0p4": {}}},
    },
}
LINES = {
    "firewall flowtable FT interface zt0p4": "firewall",
    "policy local-route rule 10 inbound-interface zt0p4": "policy local-route",
    "protocols ospf interface zt0p4": "protocols ospf",
    "service ntp interface zt0p4": "service ntp",
    "service dhcp-server listen-interface zt0p4": "service dhcp-server",
    "service dns dynamic name x address interface zt0p4": "service dns",
    "vrf name blue protocols isis interface zt0p4": "protocols isis",
}


def test_lines_that_a_boot_would_refuse_are_named() -> None:
    assert set(ELSEWHERE) == set(SECTIONS)
    assert warnings("zt0", ("zt0", "zt0p1"), ELSEWHERE) == [
        f"{line}: zt0 will have no device zt0p4; delete this line, or VyOS refuses {what} at the next boot"
        for line, what in LINES.items()
    ]


def test_without_the_bundle_all_of_its_devices_are_missed() -> None:
    assert len(warnings("zt0", (), ELSEWHERE)) == len(LINES) + 1


@pytest.mark.parametrize(("bundle", "devices"), [("zt0", ("zt0", "zt0p1", "zt0p4")), ("zt2", ())])
def test_what_is_there_is_no_matter(bundle: str, devices: tuple[str, ...]) -> None:
    assert warnings(bundle, devices, ELSEWHERE) == []
