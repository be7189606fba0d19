"""The network between the routers: a namespace with a bridge, one port per router, impairments on each."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.dhcp import DhcpServer, leased, start_client
from lab.impair import Impairment, Relay, kernel_has_netem
from lab.machine import Machine
from lab.process import LabError, run, wait

PREFIX4, PREFIX6 = "198.51.100", "2001:db8:0:1::"
_LENGTHS = {4: 24, 6: 64}


class Underlay:
    """Routers' ports on one bridge; impairments act on what reaches a router."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._ports: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._homes: dict[str, str] = {}  # router -> namespace with the bridge that its port is on, where not ours
        self._addresses: dict[tuple[str, int], str | None] = {}  # (router, family) -> address that is not as numbered
        self._relays: dict[str, Relay] = {}
        run(["ip", "netns", "add", namespace])
        for command in ("link set lo up", "link add br0 type bridge mcast_snooping 0", "link set br0 up"):
            self._ip(*command.split())

    def _ip(self, *arguments: str) -> None:
        run(["ip", "-n", self.namespace, *arguments])

    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program in the underlay's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *command], **options)  # type: ignore[arg-type]

    def plug(self, port: str, namespace: str, device: str) -> None:
        """Join a namespace to the bridge by a device of its own; ``port`` is what the other end is called here."""
        self._ip("link", "add", port, "type", "veth", "peer", "name", device, "netns", namespace)
        self._ip("link", "set", port, "master", "br0", "up")

    def unplug(self, port: str) -> None:
        """Take a port away."""
        self._ip("link", "del", port)

    def attach(self, router: str, number: int, namespace: str) -> None:
        """Give the namespace of a router an ``eth0`` with its addresses, joined to the bridge or where it was moved to."""
        port = f"u{number}"
        self.detach(router)
        self.plug(port, namespace, "eth0")
        self._ports[router], self._namespaces[router] = port, namespace
        for family, address in ((4, f"{PREFIX4}.{number}"), (6, f"{PREFIX6}{number:x}")):
            if (own := self._addresses.get((router, family), address)) is not None:
                self._give(namespace, family, own)
        for device in ("eth0", "lo"):
            run(["ip", "-n", namespace, "link", "set", device, "up"])
        if router in self._homes:
            self.move(router, self._homes[router])

    def _give(self, namespace: str, family: int, address: str) -> None:
        nodad = ["nodad"] if family == 6 else []
        run(["ip", "-n", namespace, "addr", "add", f"{address}/{_LENGTHS[family]}", "dev", "eth0", *nodad])

    def detach(self, router: str) -> None:
        """Take a router's port away."""
        if router in self._relays:
            self.clear(router)
        port = self._ports.pop(router, None)
        if port:
            run(["ip", "-n", self._home(router), "link", "del", port], check=False)

    def _home(self, router: str) -> str:
        return self._homes.get(router, self.namespace)

    def move(self, router: str, namespace: str) -> None:
        """Unplug a router and plug it into the bridge ``br0`` of another namespace, where it stays over reboots.

        Its global addresses are gone, as those of another network are no use there.
        """
        self.clear(router)
        port = self._ports[router]
        if (at := self._place(port, router)) != namespace:
            run(["ip", "-n", at, "link", "set", port, "netns", namespace])
        run(["ip", "-n", namespace, "link", "set", port, "master", "br0", "up"])
        run(["ip", "-n", self._namespaces[router], "addr", "flush", "dev", "eth0", "scope", "global"])
        self._homes[router] = namespace
        self._addresses |= {(router, family): None for family in _LENGTHS}

    def _place(self, port: str, router: str) -> str:
        """Namespace in which a port is now; ours right after :meth:`attach`."""
        here = run(["ip", "-n", self.namespace, "link", "show", port], check=False).returncode == 0
        return self.namespace if here else self._home(router)

    def lost(self, router: str, namespace: str) -> None:
        """The bridge that a router was moved to is no more: it is unplugged, until it is attached again."""
        if self._homes.get(router) == namespace:
            self.detach(router)
            del self._homes[router]

    def renumber(self, router: Machine, family: int, address: str) -> None:
        """Give a router another underlay address of a family, without a length, and take the others of it away."""
        namespace = self._namespaces[router.name]
        show = ["ip", "-n", namespace, "-j", f"-{family}", "addr", "show", "dev", "eth0", "scope", "global"]
        infos = [info for link in json.loads(run(show).stdout) for info in link.get("addr_info", []) if info]
        old = [f"{info['local']}/{info['prefixlen']}" for info in infos if info["local"] != address]
        # Else the kernel takes the new one away with the old one, whose secondary it is.
        run(["ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.conf.eth0.promote_secondaries=1"])
        if all(info["local"] != address for info in infos):
            self._give(namespace, family, address)
        for one in old:
            run(["ip", "-n", namespace, "addr", "del", one, "dev", "eth0"])
        self._addresses[router.name, family] = address
        if family == 4:
            router.underlay4 = address
        else:
            router.underlay6 = address

    @contextmanager
    def dhcp(self, *routers: Machine, renew: int | None = None) -> Iterator[DhcpServer]:
        """Serve IPv4 addresses of the underlay, from 198.51.100.100 on; ``routers`` give up their own and ask for one.

        They renew it after ``renew`` seconds, half of the lease unless given.
        """
        gateway = f"{PREFIX4}.254"
        self._ip("addr", "add", f"{gateway}/24", "dev", "br0")
        server = DhcpServer(self.namespace, "br0", f"{PREFIX4}.0/24", gateway, renew=renew)
        try:
            for router in routers:
                router.run(["ip", "-4", "addr", "flush", "dev", "eth0"])
                self._addresses[router.name, 4] = None
                start_client(router)
                router.underlay4 = router.wait(lambda r=router: leased(r, f"{PREFIX4}.0/24"), what="a lease")
            yield server
        finally:
            server.close()
            self._ip("addr", "del", f"{gateway}/24", "dev", "br0")

    def port(self, router: str) -> str:
        """Name of a router's port in the underlay's namespace, or in that which it was moved to."""
        return self._ports[router]

    def down(self, router: str) -> None:
        """Unplug a router: the port is down on both sides."""
        run(["ip", "-n", self._home(router), "link", "set", self._ports[router], "down"])

    def up(self, router: str) -> None:
        """Plug a router in again."""
        run(["ip", "-n", self._home(router), "link", "set", self._ports[router], "up"])

    def netem(
        self, router: str, *, delay_ms: float = 0, jitter_ms: float = 0, loss_pct: float = 0, rate_mbit: float = 0,
        reorder_pct: float = 0,
    ) -> None:  # fmt: skip
        """Impair what reaches a router; for one way only, that is all. Given to both routers it acts both ways."""
        wanted = Impairment(delay_ms, jitter_ms, loss_pct, rate_mbit, reorder_pct)
        if kernel_has_netem(self.namespace):
            tc = ["tc", "-n", self._home(router), "qdisc", "replace", "dev", self._ports[router]]
            run([*tc, "root", "netem", *wanted.netem_words()])
            return
        self.clear(router)
        self._relays[router] = Relay(self._home(router), self._ports[router], self._namespaces[router], wanted)

    def clear(self, router: str) -> None:
        """Take impairments away."""
        relay = self._relays.pop(router, None)
        if relay:
            relay.close()
        else:
            run(["tc", "-n", self._home(router), "qdisc", "del", "dev", self._ports[router], "root"], check=False)

    @contextmanager
    def capture(self, router: str, path: Path, packets: int = 0, expression: str = "") -> Iterator[None]:
        """Write what passes a router's port to a pcap file; it records from the first line of the block on."""
        command = ["ip", "netns", "exec", self._home(router), "tcpdump", "-U", "-n", "-i", self._ports[router], "-w", str(path)]
        command += [*(["-c", str(packets)] if packets else []), *([expression] if expression else [])]
        recorder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait(lambda: path.exists() and path.stat().st_size >= 24, timeout=10, what=f"capture to {path}")
            yield
        finally:
            recorder.terminate()
            try:
                recorder.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                recorder.kill()
                raise LabError(f"tcpdump on {self._ports[router]} does not end") from None

    def close(self) -> None:
        """Take the namespace away."""
        for router in list(self._relays):
            self.clear(router)
        run(["ip", "netns", "del", self.namespace], check=False)
