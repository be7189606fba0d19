"""Conntrack zones of devices in a VRF, where the router keeps them: VyOS's nftables map from device to zone.

VyOS tracks the connections of each VRF apart, in a zone with the number of the VRF's table, and enters every device
that it puts into a VRF in this map (vyos-1x: data/vyos-firewall-init.conf, python/vyos/ifconfig/interface.py). Without
an entry the packets that come in by a device of ours would be tracked in another zone than those that go out. A
router without the map has no such zones, and then there is nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from zerotier_multi import names
from zerotier_multi.pathd.kernel.unread import bundle_of_device
from zerotier_multi.pathd.nftables.program import run_nft

MAP = "inet vrf_zones ct_iface_map"
LOOK = 60.0  # seconds after which the map is read again, because nothing tells of its changes


class Zones:
    """Keeps the entries of our devices in the map. ``nft`` is the program with what stands before its arguments."""

    def __init__(self, nft: Sequence[str] = ("nft",)) -> None:
        self._nft = tuple(nft)
        self._held: tuple[dict[str, int], frozenset[str]] | None = None
        self._look_at = 0.0

    def hold(self, wanted: Mapping[str, int], vrfs: Collection[str], now: float, unread: Collection[str] = ()) -> list[str]:
        """Enter ``wanted`` (device -> zone) and take out other entries of ours; a sentence if nft refuses.

        ``vrfs`` are the names of VRFs: entries of theirs are VyOS's. ``unread`` are bundles whose entries stay, because
        their plan cannot be read. ``now`` is in seconds. The map is read when ``wanted`` differs from last
        time, and again after some time as long as there is anything in it.
        """
        asked = (dict(wanted), frozenset(unread))
        if self._held == asked and (not wanted or now < self._look_at):
            return []
        try:
            script = changes(self._read(), wanted, vrfs, unread)
            done = run_nft(self._nft, "-f", "-", script=script) if script else None
            reason = (done.stderr.strip().splitlines() or ["nft failed"])[0] if done and done.returncode else ""
        except FileNotFoundError:
            reason = ""  # without nft there is no map
        except OSError as error:
            reason = str(error.strerror)
        self._held, self._look_at = None if reason else asked, now + LOOK
        return [f"the conntrack zones in nft map {MAP} cannot be set ({reason})"] if reason else []

    def _read(self) -> dict[str, int] | None:
        done = run_nft(self._nft, "-j", "list", "map", *MAP.split())
        return None if done.returncode else entries(done.stdout)


def entries(text: str) -> dict[str, int]:
    """Device -> zone out of what ``nft -j list map`` prints (libnftables-json(5)); another form of entry is left out."""
    try:
        objects: list[dict[str, Any]] = json.loads(text)["nftables"]
        found = [item for o in objects for item in o.get("map", {}).get("elem", [])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    pairs = [item for item in found if isinstance(item, list) and len(item) == 2]
    return {device: zone for device, zone in pairs if isinstance(device, str) and isinstance(zone, int)}


def changes(found: Mapping[str, int] | None, wanted: Mapping[str, int], vrfs: Collection[str], unread: Collection[str] = ()) -> str:
    """Commands for one transaction of nft; nothing where there is no map (``found`` None) or no difference."""
    if found is None:
        return ""
    ours = [device for device in found if names.is_our_device(device) and device not in vrfs]
    ours = [device for device in ours if device in wanted or bundle_of_device(device) not in unread]
    stale = sorted(device for device in ours if wanted.get(device) != found[device])
    missing = sorted(device for device in wanted if found.get(device) != wanted[device])
    lines = [f'delete element {MAP} {{ "{device}" }}' for device in stale]
    lines += [f'add element {MAP} {{ "{device}" : {wanted[device]} }}' for device in missing]
    return "".join(line + "\n" for line in lines)
