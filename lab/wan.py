"""A WAN of a router that has more than one: a provider's gateway between the router and the underlay, with a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.dhcp import leased, start_client
from lab.gateway import Gateway
from lab.process import run
from lab.underlay import PREFIX4, Underlay

if TYPE_CHECKING:
    from lab.router import Router

_PREFIXES = {1: "192.0.2.0/24", 2: "203.0.113.0/24"}
_QUEUE_MS = 40  # that a provider's router keeps waiting at most
_BURST = 65536  # bytes: the largest packet that segmentation offload makes


class Wan(Gateway):
    """WAN 1 is 192.0.2.0/24, WAN 2 203.0.113.0/24, behind gateway 198.51.100.(200 + ``number``).

    ``rate_mbit`` limits each direction, with a queue of 40 ms before it; 0 is no limit.
    """

    def __init__(self, underlay: Underlay, number: int, rate_mbit: float = 0) -> None:
        self.outside = f"{PREFIX4}.{200 + number}"
        super().__init__(underlay, f"wan{number}", self.outside, _PREFIXES[number])
        if rate_mbit:
            self.limit(rate_mbit)

    def limit(self, rate_mbit: float) -> None:
        """Set the rate of each direction (Mbit/s)."""
        shape = ["tbf", "rate", f"{rate_mbit}mbit", "burst", str(_BURST), "latency", f"{_QUEUE_MS}ms"]
        for device in ("out0", "br0"):
            self.run(["tc", "qdisc", "replace", "dev", device, "root", *shape])

    def attach(self, router: Router, device: str = "eth1") -> str:
        """Plug a device of a router in here, by DHCP, and return its address. A device other than eth0 is new."""
        if device == "eth0":
            self._underlay.move(router.name, self.namespace)
        else:
            port = f"{self._port}r{router.number}-{device}"
            run(
                ["ip", "-n", self.namespace, "link", "add", port, "type", "veth", "peer", "name", device, "netns", router.namespace]
            )
            run(["ip", "-n", self.namespace, "link", "set", port, "master", "br0", "up"])
            router.run(["ip", "link", "set", device, "addrgenmode", "eui64", "up"])
        start_client(router, device)
        return router.wait(lambda: leased(router, self.prefix, device), timeout=30, what=f"an address of {self.prefix}")

    def reached_from(self, router: Router) -> None:
        """Give a router on the underlay a route to what is behind this gateway."""
        router.run(["ip", "route", "replace", self.prefix, "via", self.outside])

    def cut(self) -> None:
        """Let nothing through, unnoticed by the routers behind it: their links stay up."""
        self.run(["nft", "add table inet cut; add chain inet cut forward { type filter hook forward priority 0; policy drop; }"])

    def repair(self) -> None:
        """Let it through again."""
        self.run(["nft", "delete", "table", "inet", "cut"])
