"""Options that a bundle shares with other interfaces, on a real router: mirror, redirect, source validation, forwarding."""

from __future__ import annotations

import base64
import ipaddress
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from zerotier_multi import names, world
from zerotier_multi.identity import PublicIdentity

from lab import Lab, Router
from lab.lan import Lan
from lab.scenario import loopback6, paths_up, processes, reach

ZT = "interfaces zerotier zt0"
IDENTIFIER = 4711
REQUEST, REPLY = 8, 0  # types of ICMP
PATHS = 4

# Pings an address, and prints the types of the ICMP messages with the identifier that came out of mon1 meanwhile. What is
# sent last comes last, and is no copy.
WATCH = f"""
import socket, subprocess, sys
watched, last = (socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3)) for _ in range(2))
watched.bind(("mon1", 3))
ping = ["ping", "-q", "-c3", "-i0.2", "-W2", "-e", "{IDENTIFIER}", sys.argv[1]]
subprocess.run(ping, check=True, stdout=subprocess.DEVNULL)
last.sendto(b"last", ("mon0", 0x88B5, 0, 0, b"\\xff" * 6))
while not (packet := watched.recv(2048)).startswith(b"last"):
    if packet[0] == 0x45 and packet[9] == 1 and int.from_bytes(packet[24:26], "big") == {IDENTIFIER}:
        print(packet[20])
"""


@pytest.fixture(scope="module")
def routers(lab: Lab, connected: Callable[..., None]) -> list[Router]:
    """Two of them with two instances and both families, and in the first a cable from mon0 to mon1, where somebody listens."""
    made = lab.add_routers(["R1", "R2"])
    connected(made, 2, transit=("10.14.0.0/28", "2001:db8:14::/124"), families=(4, 6))
    made[0].run(["ip", "link", "add", "mon0", "type", "veth", "peer", "name", "mon1"])
    for device in ("mon0", "mon1"):
        made[0].run(["ip", "link", "set", device, "up"])
    return made


@pytest.fixture
def r1(routers: list[Router]) -> Iterator[Router]:
    yield routers[0]
    routers[0].configure("".join(f"delete {ZT} {option}\n" for option in ("mirror", "redirect", "ip", "ipv6")))


@pytest.fixture
def seen(r1: Router) -> Callable[[], set[int]]:
    """The types of ICMP that arrive at mon1 while the other router answers."""
    return lambda: {int(line) for line in r1.run(["/usr/bin/python3", "-c", WATCH, "10.0.55.2"]).stdout.split()}


def table(router: Router) -> str:
    return router.run(["nft", "list", "table", "netdev", "zerotier_multi"], check=False).stdout


def said(router: Router, lines: str) -> str:
    """What a commit prints, in one line."""
    return " ".join(router.must_configure(lines).output.split())


def test_copies_of_what_comes_and_goes(r1: Router, seen: Callable[[], set[int]]) -> None:
    assert seen() == set()
    r1.must_configure(f"set {ZT} mirror ingress mon0")
    assert seen() == {REPLY}
    r1.must_configure(f"set {ZT} mirror egress mon0")
    assert seen() == {REQUEST, REPLY}
    text = r1.run(["/usr/libexec/vyos/op_mode/zerotier.py", "show_bundle", "--bundle", "zt0"]).stdout
    assert "Mirror ingress" in text and "Mirror egress" in text
    r1.must_configure(f"delete {ZT} mirror")
    assert seen() == set() and table(r1) == ""


def test_another_process_brings_another_device(r1: Router, seen: Callable[[], set[int]]) -> None:
    r1.must_configure(f"set {ZT} mirror ingress mon0\nset {ZT} mirror egress mon0")
    before = processes(r1)
    for instance in before:
        r1.run(["systemctl", "kill", "--kill-whom=main", "--signal=KILL", f"zerotier-multi@zt0-{instance}"])
    r1.wait(
        lambda: not set(processes(r1).values()) & set(before.values()) and paths_up(r1) == PATHS, what="all paths of new processes"
    )
    r1.wait(lambda: seen() == {REQUEST, REPLY}, what="copies from new devices")
    r1.run(["nft", "delete", "table", "netdev", "zerotier_multi"])
    r1.wait(lambda: "zt0-mirror-egress" in table(r1), what="the table that somebody deleted")


def test_a_device_that_comes_later(r1: Router, seen: Callable[[], set[int]]) -> None:
    assert "the interface does not exist yet" in said(r1, f"set {ZT} mirror egress mon9") and table(r1) == ""
    r1.run(["ip", "link", "set", "mon0", "name", "mon9"])
    try:
        r1.wait(lambda: "zt0-mirror-egress" in table(r1), what="a chain for the device")
    finally:
        r1.run(["ip", "link", "set", "mon9", "name", "mon0"])
    r1.wait(lambda: table(r1) == "", what="no chain without the device")


def test_an_input_device_gives_packets_back(r1: Router, seen: Callable[[], set[int]]) -> None:
    """What a shaper of incoming packets is made of."""
    r1.run(["ip", "link", "add", "ifb0", "type", "ifb"])
    r1.run(["ip", "link", "set", "ifb0", "up"])
    assert "takes the health checks" not in said(r1, f"set {ZT} redirect ifb0")
    r1.wait(lambda: "fwd to" in table(r1), what="the chain of the redirect")
    before = r1.json(["ip", "-s", "-j", "link", "show", "ifb0"])[0]["stats64"]["tx"]["packets"]
    assert seen() == set() and paths_up(r1) == PATHS
    assert r1.json(["ip", "-s", "-j", "link", "show", "ifb0"])[0]["stats64"]["tx"]["packets"] >= before + 3


def test_another_device_keeps_what_it_gets(r1: Router, seen: Callable[[], set[int]]) -> None:
    assert "all paths will be down" in said(r1, f"set {ZT} redirect mon0")
    r1.wait(lambda: paths_up(r1) == 0, what="paths down")
    r1.must_configure(f"delete {ZT} redirect")
    r1.wait(lambda: paths_up(r1) == PATHS, what="paths up again")


# Prints the senders of datagrams until one comes from the other router's own address.
RECEIVE = """
import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("10.0.55.1", 4711))
print("ready", flush=True)
while (sender := receiver.recvfrom(100)[1][0]) != "10.0.55.2":
    print(sender, flush=True)
"""
SEND = """
import socket
for source in ("192.0.2.200", "10.0.55.2"):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((source, 4712))
    sender.sendto(b"x", ("10.0.55.1", 4711))
"""


def senders(routers: list[Router]) -> list[str]:
    """Whose datagrams the first router takes: the second one sends with an address of elsewhere, then with its own."""
    receiver = routers[0].popen(["/usr/bin/python3", "-c", RECEIVE])
    assert receiver.stdout and receiver.stdout.readline() == "ready\n"
    routers[1].run(["/usr/bin/python3", "-c", SEND])
    return receiver.communicate(timeout=20)[0].split()


def test_sources_are_validated_by_the_route_back(routers: list[Router], r1: Router) -> None:
    routers[1].run(["ip", "address", "add", "192.0.2.200/32", "dev", "lo"])
    elsewhere = ["192.0.2.200"]
    assert senders(routers) == elsewhere
    r1.must_configure(f"set {ZT} ip source-validation loose")
    assert senders(routers) == []
    r1.run(["ip", "route", "add", "192.0.2.200/32", "dev", "eth0"])
    assert senders(routers) == elsewhere
    r1.must_configure(f"set {ZT} ip source-validation strict\nset {ZT} ipv6 source-validation strict")
    assert senders(routers) == []
    for source, target in (("10.0.55.1", "10.0.55.2"), (loopback6(r1), loopback6(routers[1]))):
        r1.run(["ping", "-q", "-c10", "-i0.2", "-W1", "-I", source, target])  # longer than it takes to judge a path down
    assert paths_up(r1) == PATHS
    r1.must_configure(f"delete {ZT} ip\ndelete {ZT} ipv6")
    assert senders(routers) == elsewhere


def test_what_arrives_is_not_forwarded_where_that_is_disabled(routers: list[Router], r1: Router) -> None:
    with closing(Lan(r1)) as lan:
        routers[1].must_configure(f"set {ZT} remote R1 prefix {lan.prefix}")
        reach(routers[1], "10.0.55.2", lan.address)
        r1.must_configure(f"set {ZT} ip disable-forwarding")
        asked = ["ping", "-c2", "-i0.2", "-W1", "-I", "10.0.55.2"]
        assert routers[1].run([*asked, lan.address], check=False).returncode == 1
        assert routers[1].run([*asked, "10.0.55.1"]).returncode == 0
        r1.must_configure(f"delete {ZT} ip")
        reach(routers[1], "10.0.55.2", lan.address)


def test_a_moon_adds_a_root(routers: list[Router], r1: Router) -> None:
    """No root of the planet can be reached here; the one of the moon is found, and its router knows nothing of that."""
    for router in routers:
        router.must_configure("set interfaces zerotier zt1 network-id 8056c2e21c000009")
    home = names.home("zt1", 1)
    known = ["cat", f"{home}/identity.public"]
    root = PublicIdentity.parse(routers[1].wait(lambda: routers[1].run(known, check=False).stdout, what="the identity of the root"))
    endpoint = b"\x04" + ipaddress.ip_address(routers[1].underlay4).packed + struct.pack(">H", names.default_primary_port("zt1"))
    head = struct.pack(">BQQ", world.MOON, int(root.address, 16), 1000) + bytes(64 + 96)
    moon = base64.b64encode(head + b"\1" + root.wire + b"\1" + endpoint + bytes(2)).decode()

    def peers() -> dict[str, tuple[str, int]]:
        address = f"http://127.0.0.1:{names.default_primary_port('zt1')}/peer"
        asked = f'printf "X-ZT1-Auth: %s" "$(cat {home}/authtoken.secret)" | curl -s -H @- {address}'
        found = r1.wait(lambda: r1.json(["sh", "-c", asked], check=False), what="an answer of the instance")
        return {peer["address"]: (peer["role"], len([path for path in peer["paths"] if path["active"]])) for peer in found}

    assert root.address not in peers()
    r1.must_configure(f"set interfaces zerotier zt1 moon {moon}")
    r1.wait(lambda: peers().get(root.address) == ("MOON", 1), what="a path to the root of the moon")
    text = r1.run(["/usr/libexec/vyos/op_mode/zerotier.py", "show_bundle", "--bundle", "zt1"]).stdout
    assert f"{int(root.address, 16):016x}" in text
    others = r1.run(["find", str(names.HOME_ROOT), "!", "-type", "f", "!", "-type", "d"]).stdout
    assert others == "", "what moves or copies /config cannot do so with a socket"
    r1.must_configure("delete interfaces zerotier zt1 moon")
    assert r1.run(["ls", f"{home}/moons.d"]).stdout == ""
    # Its instance knows ours and says HELLO, so half a second later it is a peer again, as any node is.
    r1.wait(lambda: peers().get(root.address, ("", 0))[0] != "MOON", what="no such root any more")
