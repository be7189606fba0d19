"""An instance that listens on an address of lo or of a dummy: the router's routes say by what device its packets leave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import run, wait
from tests.engine.test_contract import PORT, Host, Node, bring_up, engine, link, reaches, sockets  # noqa: F401 (a fixture)

pytestmark = pytest.mark.only_ztnode

# Of the two routers, by the version of IP: the addresses that are theirs as a whole, and those of the lines between them.
OWN = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
LINES = {
    "one": {4: ("198.51.100.1", "198.51.100.2"), 6: ("2001:db8:1::1", "2001:db8:1::2")},
    "two": {4: ("203.0.113.1", "203.0.113.2"), 6: ("2001:db8:2::1", "2001:db8:2::2")},
}

AT_ONCE = 1.7  # seconds; without an event it looks around every two


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two with two lines between them, and an address of each version on lo."""
    made = Host(f"zta-{os.getpid()}"), Host(f"ztb-{os.getpid()}")
    try:
        for line in LINES:
            run(["ip", "-n", made[0].name, "link", "add", line, "type", "veth", "peer", "name", line, "netns", made[1].name])
        for which, host in enumerate(made):
            for version in OWN:
                host.run("ip", "address", "add", OWN[version][which], "dev", "lo")
                for line, addresses in LINES.items():
                    length = 24 if version == 4 else 64
                    host.run(
                        "ip", "address", "add", f"{addresses[version][which]}/{length}", "dev", line, *["nodad"] * (version == 6)
                    )
            for line in LINES:
                host.run("ip", "link", "set", line, "up")
        yield made
    finally:
        for host in made:
            host.close()


def lead(hosts: tuple[Host, Host], version: int, line: str) -> None:
    """Routes of both to the address of the other."""
    for which, host in enumerate(hosts):
        far, via = OWN[version][1 - which], LINES[line][version][1 - which]
        host.run("ip", "route", "replace", far, "via", via, "dev", line)


def made(engine: str, host: Host, home: Path, *binds: str) -> Node:
    node = Node(engine, host, home)
    node.settings |= {"interfacePrefixBlacklist": ["zt", "wg", "dum"], "bind": list(binds)}
    return node


def joined(engine: str, hosts: tuple[Host, Host], tmp_path: Path, version: int) -> tuple[Node, Node]:
    """Both listen on their addresses of lo alone."""
    first, second = OWN[version]
    a, b = made(engine, hosts[0], tmp_path / "a", first), made(engine, hosts[1], tmp_path / "b", second)
    link(a, b, ([first], [second]))
    bring_up(a, b)
    return a, b


def paths(node: Node) -> set[str]:
    """Where a node has found its only peer."""
    (peer,) = node.get("/peer")[1]  # type: ignore[misc]
    return {path["address"] for path in peer["paths"]}  # type: ignore[index]


def packets(host: Host, device: str) -> int:
    """How many have left by a device."""
    return int(host.run("cat", f"/sys/class/net/{device}/statistics/tx_packets"))


@pytest.mark.parametrize("version", [4, 6])
def test_traffic_goes_on_by_the_line_to_which_the_routes_turn(
    engine: str,
    hosts: tuple[Host, Host],
    tmp_path: Path,
    version: int,
) -> None:
    lead(hosts, version, "one")
    a, b = joined(engine, hosts, tmp_path, version)
    wait(lambda: reaches(a), timeout=20, what="echo over the link")
    for node, own in zip((a, b), OWN[version], strict=True):
        assert sockets(node) == {own if version == 4 else f"[{own}]"}
        assert node.get("/status")[1]["config"]["settings"]["listeningOn"] == [f"{own}/{PORT}"]  # type: ignore[index]
    a.host.run("ping", "-q", "-c5", "-i0.1", "-s", "8000", "10.14.0.2")  # in segments and fragments
    before = packets(a.host, "two")
    for host in hosts:
        host.run("ip", "link", "set", "one", "down")
    assert not reaches(a)
    lead(hosts, version, "two")
    began = time.monotonic()
    wait(lambda: reaches(a), timeout=10, what="echo by the other line")
    assert time.monotonic() - began < 5
    assert packets(a.host, "two") > before
    far = f"{OWN[version][1]}/{PORT}"
    assert paths(a) == {far}, "the same path as before"


def test_it_is_used_where_it_is_listed_from_when_it_is_there(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """An interface that has it too comes first, because its socket sees nothing of other devices; dum0 is known by its name."""
    host, address = hosts[0], "192.0.2.77"
    for device in ("dum0", "eth7"):
        host.run("ip", "link", "add", device, "type", "bridge")
        host.run("ip", "link", "set", device, "up")
    node = made(engine, host, tmp_path / "home", address, "169.254.7.7")
    node.start()
    time.sleep(3)  # until no event is left of what the devices have got by themselves
    for command, found in (
        (f"add {address}/32 dev dum0", {address}),
        (f"add {address}/24 dev eth7", {f"{address}%eth7"}),
        (f"del {address}/32 dev dum0", {f"{address}%eth7"}),
        (f"add {address}/32 dev lo", {f"{address}%eth7"}),
        (f"del {address}/24 dev eth7", {address}),
        ("add 169.254.7.7/32 dev lo", {address}),
        (f"del {address}/32 dev lo", set()),
    ):
        began = time.monotonic()
        host.run("ip", "address", *command.split())
        wait(lambda found=found: sockets(node) == found, timeout=10, what=f"{found} after {command}")  # type: ignore[misc]
        assert time.monotonic() - began < AT_ONCE, command
    assert node.process and node.process.poll() is None


@pytest.mark.parametrize(
    ("conf", "kept_off"),
    [
        ({}, ()),
        ({"bind": ["203.0.113.1"]}, ()),
        ({"bind": ["192.0.2.1"], "interfaces": ["one"]}, ()),
        ({"bind": ["192.0.2.1"]}, ("192.0.2.0/24",)),
    ],
    ids=["no word of it", "another address", "an uplink", "a prefix that is no underlay"],
)
def test_it_is_not_used_otherwise(
    engine: str,
    hosts: tuple[Host, Host],
    tmp_path: Path,
    conf: dict[str, list[str]],
    kept_off: tuple[str, ...],
) -> None:
    node = Node(engine, hosts[0], tmp_path / "home")
    node.settings |= conf
    node.write_conf(physical={prefix: {"blacklist": True} for prefix in kept_off})
    node.start()
    if "192.0.2.1" not in conf.get("bind", ()):
        wait(lambda: "203.0.113.1%two" in sockets(node), timeout=10, what="a socket of a line")
    time.sleep(2.5)
    assert not any("192.0.2.1" in own for own in sockets(node))


def test_routes_over_the_link_itself_take_no_packet_of_it(engine: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Such as a prefix of the remote that has its endpoint in it: each packet would come back to the instance, longer by a header."""
    lead(hosts, 4, "one")
    a, b = joined(engine, hosts, tmp_path, 4)
    wait(lambda: reaches(a), timeout=20, what="echo over the link")
    a.host.run("ip", "route", "replace", OWN[4][1], "via", "10.14.0.2", "dev", "zt0p1")
    time.sleep(0.5)  # the moment in which it does not know yet
    before, began = packets(a.host, "zt0p1"), time.monotonic()
    a.host.run("ping", "-q", "-c10", "-i0.1", "-W1", "10.14.0.2", check=False)
    assert packets(a.host, "zt0p1") - before < 30 * (time.monotonic() - began)
    lead(hosts, 4, "one")
    wait(lambda: reaches(a), timeout=10, what="echo over the link again")
