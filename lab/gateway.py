"""A router of somebody else's between the underlay and a network with DHCP: what a NAT box and a provider have alike."""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import Sequence

from lab.dhcp import DhcpServer
from lab.process import run
from lab.underlay import Underlay


class Gateway:
    """A network namespace with ``out0`` on the underlay, at ``outside``/24, and a bridge ``br0`` for ``prefix``; IPv4 alone.

    :attr:`gateway` is its address on the bridge, the first host of :attr:`prefix`, which it serves by DHCP.
    """

    def __init__(self, underlay: Underlay, name: str, outside: str, prefix: str) -> None:
        network = ipaddress.ip_network(prefix)
        self.namespace, self.prefix, self.gateway = f"{underlay.namespace}-{name}", prefix, str(network[1])
        self._underlay, self._port = underlay, f"g-{name}"
        run(["ip", "netns", "add", self.namespace])
        underlay.plug(self._port, self.namespace, "out0")
        for command in (
            "link set lo up",
            f"address add {outside}/24 dev out0",
            "link set out0 up",
            "link add br0 type bridge mcast_snooping 0",
            f"address add {self.gateway}/{network.prefixlen} dev br0",
            "link set br0 up",
        ):
            run(["ip", "-n", self.namespace, *command.split()])
        self.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=1"])
        self._server = DhcpServer(self.namespace, "br0", self.prefix, self.gateway)

    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program in it."""
        return run(["ip", "netns", "exec", self.namespace, *command], **options)  # type: ignore[arg-type]

    def close(self) -> None:
        """Take it away."""
        self._server.close()
        self._underlay.unplug(self._port)
        run(["ip", "netns", "del", self.namespace], check=False)
