"""The router that a DHCP client was given for a device, from the lease that it keeps.

Where two uplinks are configured by DHCP, the one whose default route is the worse may have none in the kernel: FRR keeps the
best of its routes, and a client may be told to set none. So its lease is all that names its gateway.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

# Whose file it is: VyOS's hook of dhclient, dhclient itself there and on Debian, systemd-networkd.
_SHELL = ("run/dhclient/dhclient_{name}.lease",)
_ISC = (
    "run/dhclient/dhclient_{name}.leases",
    "var/lib/dhcp/dhclient.{name}.leases",
    "var/lib/dhcp/dhclient-{name}.leases",
    "var/lib/dhcp/dhclient.leases",
)
_NETWORKD = ("run/systemd/netif/leases/{index}",)
_LIMIT = 1 << 20  # bytes of a file that are read


def router_of_lease(name: str, index: int, root: Path = Path("/")) -> str | None:
    """IPv4 address of the first router in the last lease of a device; None where there is no lease, or none in it."""
    for pattern, parse in (*((p, _shell) for p in _SHELL), *((p, _isc) for p in _ISC), *((p, _networkd) for p in _NETWORKD)):
        try:
            with (root / pattern.format(name=name, index=index)).open(errors="replace") as file:
                found = parse(file.read(_LIMIT), name)
        except OSError:
            continue
        if found:
            return found
    return None


def _shell(text: str, _name: str) -> str | None:
    return _first(re.findall(r"^new_routers='?([^'\n]*)", text, re.MULTILINE))


def _networkd(text: str, _name: str) -> str | None:
    return _first(re.findall(r"^ROUTER=(.*)", text, re.MULTILINE))


def _isc(text: str, name: str) -> str | None:
    blocks = (part.partition("\n}") for part in re.split(r"^lease \{", text, flags=re.MULTILINE)[1:])
    own = [block for block, end, _rest in blocks if end and f'interface "{name}";' in block]
    return _first(re.findall(r"^\s*option routers ([^;]*);", own[-1], re.MULTILINE)) if own else None


def _first(values: list[str]) -> str | None:
    """The first address of the last value."""
    words = values[-1].replace(",", " ").split() if values else []
    try:
        return str(ipaddress.IPv4Address(words[0])) if words else None
    except ValueError:
        return None
