"""A LAN that several routers have a port on, with one host in it, whose gateway is an address that the routers share (VRRP)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.router import Router
from lab.underlay import Underlay

CONFIGURATION = """
vrrp_instance LAN {{
    state BACKUP
    interface lan0
    virtual_router_id 10
    priority {priority}
    advert_int 1
    virtual_ipaddress {{
        {gateway}/24 dev lan0
    }}
}}
"""


class SharedLan:
    """A switch and a host on it: :attr:`address` in ``192.168.NUMBER.0/24``; the routers have .2, .3 … and share .1."""

    def __init__(self, underlay: Underlay, number: int) -> None:
        self.namespace = f"{underlay.namespace}-shared{number}"
        base = f"192.168.{number}"
        self.gateway, self.address = f"{base}.1", f"{base}.100"
        self._base = base
        self._switch = Underlay(self.namespace)
        self._routers: list[Router] = []
        # Else the switch takes the lowest address of its ports, and the host another one when a port goes.
        self.run(["ip", "link", "set", "br0", "address", f"02:00:00:00:{number:02x}:64"])
        for command in (f"address add {self.address}/24 dev br0", f"route add default via {self.gateway}"):
            self.run(["ip", *command.split()])

    def plug(self, router: Router) -> None:
        """Give a router its port ``lan0``, and keepalived as VyOS configures it; the first router has the highest priority.

        Both are gone after a reboot; this makes them anew.
        """
        if router not in self._routers:
            self._routers.append(router)
        place = self._routers.index(router)
        self._switch.plug(f"r{place}", router.namespace, "lan0")
        router.run(["ip", "address", "add", f"{self._base}.{2 + place}/24", "dev", "lan0"])
        router.run(["ip", "link", "set", "lan0", "up"])
        router.write("/run/vrrp.conf", CONFIGURATION.format(priority=200 - 100 * place, gateway=self.gateway))
        router.run(["systemd-run", "--unit=vrrp", "keepalived", "--dont-fork", "--use-file=/run/vrrp.conf"])

    def master(self) -> str:
        """Name of the router that has the shared address."""
        names = []
        for router in self._routers:
            shown = router.run(["ip", "-br", "address", "show", "dev", "lan0"], check=False).stdout if router.running else ""
            names += [router.name] if f"{self.gateway}/" in shown else []
        return " ".join(names)

    def down(self, router: Router) -> None:
        """Pull a router's cable."""
        self._port(router, "down")

    def up(self, router: Router) -> None:
        """Plug it in again."""
        self._port(router, "up")

    def _port(self, router: Router, state: str) -> None:
        self.run(["ip", "link", "set", f"r{self._routers.index(router)}", state])

    def run(self, command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        """Run a program on the host."""
        return self._switch.run(command, **options)

    def close(self) -> None:
        """Take it away."""
        self._switch.close()
