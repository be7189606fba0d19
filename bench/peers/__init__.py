"""What the product is compared with: each peer as a link between the two routers.

:data:`PEERS` has a function for each kind of subject: it makes the link with the peer's best documented settings, yields
the addresses of its ends, and takes it away. What this machine does not have raises :class:`Unavailable` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from bench.ends import Site
from bench.peers import nebula, openvpn, raw, tailscale, wireguard, xfrm, zerotier
from bench.peers.common import Link
from bench.results import Parameter

PEERS: Mapping[str, Callable[[Site, Mapping[str, Parameter]], AbstractContextManager[Link]]] = {
    "raw": raw.link,
    "kernel WireGuard": wireguard.kernel,
    "wireguard-go": wireguard.user_space("wireguard-go", ["-f"]),
    "wireguard-go (Debian)": wireguard.user_space("wireguard-go-debian", ["-f"]),
    "boringtun": wireguard.user_space("boringtun", ["--foreground", "--disable-drop-privileges"]),
    "IPsec AES-GCM": xfrm.link,
    "OpenVPN": openvpn.user_space,
    "OpenVPN with DCO": openvpn.with_dco,
    "Tailscale": tailscale.link,
    "Nebula": nebula.link,
    "zerotier": zerotier.single,
    "ztnode": zerotier.ztnode,
    "zerotier-multicore": zerotier.multicore,
}

# Programs of ``bench/peers/build`` that a kind of subject runs; a kind without an entry runs none of them.
PROGRAMS: Mapping[str, Sequence[str]] = {
    "kernel WireGuard": ["wg"],
    "wireguard-go": ["wg", "wireguard-go"],
    "wireguard-go (Debian)": ["wg", "wireguard-go-debian"],
    "boringtun": ["wg", "boringtun"],
    "OpenVPN": ["openvpn"],
    "OpenVPN with DCO": ["openvpn"],
    "Tailscale": ["headscale", "tailscaled", "tailscale"],
    "Nebula": ["nebula", "nebula-cert"],
}
