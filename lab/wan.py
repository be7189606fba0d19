"""A WAN of a router that has more than one: a provider's gateway between the router and the underlay, with a rate."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.dhcp import DhcpServer, leased, start_client
from lab.process import run
from lab.underlay import PREFIX4, Underlay

if TYPE_CHECKING:
    import subprocess

    from lab.router import Router

_PREFIXES = {1: "192.0.2.0/24", 2: "203.0.113.0/24"}
_QUEUE_MS = 40  # that a provider's router keeps waiting at most
_BURST = 65536  # bytes: the largest packet that segmentation offload makes


class Wan:
    """WAN 1 is 192.0.2.0/24, WAN 2 203.0.113.0/24, behind gateway 198.51.100.(200 + ``number``); IPv4 alone.

    :attr:`prefix` is what the gateway serves by DHCP, :attr:`gateway` its address there. ``rate_mbit`` limits each
    direction, with a queue of 40 ms before it; 0 is no limit.
    """

    def __init__(self, underlay: Underlay, number: int, rate_mbit: float = 0) -> None:
        network = ipaddress.ip_network(_PREFIXES[number])
        self.namespace = f"{underlay.namespace}-wan{number}"
        self.prefix, self.gateway, self.outside = str(network), str(network[1]), f"{PREFIX4}.{200 + number}"
        self._underlay, self._port = underlay, f"w{number}"
        run(["ip", "netns", "add", self.namespace])
        underlay.plug(self._port, self.namespace, "out0")
        for command in (
            "link set lo up",
            f"address add {self.outside}/24 dev out0",
            "link set out0 up",
            "link add br0 type bridge mcast_snooping 0",
            f"address add {self.gateway}/24 dev br0",
            "link set br0 up",
        ):
            run(["ip", "-n", self.namespace, *command.split()])
        self.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=1"])
        if rate_mbit:
            self.limit(rate_mbit)
        self._server = DhcpServer(self.namespace, "br0", self.prefix, self.gateway)

    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program at the gateway."""
        return run(["ip", "netns", "exec", self.namespace, *command], **options)  # type: ignore[arg-type]

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
            run(["ip", "-n", self.namespace, "link", "add", port, "type", "veth", "peer", "name", device, "netns", router.namespace])
            run(["ip", "-n", self.namespace, "link", "set", port, "master", "br0", "up"])
            router.run(["ip", "link", "set", device, "up"])
        start_client(router, device)
        return router.wait(lambda: leased(router, self.prefix, device), timeout=30, what=f"an address of {self.prefix}")

    def reached_from(self, router: Router) -> None:
        """Give a router on the underlay a route to what is behind this gateway."""
        router.run(["ip", "route", "replace", self.prefix, "via", self.outside])

    def cut(self) -> None:
        """Let nothing through, unnoticed by the routers behind it: their links stay up."""
        self.run(["nft", "add table inet cut; add chain inet cut forward { type filter hook forward priority 0; policy drop; }"])

    def mend(self) -> None:
        """Let it through again."""
        self.run(["nft", "delete", "table", "inet", "cut"])

    def close(self) -> None:
        """Take the gateway away."""
        self._server.close()
        self._underlay.unplug(self._port)
        run(["ip", "netns", "del", self.namespace], check=False)
