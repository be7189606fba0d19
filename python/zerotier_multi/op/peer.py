"""Which node is behind a path, and how its instance reaches it; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.plan import PathPlan, Plan

# Milliseconds without a packet after which a path of the underlay counts as dead. ZeroTier's own marks
# ("active", "expired") stay good for minutes. Between roots of each other 5 s is the longest silence seen.
SILENCE_ROOTS, SILENCE = 15_000, 45_000


@dataclass(frozen=True)
class Underlay:
    """How a node is reached: ``direct`` at an address, ``relayed`` by another node, ``none``, or None: not known."""

    link: str | None = None
    address: str | None = None  # ``198.51.100.2:9993``, ``[2001:db8::2]:9993``
    latency_ms: int | None = None
    relay: str | None = None  # node address of the one that relays


def node_of_mac(mac: str, network_id: str) -> str | None:
    """Node address that has MAC ``mac`` on network ``network_id``; None for a MAC that is no node's there.

    The inverse of :func:`zerotier_multi.identity.mac_on_network`.
    """
    octets, nwid = bytes.fromhex(mac.replace(":", "")), int(network_id, 16)
    first = nwid & 0xFE | 0x02
    if len(octets) != 6 or octets[0] != (0x32 if first == 0x52 else first):
        return None
    return bytes(octets[i + 1] ^ (nwid >> 8 * (i + 1) & 0xFF) for i in range(5)).hex()


def peer_node(snapshot: Snapshot, plan: Plan, path: PathPlan) -> str | None:
    """Node address of the remote's end of a path: from the configuration, otherwise from the neighbour's MAC."""
    for peer in plan.peers:
        if (peer.remote, peer.instance) == (path.remote, path.instance):
            return peer.identity.partition(":")[0]
    instance, link = plan.instance(path.instance), snapshot.kernel.links.get(path.device)
    if instance is None or link is None:
        return None
    for neighbour in snapshot.kernel.neighbours | snapshot.kernel.learned:
        if (neighbour.index, neighbour.address) == (link.index, path.via):
            return node_of_mac(neighbour.lladdr, instance.network_id)
    return None


def underlay(peers: Sequence[Mapping[str, Any]] | None, node: str | None, controller_free: bool, now: float) -> Underlay:
    """How an instance with these peers reaches ``node``; ``now`` in seconds since 1970."""
    if peers is None or node is None:
        return Underlay()
    limit = SILENCE_ROOTS if controller_free else SILENCE
    own = next((peer for peer in peers if peer.get("address") == node), None)
    address = live_address(own, limit, now) if own else None
    latency = own.get("latency") if own else None
    known = latency if isinstance(latency, int) and latency > 0 else None  # 0 where it was not measured, too
    if address:
        return Underlay("direct", address, known)
    roots = [p for p in peers if p is not own and p.get("role") in ("PLANET", "MOON") and live_address(p, limit, now)]
    if not roots:
        return Underlay("none")
    return Underlay("relayed", None, known, str(min(roots, key=_latency).get("address", "")) or None)


def _latency(peer: Mapping[str, Any]) -> float:
    """As ZeroTier chooses who relays: the upstream of the lowest latency (``Topology::getUpstreamPeer``)."""
    latency = peer.get("latency")
    return latency if isinstance(latency, int) and latency >= 0 else float("inf")


def live_address(peer: Mapping[str, Any], limit: int, now: float) -> str | None:
    """Underlay address in use for a peer of the API, or None when nothing has come from there lately.

    A path that is not preferred is not in use: it was left because it is silent, or another one is better.
    """
    told = peer.get("paths")
    paths = [p for p in told if isinstance(p, dict)] if isinstance(told, list) else []
    best = [p for p in paths if p.get("preferred") and _alive(p, limit, now)]
    return _endpoint(str(best[0].get("address", ""))) if best else None


def _alive(path: Mapping[str, Any], limit: int, now: float) -> bool:
    received = path.get("lastReceive")
    return (
        bool(path.get("active", True)) and not path.get("expired") and isinstance(received, int) and now * 1000 - received < limit
    )


def _endpoint(text: str) -> str:
    """``198.51.100.2/9993`` as the CLI writes it."""
    host, _slash, port = text.partition("/")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
