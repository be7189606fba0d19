"""Other parts of the configuration that name a device of a bundle; pure.

VyOS accepts ``protocols ospf interface zt0p4`` while the device exists. At a boot without it, VyOS refuses the whole section
(vyos-1x of circinus: ``verify_interface_exists`` in ``protocols_ospf.py``, ``firewall.py`` for flowtables, and others), and the router
runs without its firewall or its OSPF. So a commit says what will be missed while there is time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

SECTIONS = (
    ("firewall", "flowtable"),
    ("policy", "local-route"),
    ("policy", "local-route6"),
    ("protocols",),
    ("service",),
    ("vrf", "name"),
)
_NAMED_BELOW = ("interface", "inbound-interface", "listen-interface")
# Of protocols and services, those that ask for the device.
_STRICT = {
    "protocols": frozenset({"igmp-proxy", "isis", "mpls", "ospf", "ospfv3", "pim", "pim6"}),
    "service": frozenset({"broadcast-relay", "conntrack-sync", "dhcp-server", "dhcpv6-relay", "dns", "mdns", "ndp-proxy", "ntp"}),
}

Sections = Mapping[tuple[str, ...], Mapping[str, Any]]


def warnings(bundle: str, devices: Collection[str], sections: Sections) -> list[str]:
    """Sentences on lines that name a device of ``bundle`` that is not among ``devices``, which the commit will leave.

    ``sections`` has the configuration below each of :data:`SECTIONS`.
    """
    ours = re.compile(rf"{re.escape(bundle)}(p[0-9]+)?")
    found = []
    for section, tree in sections.items():
        for path, device in _named(tree):
            line = (*section, *path)
            if ours.fullmatch(device) and device not in devices and (refused := _refused(line)):
                found.append(
                    f"{' '.join(line)}: {bundle} will have no device {device}; delete this line, or VyOS refuses {refused} at the next boot"
                )
    return found


def _refused(line: tuple[str, ...]) -> str:
    """What VyOS refuses as a whole where a device that it names is missing; empty where it does not."""
    where = line[3:] if line[:2] == ("vrf", "name") else line
    if len(where) > 1 and where[0] in _STRICT:
        return f"{where[0]} {where[1]}" if where[1] in _STRICT[where[0]] else ""
    return "" if where is not line else line[0] if line[0] == "firewall" else " ".join(line[:2])


def _named(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, below in tree.items():
        if path and path[-1] in _NAMED_BELOW:
            yield (*path, key), key
        if isinstance(below, Mapping):
            yield from _named(below, (*path, key))
        elif key in _NAMED_BELOW:
            for value in [below] if isinstance(below, str) else below:
                yield (*path, key, value), value
