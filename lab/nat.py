"""A NAT router between the underlay and an inside network, of the programs of the field: nftables and dnsmasq."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.dhcp import leased, start_client
from lab.gateway import Gateway
from lab.underlay import PREFIX4, Underlay

if TYPE_CHECKING:
    from lab.router import Router

# How a source is rewritten. Linux keeps the port where it is free, and lets in answers alone: what RFC 4787 calls
# endpoint-independent mapping with address and port-dependent filtering. With random ports every destination sees
# another one.
KINDS = {"restricted": "masquerade", "symmetric": "masquerade fully-random"}

_RULES = """
table ip nat {{
    chain postrouting {{ type nat hook postrouting priority srcnat; oifname "out0" {source}; }}
    chain input {{ type filter hook input priority filter; iifname "out0" ct state new,invalid drop; }}
    chain forward {{ type filter hook forward priority filter; iifname "out0" ct state new,invalid drop; }}
}}
"""

# IPCTNL_MSG_CT_DELETE without a tuple: all entries of the network namespace.
FLUSH_CONNTRACK = (
    "import socket, struct\n"
    "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)\n"
    "s.send(struct.pack('=IHHIIBBH', 20, 1 << 8 | 2, 1 | 4, 1, 0, 0, 0, 0))\n"
    "error = struct.unpack_from('=i', s.recv(4096), 16)[0]\n"
    "raise SystemExit(f'conntrack: error {-error}' if error else 0)\n"
)


class Nat(Gateway):
    """NAT router ``number``: 198.51.100.``number`` outside, 192.168.(100 + ``number``).0/24 with DHCP inside.

    Its number (up to 154) is that of no router of the lab. :attr:`address` is its address outside, :attr:`gateway` inside.
    """

    def __init__(self, underlay: Underlay, number: int, kind: str = "restricted") -> None:
        self.address, self._inside = f"{PREFIX4}.{number}", f"192.168.{100 + number}"
        self._behind: list[str] = []
        super().__init__(underlay, f"nat{number}", self.address, f"{self._inside}.0/24")
        self.become(kind)

    def attach(self, router: Router, dhcp: bool = True) -> str:
        """Plug a router's eth0 in behind this NAT and return its address there; its earlier addresses are gone.

        With ``dhcp`` it asks for a lease itself, as it will after each boot; else it gets host 10 + its number.
        """
        self._underlay.move(router.name, self.namespace)
        self._behind.append(router.name)
        if dhcp:
            start_client(router)
        else:
            router.run(["ip", "address", "add", f"{self._inside}.{10 + router.number}/24", "dev", "eth0"])
            router.run(["ip", "route", "replace", "default", "via", self.gateway])
        return router.wait(lambda: leased(router, self.prefix), timeout=30, what=f"an address behind {self.address}")

    def become(self, kind: str) -> None:
        """Rewrite sources in another way from now on; mappings stay until they are forgotten."""
        self.run(["nft", "-f", "-"], text_input="flush ruleset\n" + _RULES.format(source=KINDS[kind]))

    def forget(self) -> None:
        """Drop all mappings, as a NAT router that was restarted has."""
        self.run(["/usr/bin/python3", "-c", FLUSH_CONNTRACK])

    def close(self) -> None:
        """Take the NAT router away; routers behind it are unplugged."""
        for name in self._behind:
            self._underlay.lost(name, self.namespace)
        super().close()
