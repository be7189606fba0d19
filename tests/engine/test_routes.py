"""By which of its devices an instance looks for a remote: where the router's routes lead, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.process import run, wait
from tests.engine.test_contract import Host, Node, bring_up, engine, link, reaches  # noqa: F401 (a fixture)
from tests.engine.test_standing_path import close

pytestmark = pytest.mark.only_ztnode

REMOTE, LAN = "198.51.100.1", "192.168.1.1"
# Opens the other end of a line, and prints where the first UDP packet in it goes.
READS = """
import fcntl, os, socket, struct
line = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(line, 0x400454CA, struct.pack("16sH", b"line", 0x1001))
while (packet := os.read(line, 2000))[0] >> 4 != 4 or packet[9] != socket.IPPROTO_UDP:
    pass
print(socket.inet_ntoa(packet[16:20]), flush=True)
"""
SEARCHED = 20  # packets by the uplink, as many as come of a search


def cable(near: Host, device: str, address: str, far: Host, other: str, there: str) -> None:
    """A link of two hosts, each with its address."""
    run(["ip", "-n", near.name, "link", "add", device, "type", "veth", "peer", "name", other, "netns", far.name])
    for host, name, own in ((near, device, address), (far, other, there)):
        host.run("ip", "addr", "add", f"{own}/24", "dev", name)
        host.run("ip", "link", "set", name, "up")


@pytest.fixture
def ends(engine: str, tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Ours, with an uplink that has no gateway yet and a LAN, and a remote that is reached by the uplink."""
    ours, internet, remote, lan = made = tuple(Host(f"zt{letter}-{os.getpid()}") for letter in "aibl")
    try:
        cable(ours, "wan", "192.0.2.2", internet, "wan", "192.0.2.1")
        cable(ours, "lan", LAN, lan, "lan", "192.168.1.2")
        cable(remote, "eth0", REMOTE, internet, "far", "198.51.100.254")
        remote.run("ip", "route", "add", "default", "via", "198.51.100.254")
        internet.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        a, b = Node(engine, ours, tmp_path / "a"), Node(engine, remote, tmp_path / "b")
        link(a, b, ([], [REMOTE]))
        close(a, b)
        close(b, a)
        yield a, b
    finally:
        for host in made:
            host.close()


def asked_on_the_lan(node: Node) -> str:
    """The neighbours that the router has looked for there."""
    return node.host.run("ip", "-4", "neigh", "show", "dev", "lan")


def sent(node: Node) -> int:
    """Packets that have left by the uplink."""
    return int(node.host.run("cat", "/sys/class/net/wan/statistics/tx_packets"))


def test_hosts_of_a_lan_are_not_asked_for_a_remote(ends: tuple[Node, Node]) -> None:
    """One that answers for it, as with proxy ARP, would get on the path: before there is any other, while there is, and afterwards."""
    ours, remote = ends
    ours.start()
    wait(lambda: "9993" in ours.host.run("ss", "-Hnlu", "src", LAN), timeout=10, what="its socket on the LAN")
    ours.host.run("ip", "route", "add", "default", "via", "192.0.2.1")
    wait(lambda: sent(ours) > SEARCHED, timeout=30, what="a search by the uplink")
    assert asked_on_the_lan(ours) == ""
    ours.stop()
    bring_up(ours, remote)
    wait(lambda: reaches(ours), timeout=20, what="echo over the link")
    assert asked_on_the_lan(ours) == ""
    with ours.host.popen("ping", "-i0.1", "10.14.0.2") as ping:
        ours.host.run("ip", "addr", "del", "192.0.2.2/24", "dev", "wan")
        wait(lambda: "192.0.2.2" not in ours.host.run("ss", "-Hnlu"), timeout=10, what="the end of its socket on the uplink")
        ours.host.run("ping", "-q", f"-c{SEARCHED}", "-i0.1", "-W1", "10.14.0.2", check=False)
        ping.terminate()
    assert asked_on_the_lan(ours) == ""


def test_a_line_from_point_to_point_needs_no_route(ends: tuple[Node, Node]) -> None:
    """As PPPoE without a default route: there is nobody to be asked."""
    ours, _ = ends
    for command in ("tuntap add dev line mode tun", "addr add 203.0.113.2 peer 203.0.113.1 dev line", "link set line up"):
        ours.host.run("ip", *command.split())
    ours.start()
    with ours.host.popen("timeout", "20", "/usr/bin/python3", "-c", READS) as reader:
        assert reader.stdout and REMOTE in reader.stdout.readline()
        reader.terminate()
