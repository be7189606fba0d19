"""A LAN behind a router with one host in it, whose traffic the router forwards."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from lab.router import Router

_SETUP = """
ip netns add lan
ip link add lan0 type veth peer name eth0 netns lan
ip address add {router}/24 dev lan0
ip link set lan0 up
ip -n lan address add {host}/24 dev eth0
ip -n lan link set eth0 up
ip -n lan route add default via {router}
"""


class Lan:
    """The LAN behind a router: ``prefix`` with the router as its first host and :attr:`address` as the second."""

    def __init__(self, router: Router) -> None:
        begin = f"198.18.{router.number}"
        self.router, self.prefix, self.address = router, f"{begin}.0/24", f"{begin}.2"
        router.run(["sh", "-ec", _SETUP.format(router=f"{begin}.1", host=self.address)])

    def popen(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program on the host."""
        return self.router.popen(["ip", "netns", "exec", "lan", *command])

    def listens(self, port: int) -> None:
        """Wait until a program on the host listens on a TCP port."""
        command = ["ip", "netns", "exec", "lan", "ss", "-Hltn"]
        self.router.wait(lambda: f":{port} " in self.router.run(command).stdout, what=f"a server on port {port}")
