"""The network between the routers: a namespace with a bridge, one port per router, impairments on each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.impair import Impairment, Relay, kernel_has_netem
from lab.process import LabError, run, wait

PREFIX4, PREFIX6 = "198.51.100", "2001:db8:0:1::"


class Underlay:
    """Routers' ports on one bridge; impairments act on what reaches a router."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._ports: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._relays: dict[str, Relay] = {}
        run(["ip", "netns", "add", namespace])
        for command in ("link set lo up", "link add br0 type bridge mcast_snooping 0", "link set br0 up"):
            self._ip(*command.split())

    def _ip(self, *arguments: str) -> None:
        run(["ip", "-n", self.namespace, *arguments])

    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program in the underlay's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *command], **options)  # type: ignore[arg-type]

    def attach(self, router: str, number: int, namespace: str) -> None:
        """Give the namespace of a router an ``eth0`` with its addresses, joined to the bridge."""
        port = f"u{number}"
        self.detach(router)
        self._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self._ip("link", "set", port, "master", "br0", "up")
        self._ports[router], self._namespaces[router] = port, namespace
        for arguments in (
            f"addr add {PREFIX4}.{number}/24 dev eth0",
            f"addr add {PREFIX6}{number:x}/64 dev eth0 nodad",
            "link set eth0 up",
            "link set lo up",
        ):
            run(["ip", "-n", namespace, *arguments.split()])

    def detach(self, router: str) -> None:
        """Take a router's port away."""
        if router in self._relays:
            self.clear(router)
        port = self._ports.pop(router, None)
        if port:
            run(["ip", "-n", self.namespace, "link", "del", port], check=False)

    def port(self, router: str) -> str:
        """Name of a router's port in the underlay's namespace."""
        return self._ports[router]

    def down(self, router: str) -> None:
        """Unplug a router: the port is down on both sides."""
        self._ip("link", "set", self._ports[router], "down")

    def up(self, router: str) -> None:
        """Plug a router in again."""
        self._ip("link", "set", self._ports[router], "up")

    def netem(
        self, router: str, *, delay_ms: float = 0, jitter_ms: float = 0, loss_pct: float = 0, rate_mbit: float = 0,
        reorder_pct: float = 0,
    ) -> None:  # fmt: skip
        """Impair what reaches a router; for one way only, that is all. Given to both routers it acts both ways."""
        wanted = Impairment(delay_ms, jitter_ms, loss_pct, rate_mbit, reorder_pct)
        if kernel_has_netem(self):
            self.run(["tc", "qdisc", "replace", "dev", self._ports[router], "root", "netem", *wanted.netem_words()])
            return
        self.clear(router)
        self._relays[router] = Relay(self, self._ports[router], self._namespaces[router], wanted)

    def clear(self, router: str) -> None:
        """Take impairments away."""
        relay = self._relays.pop(router, None)
        if relay:
            relay.close()
        else:
            self.run(["tc", "qdisc", "del", "dev", self._ports[router], "root"], check=False)

    @contextmanager
    def capture(self, router: str, path: Path, packets: int = 0, expression: str = "") -> Iterator[None]:
        """Write what passes a router's port to a pcap file; it records from the first line of the block on."""
        command = ["ip", "netns", "exec", self.namespace, "tcpdump", "-U", "-n", "-i", self._ports[router], "-w", str(path)]
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
