"""A LAN behind a router with one host in it, whose traffic the router forwards.

The host sends packets of MTU size with checksums of its own making, as they come off a wire, and the router's card
puts them together again (GRO) or does not. In here its packets keep the hash of their socket, by which the router then
chooses paths; that is as random as ports are, but must not be thrown anew when a packet is lost, as TCP else does.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lab.process import run
from lab.router import Router

T = TypeVar("T")

MODERATION = 50_000  # ns between interrupts of a card that collects packets
_SETUP = """
ip netns add {name}
ip link add {device} type veth peer name eth0 netns {name}
ip netns exec {name} ethtool -K eth0 tx off tso off gso off gro off
ip address add {router4} dev {device}
ip address add {router6} dev {device} nodad
ip link set {device} addrgenmode eui64 up
ip -n {name} address add {host4} dev eth0
ip -n {name} address add {host6} dev eth0 nodad
ip netns exec {name} sysctl -qew net.core.txrehash=0
ip -n {name} link set lo up
ip -n {name} link set eth0 up
ip -n {name} route add default via {gateway4}
ip -n {name} route add default via {gateway6}
"""


class Lan:
    """The LAN behind a router: ``prefix`` with the router as its first host and :attr:`address` as the second.

    It is dual-stacked: :attr:`prefix6` and :attr:`address6` likewise. ``gro`` says whether the router's card joins
    packets of a flow before it forwards them. It is gone after a reboot of the router; :meth:`plug` makes it anew.
    """

    def __init__(
        self, router: Router, prefix: str | None = None, gro: bool = True, *, prefix6: str | None = None, name: str = "lan"
    ) -> None:
        self.router, self.name, self.device = router, name, f"{name}0"
        self.prefix = prefix or f"192.168.{router.number}.0/24"
        self.prefix6 = prefix6 or f"2001:db8:192:{router.number:x}::/64"
        self.gateway, self.address = self._hosts(self.prefix)
        self.gateway6, self.address6 = self._hosts(self.prefix6)
        self._gro = gro
        self.plug()

    @staticmethod
    def _hosts(prefix: str) -> tuple[str, str]:
        network = ipaddress.ip_network(prefix)
        return str(network[1]), str(network[2])

    def plug(self) -> None:
        """Make the LAN and its host."""
        four, six = (prefix.rpartition("/")[2] for prefix in (self.prefix, self.prefix6))
        script = _SETUP.format(
            name=self.name, device=self.device, gateway4=self.gateway, gateway6=self.gateway6,
            router4=f"{self.gateway}/{four}", router6=f"{self.gateway6}/{six}",
            host4=f"{self.address}/{four}", host6=f"{self.address6}/{six}",
        )  # fmt: skip
        self.router.run(["sh", "-ec", script])
        self._moderated = False
        self.set_gro(self._gro)

    def set_gro(self, on: bool, udp: bool = False) -> None:
        """Whether the router's card joins packets of a flow before it forwards them; those of UDP only where that is asked for.

        A veth hands over each packet when it comes, and only TCP sends several at once. So for UDP it waits as a card does,
        whose interrupts are some 50 us apart.
        """
        # On a veth this also is what lets packets come by way of NAPI, without which nothing is joined.
        words = {"gro": on, "rx-udp-gro-forwarding": on and udp}
        options = [word for name, value in words.items() for word in (name, "on" if value else "off")]
        self.router.run(["ethtool", "-K", self.device, *options])
        if udp != self._moderated:
            self._moderate(udp)
        self._gro = on

    def _moderate(self, on: bool) -> None:
        where = f"/sys/class/net/{self.device}"
        writes = f"echo {int(on)} >{where}/napi_defer_hard_irqs && echo {MODERATION if on else 0} >{where}/gro_flush_timeout"
        # The router's container has its view of /sys read-only, which all mounts of this network share.
        script = f"mount -o remount,rw /sys && {writes}; status=$?; mount -o remount,ro /sys; exit $status"
        run(["ip", "netns", "exec", self.router.namespace, "sh", "-c", script])
        self._moderated = on

    def close(self) -> None:
        """Take the LAN and its host away."""
        self.router.run(["ip", "link", "del", self.device], check=False)
        self.router.run(["ip", "netns", "del", self.name], check=False)

    # -- on the host

    def command(self, command: Sequence[str]) -> list[str]:
        """The command of the router that runs ``command`` on the host."""
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on the host to its end, as :meth:`Router.run` does."""
        return self.router.run(self.command(command), **options)

    def json(self, command: Sequence[str], **options: Any) -> Any:
        """What a program on the host prints as JSON; None for nothing."""
        answer = self.run(command, **options).stdout
        return json.loads(answer) if answer.strip() else None

    def popen(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program on the host."""
        return self.router.popen(self.command(command))

    def wait(self, look: Callable[[], T], *, timeout: float = 20.0, what: str) -> T:
        """Wait for a state of the host."""
        return self.router.wait(look, timeout=timeout, what=f"host: {what}")

    def listens(self, port: int) -> None:
        """Wait until a program on the host listens on a TCP port."""
        self.wait(lambda: f":{port} " in self.run(["ss", "-Hltn"]).stdout, what=f"a server on port {port}")

    def reach(self, target: str, timeout: float = 20.0) -> None:
        """Wait until an echo comes back to the host."""
        command = ["ping", "-c1", "-W1", target]
        self.wait(lambda: self.run(command, check=False).returncode == 0, timeout=timeout, what=f"echo from {target}")
