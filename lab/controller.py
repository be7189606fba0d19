"""A controller of the lab's own: root of a private planet and controller of networks, in one node on the underlay.

Two kinds do the same: a small one of ours, which is there on every machine, and ZeroTier's program where it is on PATH.
"""

from __future__ import annotations

import base64
import ctypes
import json
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lab.process import LabError, run, wait
from lab.router import Router
from lab.underlay import PREFIX4, Underlay
from lab.ztproto.crypto import Secret
from lab.ztproto.node import Node
from zerotier_multi.values import Endpoint, endpoint
from zerotier_multi.identity import PublicIdentity

T = TypeVar("T")
HOST, PORT = 200, 9993  # its number on the underlay, and its UDP port
_CLONE_NEWNET = 0x40000000
_WORLD_ID, _MADE = 0x6C6162, 1_704_067_200_000  # of the planet; what nobody has signed is never updated


class Controller(Protocol):
    """What both kinds do. Networks are 16 hex digits and begin with :attr:`address`; nodes are 10."""

    address: str
    planet: bytes

    def start(self) -> None:
        """Begin to answer, with the networks and members of before."""

    def stop(self) -> None:
        """Fall silent."""

    def add_network(self, network: str, mtu: int = 2800) -> None:
        """Have a private network from now on."""

    def members(self, network: str) -> set[str]:
        """Nodes that have asked for a network."""

    def authorize(self, network: str, node: str, allowed: bool = True) -> None:
        """Take a node in, or put it out."""

    def allow_bridging(self, network: str, node: str, allowed: bool = True) -> None:
        """Let a node bridge, or not any more."""


def inside(namespace: str, call: Callable[[], T]) -> T:
    """What ``call`` gives in a network namespace; a thread of its own enters it. Raises what ``call`` raises."""
    found: list[T] = []
    raised: list[BaseException] = []

    def enter() -> None:
        try:
            with open(f"/run/netns/{namespace}", "rb") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), f"network namespace {namespace} cannot be entered")
            found.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def _planet(public: PublicIdentity) -> bytes:
    place: Endpoint = endpoint(f"{PREFIX4}.{HOST}:{PORT}")
    root = public.wire + b"\x01\x04" + place.address.packed + struct.pack(">H", place.port)
    return struct.pack(">BQQ", 1, _WORLD_ID, _MADE) + bytes(range(64)) + bytes(96) + b"\x01" + root


class SmallController:
    """Ours, in a thread of this process; ``aes`` False: one of before version 1.6."""

    def __init__(self, namespace: str, secret: str, aes: bool = True) -> None:
        self._namespace, self._secret, self._aes = namespace, Secret.parse(secret), aes
        self.address = self._secret.identity.address
        self.planet = _planet(PublicIdentity(self.address, self._secret.identity.key))
        self._node: Node | None = None
        self._networks: dict[str, tuple[int, set[str]]] = {}
        self._bridges: set[tuple[str, str]] = set()

    def start(self) -> None:
        self._node = Node(self._secret, inside(self._namespace, self._open), self._aes)
        for network, (mtu, allowed) in self._networks.items():
            self._node.add_network(network, mtu)
            for node in allowed:
                self._node.authorize(network, node, True)
        for network, node in self._bridges:
            self._node.allow_bridging(network, node, True)

    @staticmethod
    def _open() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((f"{PREFIX4}.{HOST}", PORT))
        return made

    def stop(self) -> None:
        if self._node:
            self._node.close()
        self._node = None

    def _living(self) -> Node:
        if self._node is None:
            raise LabError("the controller has been stopped")
        return self._node

    def add_network(self, network: str, mtu: int = 2800) -> None:
        self._networks[network] = (mtu, set())
        self._living().add_network(network, mtu)

    def members(self, network: str) -> set[str]:
        return self._living().members(network)

    def authorize(self, network: str, node: str, allowed: bool = True) -> None:
        known = self._networks[network][1]
        (known.add if allowed else known.discard)(node)
        self._living().authorize(network, node, allowed)

    def allow_bridging(self, network: str, node: str, allowed: bool = True) -> None:
        (self._bridges.add if allowed else self._bridges.discard)((network, node))
        self._living().allow_bridging(network, node, allowed)


_ASK = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=5)
connection.request(sys.argv[1], sys.argv[2], sys.stdin.buffer.read(), {{"X-ZT1-Auth": open(sys.argv[3]).read().strip(), "Connection": "keep-alive"}})
answer = connection.getresponse()
body = answer.read()
sys.exit(f"{{answer.status}}: {{body[:200]}}") if answer.status != 200 else sys.stdout.buffer.write(body)
"""


class StockController:
    """ZeroTier's own program, a process of this machine in the controller's namespace."""

    def __init__(self, namespace: str, program: str, home: Path) -> None:
        self._namespace, self._program, self._home = namespace, program, home
        home.mkdir(mode=0o700)
        run([program, "-i", "generate", str(home / "identity.secret"), str(home / "identity.public")])
        public = PublicIdentity.parse((home / "identity.public").read_text())
        self.address, self.planet = public.address, _planet(public)
        (home / "planet").write_bytes(self.planet)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, manager: str | None = None) -> None:
        """Begin to answer; hosts in the prefix ``manager`` may use the API, too."""
        settings: dict[str, Any] = {"primaryPort": PORT, "allowSecondaryPort": False, "portMappingEnabled": False}
        if manager:
            settings["allowManagementFrom"] = ["127.0.0.1/32", manager]
        (self._home / "local.conf").write_text(json.dumps({"settings": settings}))
        bound = ["ip", "netns", "exec", self._namespace, "setpriv", "--pdeathsig", "KILL"]  # it dies with us
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            [*bound, self._program, "-U", f"-p{PORT}", str(self._home)], stdin=quiet, stdout=quiet, stderr=quiet
        )
        wait(lambda: self._ask("GET", "/controller").get("controller"), timeout=20, what="zerotier-one as a controller")

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        token = self._home / "authtoken.secret"
        command = ["ip", "netns", "exec", self._namespace, sys.executable, "-c", _ASK.format(port=PORT), method, path, str(token)]
        return dict(json.loads(run(command, text_input=json.dumps(body or {})).stdout))

    @property
    def token(self) -> str:
        """What the API asks for."""
        return (self._home / "authtoken.secret").read_text().strip()

    def add_network(self, network: str, mtu: int = 2800, managed: dict[str, Any] | None = None) -> None:
        self._ask("POST", f"/controller/network/{network}", {"name": "lab", "private": True, "mtu": mtu, **(managed or {})})

    def member(self, network: str, node: str) -> dict[str, Any]:
        """A member as the controller has it."""
        return self._ask("GET", f"/controller/network/{network}/member/{node}")

    def change_member(self, network: str, node: str, change: dict[str, Any]) -> None:
        """Set something of a member."""
        self._ask("POST", f"/controller/network/{network}/member/{node}", change)

    def members(self, network: str) -> set[str]:
        return set(self._ask("GET", f"/controller/network/{network}/member"))

    def authorize(self, network: str, node: str, allowed: bool = True) -> None:
        self.change_member(network, node, {"authorized": allowed})

    def allow_bridging(self, network: str, node: str, allowed: bool = True) -> None:
        self.change_member(network, node, {"activeBridge": allowed})


SMALL = {"small": True, "small without AES": False}
KINDS = (*SMALL, *(["zerotier-one"] if shutil.which("zerotier-one") else []))


@contextmanager
def controller(underlay: Underlay, kind: str, maker: Router, home: Path) -> Iterator[Controller]:
    """A controller that has not been started yet; ``maker`` makes the identity of the small one, ``home`` is the other's."""
    namespace = f"{underlay.namespace}-{HOST}"
    run(["ip", "netns", "add", namespace])
    made: Controller | None = None
    try:
        underlay.attach(namespace, HOST, namespace)
        if kind in SMALL:
            generate = (
                "d=$(mktemp -d) && $(command -v ztnode || echo zerotier-one) -i generate $d/s $d/p >&2 && cat $d/s && rm -r $d"
            )
            secret = maker.run(["sh", "-c", generate]).stdout
            made = SmallController(namespace, secret, SMALL[kind])
        else:
            made = StockController(namespace, shutil.which(kind) or kind, home)
        yield made
    finally:
        if made:
            made.stop()
        underlay.detach(namespace)
        run(["ip", "netns", "del", namespace], check=False)


def planet_text(made: Controller) -> str:
    """The controller's planet as the CLI takes it."""
    return base64.b64encode(made.planet).decode()
