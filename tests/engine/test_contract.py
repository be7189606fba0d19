"""What the product relies on in an engine, checked on the one that ``ENGINE`` names (default: our ztnode).

Everything runs in network namespaces of its own. The files of the controller-free link are written here a
second time, independently of the library, so that the two writers check each other.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from lab.process import run, wait
from lab.scenario import resident

ROOT = Path(__file__).resolve().parent.parent.parent
ENGINE = os.environ.get("ENGINE", "ztnode")
OURS = Path(ENGINE).name == "ztnode"
NETWORK = "8056c2e21c000001"
PORT = 9993

only_ours = pytest.mark.only_ztnode


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    if ENGINE != "ztnode":
        path = shutil.which(ENGINE)
        assert path, f"ENGINE={ENGINE}: no such program"
        return path
    (package,) = (ROOT / "build/debs").glob("ztnode_*.deb")
    where = tmp_path_factory.mktemp("engine")
    run(["dpkg", "-x", str(package), str(where)])
    return str(where / "usr/sbin/ztnode")


class Host:
    """A network namespace with one underlay device."""

    def __init__(self, name: str) -> None:
        self.name = name
        run(["ip", "netns", "add", name])
        run(["ip", "-n", name, "link", "set", "lo", "up"])

    def run(self, *command: str, check: bool = True, timeout: float = 30) -> str:
        return run(["ip", "netns", "exec", self.name, *command], check=check, timeout=timeout).stdout

    def popen(self, *command: str) -> subprocess.Popen[str]:
        """A program in it, whose output is piped."""
        return subprocess.Popen(["ip", "netns", "exec", self.name, *command], stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        for pid in run(["ip", "netns", "pids", self.name], check=False).stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        run(["ip", "netns", "del", self.name], check=False)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    a, b = Host(f"zta-{os.getpid()}"), Host(f"ztb-{os.getpid()}")
    try:
        run(["ip", "-n", a.name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b.name])
        for number, host in enumerate((a, b), start=1):
            host.run("ip", "addr", "add", f"198.51.100.{number}/24", "dev", "eth0")
            host.run("ip", "addr", "add", f"2001:db8::{number}/64", "dev", "eth0", "nodad")
            host.run("ip", "link", "set", "eth0", "up")
        yield a, b
    finally:
        a.close()
        b.close()


class Node:
    """A home and the process that runs in it."""

    def __init__(self, engine: str, host: Host, home: Path, port: int = PORT) -> None:
        self.engine, self.host, self.home, self.port = engine, host, home, port
        self.process: subprocess.Popen[str] | None = None
        (home / "networks.d").mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        self.settings: dict[str, object] = {
            "primaryPort": port, "allowSecondaryPort": False, "portMappingEnabled": False, "softwareUpdate": "disable",
            "interfacePrefixBlacklist": ["zt", "wg"], "a key of the future": 1,
        }  # fmt: skip

    def write_conf(self, **more: object) -> None:
        (self.home / "local.conf").write_text(json.dumps({"settings": self.settings, **more}))

    def generate(self) -> str:
        run([self.engine, "-i", "generate", str(self.home / "identity.secret"), str(self.home / "identity.public")])
        return (self.home / "identity.public").read_text().strip()

    def start(self, answer: bool = True) -> None:
        if not (self.home / "local.conf").exists():
            self.write_conf()
        self.log = (self.home.parent / f"{self.home.name}.log").open("a")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.host.name, self.engine, "-U", f"-p{self.port}", str(self.home)],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if answer:
            wait(self._answers, timeout=15, what=f"API of {self.home.name}; log: {self.log.name}")

    def _answers(self) -> bool:
        assert self.process
        assert self.process.poll() is None, (self.home.parent / f"{self.home.name}.log").read_text()
        return self.get("/status")[0] == 200

    def request(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, str]:
        """(status, body) over a hand-made connection inside the namespace; (0, "") when there is no answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        return self.raw(head.encode("latin-1") + body)

    def raw(self, data: bytes) -> tuple[int, str]:
        program = (
            "import socket,sys\n"
            "try:\n"
            f"    s=socket.create_connection(('127.0.0.1',{self.port}),3); s.settimeout(3)\n"
            "    s.sendall(sys.stdin.buffer.read()); d=b''\n"
            "    while True:\n"
            "        head,sep,rest=d.partition(b'\\r\\n\\r\\n')\n"
            "        if sep:\n"
            "            n=[int(l.split(b':')[1]) for l in head.split(b'\\r\\n') if l.lower().startswith(b'content-length:')]\n"
            "            if n and len(rest)>=n[0]: break\n"
            "        c=s.recv(65536)\n"
            "        if not c: break\n"
            "        d+=c\n"
            "    sys.stdout.buffer.write(d)\n"
            "except OSError: pass\n"
        )
        done = subprocess.run(
            ["ip", "netns", "exec", self.host.name, "/usr/bin/python3", "-c", program],
            input=data,
            capture_output=True,
            timeout=20,
            check=False,
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        match = re.match(rb"HTTP/1\.\d (\d+)", head)
        return (int(match[1]) if match else 0), body.decode("utf-8", "replace")

    def token(self) -> str:
        try:
            return (self.home / "authtoken.secret").read_text().strip()
        except OSError:
            return ""

    def get(self, path: str) -> tuple[int, object]:
        code, body = self.request("GET", path, {"X-ZT1-Auth": self.token()})
        return code, json.loads(body) if code == 200 else None

    def stop(self) -> int:
        assert self.process
        begin = time.monotonic()
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)
        code = self.process.wait(timeout=10)
        assert time.monotonic() - begin < 5
        return code

    def pids(self) -> list[int]:
        found = run(["pgrep", "-f", f"{self.engine} -U -p{self.port} {self.home}"], check=False).stdout.split()
        return [int(pid) for pid in found]


@pytest.fixture
def node(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> Node:
    return Node(engine, hosts[0], tmp_path / "home")


def escape(value: bytes) -> bytes:
    table = {0: b"\\0", 13: b"\\r", 10: b"\\n", 92: b"\\\\", 61: b"\\e"}
    return b"".join(table.get(c, bytes([c])) for c in value)


def endpoint(address: str) -> bytes:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return (b"\4" if family == socket.AF_INET else b"\6") + socket.inet_pton(family, address) + struct.pack(">H", PORT)


def world(kind: int, number: int, roots: list[bytes]) -> bytes:
    return struct.pack(">BQQ", kind, number, 1) + os.urandom(64) + bytes(96) + bytes([len(roots)]) + b"".join(roots)


def root(identity: str, addresses: Sequence[str] = ()) -> bytes:
    node_address, _, key = identity.split(":")
    binary = bytes.fromhex(node_address) + b"\0" + bytes.fromhex(key) + b"\0"
    return binary + bytes([len(addresses)]) + b"".join(endpoint(a) for a in addresses)


def tries(node: Node, peer: str, addresses: Sequence[str]) -> None:
    """Where a node looks for its peer, in local.conf."""
    virtual = {peer[:10]: {"try": [f"{address}/{PORT}" for address in addresses]}}
    node.write_conf(physical={"10.14.0.0/28": {"blacklist": True}}, virtual=virtual)


def link(a: Node, b: Node, underlay: tuple[Sequence[str], Sequence[str]], mtu: int = 1394) -> None:
    """Make two nodes known to each other without a controller; ``underlay`` is where each is looked for."""
    identities = [node.generate() for node in (a, b)]
    for own, other, node in ((0, 1, a), (1, 0, b)):
        mine, theirs = identities[own][:10], identities[other][:10]
        (node.home / "moons.d").mkdir(exist_ok=True)
        (node.home / "planet").write_bytes(world(1, 77, [root(identities[own])]))
        # First without endpoints, so that it may be anywhere; then with them, so that it is looked for there.
        known = [root(identities[other]), *([] if OURS else [root(identities[other], underlay[other])])]
        moon = world(127, 0x77 << 40 | int(theirs, 16), known) + b"\0\0"
        (node.home / f"moons.d/000077{theirs}.moon").write_bytes(moon)
        rules = bytes.fromhex(f"9805{mine}9805{theirs}00000100")
        values = {"v": b"7", "nwid": NETWORK.encode(), "ts": b"1", "ctmd": b"6ddd00", "r": b"1", "id": mine.encode(),
                  "f": b"2", "ml": b"20", "t": b"1", "n": b"test", "mtu": f"{mtu:x}".encode(), "R": rules}  # fmt: skip
        conf = b"".join(k.encode() + b"=" + escape(v) + b"\n" for k, v in values.items())
        (node.home / "networks.d" / f"{NETWORK}.conf").write_bytes(conf)
        (node.home / "networks.d" / f"{NETWORK}.local.conf").write_text("allowManaged=0\nallowGlobal=0\nallowDefault=0\n")
        (node.home / "devicemap").write_text(f"{NETWORK}=zt0p1\n")
        tries(node, theirs, underlay[other])


def mac(identity: str) -> str:
    nwid, node_address = int(NETWORK, 16), int(identity[:10], 16)
    first = (nwid & 0xFE) | 2
    rest = node_address ^ int.from_bytes((nwid >> 8).to_bytes(7, "big")[::-1][:5], "big")
    return ":".join(f"{x:02x}" for x in bytes([first]) + rest.to_bytes(5, "big"))


def has_address(node: Node, number: int) -> bool:
    node.host.run("ip", "addr", "replace", f"10.14.0.{number}/30", "dev", "zt0p1", check=False)
    other = 3 - number
    return f"10.14.0.{number}/30" in node.host.run("ip", "addr", "show", "zt0p1", check=False) and other > 0


def bring_up(a: Node, b: Node) -> None:
    for node in (a, b):
        node.start()
    for number, node, other in ((1, a, b), (2, b, a)):
        wait(lambda n=node: "mtu 1394" in n.host.run("ip", "link", "show", "zt0p1", check=False), timeout=10, what="TAP")
        lladdr = mac((other.home / "identity.public").read_text())

        def settled(node: Node = node, number: int = number, lladdr: str = lladdr) -> bool:
            # An engine may take its TAP down and up again while it starts; what was set is then set again.
            if not has_address(node, number):
                return False
            node.host.run("ip", "neigh", "replace", f"10.14.0.{3 - number}", "lladdr", lladdr, "dev", "zt0p1", check=False)
            return ",UP" in node.host.run("ip", "link", "show", "zt0p1", check=False)

        wait(settled, timeout=10, what="address on the TAP")


def reaches(a: Node, target: str = "10.14.0.2") -> bool:
    done = run(["ip", "netns", "exec", a.host.name, "ping", "-c1", "-W1", target], check=False)
    return done.returncode == 0


@pytest.fixture
def pair(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> Callable[..., tuple[Node, Node]]:
    def make(
        underlay: tuple[Sequence[str], Sequence[str]] = (["198.51.100.1"], ["198.51.100.2"]), second: str | None = None
    ) -> tuple[Node, Node]:
        a, b = Node(engine, hosts[0], tmp_path / "a"), Node(second or engine, hosts[1], tmp_path / "b")
        link(a, b, underlay)
        bring_up(a, b)
        wait(lambda: reaches(a), timeout=20, what="echo over the link")
        return a, b

    return make


# -- command line and homes


def test_version_is_three_numbers(engine: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", run([engine, "-v"]).stdout.strip())


@only_ours
def test_version_in_full_names_ztnode_and_the_core(engine: str) -> None:
    changelog = (ROOT / "packages/ztnode/debian/changelog").read_text()
    version = changelog.partition("(")[2].partition(")")[0]
    told, core = (run([engine, word]).stdout for word in ("--version", "-v"))
    assert re.fullmatch(rf"ztnode {re.escape(version)}(?:[~+]git\d{{8}}\.\d{{4}}\.[0-9a-f]+)?, core {re.escape(core)}", told), told


def test_an_identity_is_made_and_its_secret_is_secret(node: Node) -> None:
    public = node.generate()
    assert re.fullmatch(r"[0-9a-f]{10}:0:[0-9a-f]{128}", public)
    secret = node.home / "identity.secret"
    assert secret.read_text().startswith(public + ":")
    if OURS:
        assert secret.stat().st_mode & 0o777 == 0o600
    other = f"{int(public[0], 16) ^ 1:x}{public[1:]}"
    longer = [(f"{public}0", 1)] if OURS else []  # which the core reads all the same
    for identity, status in ((public, 0), (other, 1), ("x", 1), *longer):
        assert run([node.engine, "-i", "validate", identity], check=False).returncode == status
    node.start()
    assert node.get("/status")[1]["publicIdentity"] == public
    assert node.get("/status")[1]["address"] == public[:10]


def test_a_home_without_anything_gets_identity_token_port_and_pid(node: Node) -> None:
    node.start()
    for name, mode in (("identity.secret", 0o600), ("authtoken.secret", 0o600), ("identity.public", None)):
        path = node.home / name
        assert path.exists() and (mode is None or path.stat().st_mode & 0o777 == mode)
    assert (node.home / "zerotier-one.port").read_text().strip() == str(PORT)
    identity = (node.home / "identity.secret").read_text()
    assert node.stop() in (0, -signal.SIGABRT, 134)
    node.start()
    assert (node.home / "identity.secret").read_text() == identity


@only_ours
def test_an_empty_token_as_after_a_power_cut_is_replaced(node: Node) -> None:
    (node.home / "authtoken.secret").write_text("")
    node.start()
    assert len(node.token()) == 24


@only_ours
def test_a_home_that_has_become_read_only_serves_on(node: Node) -> None:
    """As after an error of the disk: the kernel mounts it read-only, and an instance that ends must come back."""
    node.start()
    address = node.get("/status")[1]["address"]
    node.stop()
    run(["mount", "--bind", str(node.home), str(node.home)])
    try:
        run(["mount", "-o", "remount,bind,ro", str(node.home)])
        node.start()
        assert node.get("/status")[1]["address"] == address
        second = run(["ip", "netns", "exec", node.host.name, node.engine, "-U", "-p9999", str(node.home)], check=False)
        assert second.returncode == 1 and "is in use by another process" in second.stdout + second.stderr
        node.stop()
    finally:
        run(["umount", "--lazy", str(node.home)])


@only_ours
@pytest.mark.parametrize("text", ["", "nonsense", "89e92ceee5:0:" + "ab" * 64, "89e92ceee5:0:" + "ab" * 64 + ":" + "cd" * 60])
def test_a_corrupt_identity_is_never_overwritten(node: Node, text: str) -> None:
    (node.home / "identity.secret").write_text(text)
    node.start(answer=False)
    assert node.process and node.process.wait(timeout=10) == 1
    assert (node.home / "identity.secret").read_text() == text
    log = (node.home.parent / "home.log").read_text()
    assert "is corrupt and was not changed" in log and "cdcd" not in log


@only_ours
def test_a_planet_that_cannot_be_read_is_an_error(node: Node) -> None:
    """Else the node would belong to the public roots, and their list would take the file's place."""
    (node.home / "planet").mkdir()
    node.start(answer=False)
    assert node.process and node.process.wait(timeout=10) == 1
    assert "planet cannot be read" in (node.home.parent / "home.log").read_text()


@only_ours
def test_a_second_process_on_a_home_is_refused(node: Node) -> None:
    node.start()
    other = Node(node.engine, node.host, node.home, PORT + 1)
    other.start(answer=False)
    assert other.process and other.process.wait(timeout=10) == 1
    assert "is in use by another process" in (node.home.parent / "home.log").read_text()
    assert node.get("/status")[0] == 200


@only_ours
def test_wrong_command_lines(engine: str, tmp_path: Path) -> None:
    for words in (
        ["-d", str(tmp_path)],
        ["-p99999", str(tmp_path)],
        ["-p", "1x", str(tmp_path)],
        ["-p"],
        ["-x"],
        ["--x"],
        [],
        ["a", "b"],
        ["-i", "nonsense"],
    ):
        done = run([engine, *words], check=False)
        assert done.returncode == 1 and done.stderr


@only_ours
def test_broken_settings_are_refused_at_the_start_and_ignored_later(node: Node) -> None:
    (node.home / "local.conf").write_text("{")
    node.start(answer=False)
    assert node.process and node.process.wait(timeout=10) == 1
    node.write_conf()
    node.start()
    (node.home / "local.conf").write_text('{"settings":')
    wait(
        lambda: "cannot be used" in (node.home.parent / "home.log").read_text().split("port 9993")[-1],
        timeout=20,
        what="line in the log",
    )
    assert node.get("/status")[0] == 200


# -- ports


def test_one_udp_port_and_the_api_on_the_same_number(node: Node) -> None:
    node.start()
    wait(lambda: "198.51.100.1/9993" in node.get("/status")[1]["config"]["settings"]["listeningOn"], timeout=10, what="listeningOn")
    udp = {line.split()[3] for line in node.host.run("ss", "-Hlnu").splitlines()}
    assert {address.rpartition(":")[2] for address in udp} == {str(PORT)}
    assert any(a.startswith("198.51.100.1") for a in udp) and any("2001:db8::1" in a for a in udp)
    if OURS:
        tcp = {line.split()[3].rpartition(":")[0] for line in node.host.run("ss", "-Hlnt").splitlines()}
        assert tcp == {"127.0.0.1", "[::1]"}


def test_excluded_devices_are_not_the_underlay_and_new_addresses_are(node: Node) -> None:
    for name in ("wg0", "eth7"):
        node.host.run("ip", "link", "add", name, "type", "bridge")
        node.host.run("ip", "link", "set", name, "up")
    node.host.run("ip", "addr", "add", "192.0.2.1/24", "dev", "wg0")
    node.start()
    node.host.run("ip", "addr", "add", "203.0.113.1/24", "dev", "eth7")
    limit = 10 if OURS else 70
    wait(lambda: "203.0.113.1" in node.host.run("ss", "-Hlnu"), timeout=limit, what="the new address")
    assert "192.0.2.1" not in node.host.run("ss", "-Hlnu")
    node.host.run("ip", "addr", "del", "203.0.113.1/24", "dev", "eth7")
    wait(lambda: "203.0.113.1" not in node.host.run("ss", "-Hlnu"), timeout=limit, what="the address gone")


def sockets(node: Node) -> set[str]:
    """Addresses with devices of its UDP sockets, as 203.0.113.1%eth7."""
    return {line.split()[3].rpartition(":")[0] for line in node.host.run("ss", "-Hlnu").splitlines()}


@only_ours
def test_a_device_that_was_made_anew_is_bound_anew(node: Node) -> None:
    """As a VLAN or PPPoE that a commit rebuilds while ztnode is busy: by the same name and address it is another device."""

    def make() -> None:
        node.host.run("ip", "link", "add", "eth7", "type", "bridge")
        node.host.run("ip", "link", "set", "eth7", "up")
        node.host.run("ip", "addr", "add", "203.0.113.1/24", "dev", "eth7")

    make()
    node.start()
    wait(lambda: "203.0.113.1%eth7" in sockets(node), timeout=10, what="a socket on the device")
    (pid,) = node.pids()
    os.kill(pid, signal.SIGSTOP)
    node.host.run("ip", "link", "del", "eth7")
    make()
    os.kill(pid, signal.SIGCONT)
    wait(lambda: "203.0.113.1%eth7" in sockets(node), timeout=10, what="a socket on the new device")
    wait(lambda: len(sockets(node)) == 3, timeout=10, what="no socket on the former one")


@only_ours
def test_an_address_with_a_label_is_bound(node: Node) -> None:
    node.host.run("ip", "addr", "add", "203.0.113.1/24", "dev", "eth0", "label", "eth0:1")
    node.settings["interfacePrefixBlacklist"] = ["zt", "eth0:"]
    node.start()
    wait(lambda: "203.0.113.1%eth0" in sockets(node), timeout=10, what="a socket at the address")


def test_bind_limits_the_addresses(node: Node) -> None:
    node.settings["bind"] = ["198.51.100.1"]
    node.write_conf()
    node.start()
    wait(lambda: "198.51.100.1" in node.host.run("ss", "-Hlnu"), timeout=10, what="the bound address")
    assert "2001:db8::1" not in node.host.run("ss", "-Hlnu")


@only_ours
def test_every_address_of_a_router_with_many_is_bound_and_no_loopback_address(node: Node) -> None:
    """As with many VLANs, and with VRFs, whose devices have loopback addresses; it is said once when there are more than 256."""
    node.host.run("ip", "address", "add", "127.0.0.5/32", "dev", "eth0")
    for last in range(1, 101):
        node.host.run("ip", "address", "add", f"203.0.113.{last}/32", "dev", "eth0")
    node.start()
    wait(lambda: "203.0.113.100%eth0" in sockets(node), timeout=10, what="a socket at the last address")
    assert "127.0.0.5%eth0" not in sockets(node)
    for last in range(1, 161):
        node.host.run("ip", "address", "add", f"192.0.2.{last}/32", "dev", "eth0")
    log = node.home.parent / "home.log"
    wait(lambda: "more than 256 addresses" in log.read_text(), timeout=10, what="a word of the addresses that are left out")
    assert log.read_text().count("more than 256 addresses, and those on eth0 are not used; choose a device or addresses") == 1


# With the UDP port alone taken zerotier-one starts on another port: the conf script checks before.
@only_ours
def test_a_taken_port_is_an_error(node: Node) -> None:
    program = f"import socket,time; s=socket.socket(2,{int(socket.SOCK_DGRAM)}); s.bind(('',{PORT})); print('held',flush=True); time.sleep(60)"
    holder = subprocess.Popen(
        ["ip", "netns", "exec", node.host.name, "/usr/bin/python3", "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    node.start(answer=False)
    assert node.process and node.process.wait(timeout=15) != 0
    # The child of ip is the program itself.
    said = f"UDP port {PORT} is taken by python3 (pid {holder.pid}) of user root; give another with -p"
    holder.kill()
    holder.wait()
    assert said in (node.home.parent / "home.log").read_text()


# -- the API


def test_the_api_wants_its_token(node: Node) -> None:
    node.start()
    for headers in (
        {},
        {"X-ZT1-Auth": ""},
        {"X-ZT1-Auth": "wrong"},
        {"X-ZT1-Auth": node.token()[:-1]},
        {"X-ZT1-Auth": node.token() + "0"},
    ):
        for path in ("/status", "/network", "/peer", "/nothing"):
            code, body = node.request("GET", path, headers)
            assert code == 401 and node.token() not in body
    assert node.get("/status")[0] == 200
    assert node.get("/nothing")[0] == 404


def test_networks_are_joined_and_left_over_the_api(node: Node) -> None:
    node.start()
    auth = {"X-ZT1-Auth": node.token()}
    assert node.get("/network") == (200, [])
    code, body = node.request("POST", f"/network/{NETWORK}", {**auth, "Content-Type": "application/json"}, b"{}")
    assert code == 200 and json.loads(body)["nwid"] == NETWORK
    assert node.get(f"/network/{NETWORK}")[1]["status"] == "REQUESTING_CONFIGURATION"
    assert (node.home / "networks.d" / f"{NETWORK}.conf").exists()
    assert node.request("DELETE", f"/network/{NETWORK}", auth)[0] == 200
    wait(lambda: node.get("/network") == (200, []), timeout=5, what="network left")
    assert not (node.home / "networks.d" / f"{NETWORK}.conf").exists()
    if OURS:  # zerotier-one says 200 to that
        assert node.request("DELETE", f"/network/{NETWORK}", auth)[0] == 404


@pytest.mark.parametrize(
    "data",
    [
        b"\0\1\2\3\r\n\r\n", b"GET\r\n\r\n", b"GET /status HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /status HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", b"POST /network/zz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /network/../../etc HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /peer/%00%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)  # fmt: skip
def test_malformed_requests_are_harmless(node: Node, data: bytes) -> None:
    node.start()
    assert node.raw(data)[0] != 200
    assert node.get("/status")[0] == 200


@only_ours
def test_silent_and_endless_clients_hold_nobody_up(node: Node) -> None:
    node.start()
    program = (
        f"import socket,time\nss=[socket.create_connection(('127.0.0.1',{PORT})) for _ in range(20)]\n"
        "for s in ss: s.sendall(b'POST /network/8056c2e21c000001 HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 99999999\\r\\n\\r\\n')\n"
        "print('held',flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        ["ip", "netns", "exec", node.host.name, "/usr/bin/python3", "-c", program], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == "held\n"
    assert node.get("/status")[0] == 200
    holder.kill()
    holder.wait()


@only_ours
def test_term_amid_malformed_requests_is_an_end_in_order(node: Node) -> None:
    """libmicrohttpd that is stopped while it refuses one uses an answer that is not there."""
    node.generate()
    program = (
        "import socket\n"
        "while True:\n"
        "    ss = []\n"
        "    try:\n"
        f"        for _ in range(24): ss.append(socket.create_connection(('127.0.0.1', {PORT}), 1))\n"
        "        for s in ss: s.sendall(b'GET / HTTP/9.9\\r\\n\\r\\n')\n"
        "    except OSError: pass\n"
        "    for s in ss: s.close()\n"
    )
    flood = [subprocess.Popen(["ip", "netns", "exec", node.host.name, "/usr/bin/python3", "-c", program]) for _ in range(2)]
    try:
        for _ in range(8):
            node.start(answer=False)
            wait(lambda: (node.home / "zerotier-one.pid").exists(), timeout=20, what="a start")
            time.sleep(0.1)  # the flood is on
            assert node.stop() == 0
            (node.home / "zerotier-one.pid").unlink()
    finally:
        for process in flood:
            process.kill()
            process.wait()


# -- the link


def test_a_link_without_a_controller_over_ipv4(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, b = pair()
    code, peers = a.get("/peer")
    (peer,) = (p for p in peers if p["address"] == (b.home / "identity.public").read_text()[:10])
    assert peer["role"] == "MOON" and any(p["address"] == "198.51.100.2/9993" for p in peer["paths"])
    assert {"lastReceive", "lastSend", "active", "expired", "preferred"} <= set(peer["paths"][0])
    (network,) = a.get("/network")[1]
    assert (network["status"], network["portDeviceName"], network["mtu"]) == ("OK", "zt0p1", 1394)
    assert network["mac"] == mac((a.home / "identity.public").read_text())
    assert network["mac"] in a.host.run("ip", "link", "show", "zt0p1")


def test_a_link_over_ipv6(pair: Callable[..., tuple[Node, Node]], hosts: tuple[Host, Host]) -> None:
    for host in hosts:
        host.run("ip", "-4", "addr", "flush", "dev", "eth0")
    pair(underlay=(["2001:db8::1"], ["2001:db8::2"]))


def test_tcp_flows_and_no_checksum_is_wrong(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, b = pair()
    server = subprocess.Popen(["ip", "netns", "exec", b.host.name, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    wait(lambda: ":5201" in b.host.run("ss", "-Hlnt"), timeout=5, what="iperf3 server")
    report = json.loads(a.host.run("iperf3", "-J", "-c", "10.14.0.2", "-n", "200M", "-P", "4"))
    server.wait(timeout=10)
    assert report["end"]["sum_received"]["bytes"] >= 180_000_000  # what the client has heard of at its end
    for host in (a.host, b.host):
        header, values = (line.split() for line in host.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:"))
        assert dict(zip(header, values, strict=True))["InCsumErrors"] == "0"


@pytest.mark.parametrize("size", [56, 1352, 1366, 4000, 20000])
def test_packets_of_all_sizes(pair: Callable[..., tuple[Node, Node]], size: int) -> None:
    a, _b = pair()
    assert " 0% packet loss" in a.host.run("ping", "-c", "5", "-i", "0.05", "-s", str(size), "10.14.0.2")


def test_a_restarted_end_is_back_soon(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, b = pair()
    assert b.stop() in (0, -signal.SIGABRT, 134)
    assert "zt0p1" not in b.host.run("ip", "link")
    b.start()
    wait(lambda: b.host.run("ip", "link", "show", "zt0p1", check=False), timeout=10, what="TAP")
    lladdr = mac((a.home / "identity.public").read_text())

    def again() -> bool:
        if has_address(b, 2):
            b.host.run("ip", "neigh", "replace", "10.14.0.1", "lladdr", lladdr, "dev", "zt0p1", check=False)
        return reaches(a)

    wait(again, timeout=15, what="echo after the restart")


def test_garbage_on_the_wire_is_harmless(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, b = pair()
    program = (
        "import os,random,socket\nr=random.Random(5)\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        "for n in range(5000):\n    s.sendto(r.randbytes(r.choice([0,1,8,27,28,60,300,1432])),('198.51.100.1',9993))\n"
    )
    b.host.run("/usr/bin/python3", "-c", program)
    assert reaches(a) and a.get("/status")[0] == 200


@only_ours
def test_it_works_with_the_two_capabilities_alone(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    a = Node(engine, hosts[0], tmp_path / "a")
    wrapper = tmp_path / "confined"
    wrapper.write_text(
        f'#!/bin/sh\nexec setpriv --bounding-set -all,+net_admin,+net_raw --inh-caps -all --no-new-privs {engine} "$@"\n'
    )
    wrapper.chmod(0o755)
    b = Node(str(wrapper), hosts[1], tmp_path / "b")
    link(a, b, (["198.51.100.1"], ["198.51.100.2"]))
    bring_up(a, b)
    wait(lambda: reaches(a), timeout=20, what="echo over the link")


def test_it_stays_small(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, _b = pair()
    (pid,) = [p for p in a.pids() if Path(f"/proc/{p}/comm").read_text().strip() != "ip"]
    assert 0 < resident(Path(f"/proc/{pid}/status").read_text()) < 40_000


@only_ours
def test_a_network_is_left_and_joined_again_under_traffic(pair: Callable[..., tuple[Node, Node]]) -> None:
    """DELETE of a network with a configuration and a TAP, by several at once, while frames come from both sides."""
    a, b = pair()
    auth = {"X-ZT1-Auth": a.token()}
    configuration = a.home / "networks.d" / f"{NETWORK}.conf"
    content = configuration.read_bytes()
    flood = [
        subprocess.Popen(
            ["ip", "netns", "exec", n.host.name, "ping", "-q", "-f", "-s", "1200", to],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for n, to in ((a, "10.14.0.2"), (b, "10.14.0.1"))
    ]
    try:
        for _ in range(3):
            done: list[int] = []
            askers = [
                threading.Thread(target=lambda to=done: to.append(a.request("DELETE", f"/network/{NETWORK}", auth)[0]))
                for _ in range(3)
            ]
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            assert sorted(done) == [200, 404, 404]
            assert a.get("/network") == (200, []) and not configuration.exists()
            assert "does not exist" in a.host.run("sh", "-c", "ip link show zt0p1 2>&1", check=False)
            configuration.write_bytes(content)  # without a controller nobody else gives it one
            for _ in range(2):
                assert a.request("POST", f"/network/{NETWORK}", auth)[0] == 200
            assert len(a.get("/network")[1]) == 1
            wait(lambda: has_address(a, 1), timeout=5, what="the TAP with its name")
            lladdr = mac((b.home / "identity.public").read_text())
            a.host.run("ip", "neigh", "replace", "10.14.0.2", "lladdr", lladdr, "dev", "zt0p1")
            wait(lambda: reaches(a), timeout=10, what="echo over the link")
    finally:
        for ping in flood:
            ping.terminate()
            ping.wait()
    assert a.stop() == 0


def policies(node: Node) -> list[int]:
    """Scheduling policies of the threads of a node."""
    return sorted(os.sched_getscheduler(int(task)) for task in os.listdir(f"/proc/{node.pids()[-1]}/task"))


@only_ours
def test_the_threads_of_traffic_are_not_woken_for_each_packet(pair: Callable[..., tuple[Node, Node]]) -> None:
    a, _b = pair()
    found = policies(a)
    assert found.count(os.SCHED_BATCH) == 2, found  # of the TAP and of the underlay
    assert found.count(os.SCHED_OTHER) == len(found) - 2


@only_ours
def test_a_scheduling_policy_that_it_was_started_with_stays(pair: Callable[..., tuple[Node, Node]], tmp_path: Path) -> None:
    a, _b = pair()
    chosen = tmp_path / "chosen"
    chosen.write_text(f'#!/bin/sh\nexec chrt --rr 1 {a.engine} "$@"\n')
    chosen.chmod(0o755)
    real = a.engine
    a.stop()
    a.engine = str(chosen)
    a.start()
    a.engine = real  # what pgrep sees
    wait(lambda: "zt0p1" in a.host.run("ip", "link", "show", "zt0p1", check=False), timeout=10, what="TAP")
    assert set(policies(a)) == {os.SCHED_RR}


# -- addresses that change


def renumber(host: Host, old: str, new: str, without: float = 0) -> None:
    """Another address on the underlay, after ``without`` seconds with none."""
    host.run("ip", "addr", "del", f"{old}/24", "dev", "eth0")
    time.sleep(without)  # this is what is tested: a router that has no address for a while
    host.run("ip", "addr", "add", f"{new}/24", "dev", "eth0")


def longest_silence(a: Node, b: Node, change: Callable[[], None], limit: float) -> float:
    """Seconds without an answer to echo requests every 100 ms, the worse of both directions, over a change."""
    command = ["ping", "-D", "-i", "0.1", "-W", "1"]
    pings = [
        subprocess.Popen(["ip", "netns", "exec", n.host.name, *command, t], stdout=subprocess.PIPE, text=True)
        for n, t in ((a, "10.14.0.2"), (b, "10.14.0.1"))
    ]
    seen: list[list[float]] = [[], []]

    def read(into: list[float], lines: Iterable[str]) -> None:
        into += [float(line[1:].partition("]")[0]) for line in lines if "bytes from" in line]

    readers = [threading.Thread(target=read, args=(s, p.stdout)) for s, p in zip(seen, pings, strict=True)]
    for reader in readers:
        reader.start()
    try:
        for ping in pings:
            assert ping.poll() is None
        wait(lambda: reaches(a), timeout=5, what="echo before the change")
        change()
        changed = time.time()
        deadline = changed + limit
        while time.time() < deadline and not (reaches(a) and reaches(b, "10.14.0.1")):
            pass
        time.sleep(2)  # it stays so: no second hole
    finally:
        for ping, reader in zip(pings, readers, strict=True):
            ping.terminate()
            reader.join()
            ping.wait()
    assert all(s and s[-1] > changed for s in seen), f"not back within {limit} s"
    return max(y - x for s in seen for x, y in itertools.pairwise(s))


def test_a_peer_is_heard_from_wherever_it_is(pair: Callable[..., tuple[Node, Node]]) -> None:
    """Endpoints say where to look first, they are no limit: one that starts anew at another address is heard."""
    a, b = pair()
    assert a.stop() in (0, -signal.SIGABRT, 134)
    renumber(a.host, "198.51.100.1", "198.51.100.11")
    a.start()
    lladdr = mac((b.home / "identity.public").read_text())

    def again() -> bool:
        if has_address(a, 1):
            a.host.run("ip", "neigh", "replace", "10.14.0.2", "lladdr", lladdr, "dev", "zt0p1", check=False)
        return reaches(a)

    wait(again, timeout=20, what="echo from the other address")


@only_ours
@pytest.mark.parametrize(
    ("known", "moved"),
    [
        ((["198.51.100.1"], ["198.51.100.2"]), "one"),
        ((["198.51.100.1"], []), "the one that nobody looks for"),
        # one has a second address that the other knows, among many that lead nowhere
        ((["198.51.100.1", "198.51.100.11", *(f"198.51.100.{n}" for n in range(200, 210))], ["198.51.100.2"]), "both"),
        ((["198.51.100.1"], ["198.51.100.2"]), "one, after 5 s without any"),
    ],
    ids=["one", "unknown", "both", "without"],
)
def test_another_address_costs_seconds(
    pair: Callable[..., tuple[Node, Node]], known: tuple[list[str], list[str]], moved: str
) -> None:
    a, b = pair(known)
    without = 5 if "without" in moved else 0

    def change() -> None:
        if moved != "the one that nobody looks for":
            renumber(a.host, "198.51.100.1", "198.51.100.11", without)
        if moved in ("both", "the one that nobody looks for"):
            renumber(b.host, "198.51.100.2", "198.51.100.12")

    assert longest_silence(a, b, change, limit=15) < without + 5


@only_ours
@pytest.mark.parametrize("how", ["removed", "filtered"])
def test_traffic_moves_to_ipv4_where_ipv6_dies(pair: Callable[..., tuple[Node, Node]], how: str) -> None:
    """The core alone keeps to a dead path for 20 s."""
    a, b = pair((["198.51.100.1", "2001:db8::1"], ["198.51.100.2", "2001:db8::2"]))

    def change() -> None:
        for node in (a, b):
            if how == "removed":
                node.host.run("ip", "-6", "addr", "flush", "dev", "eth0")
            else:
                node.host.run(
                    "nft",
                    "add table ip6 t; add chain ip6 t c { type filter hook input priority 0; }; add rule ip6 t c udp dport 9993 drop",
                )

    assert longest_silence(a, b, change, limit=15) < 5


@only_ours
def test_endpoints_are_read_again(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    a, b = Node(engine, hosts[0], tmp_path / "a"), Node(engine, hosts[1], tmp_path / "b")
    link(a, b, (["203.0.113.1"], ["203.0.113.2"]))
    bring_up(a, b)
    assert not reaches(a)
    tries(a, (b.home / "identity.public").read_text(), ["203.0.113.2", "198.51.100.2"])
    wait(lambda: reaches(a), timeout=8, what="echo by way of an endpoint that was added")
