"""By which of its devices an instance sends: where the router's routes lead, and nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.impair import PLAIN
from lab.process import run, wait
from tests.engine.test_contract import ROOT, Host, Node, bring_up, engine, link, reaches  # noqa: F401 (a fixture)
from tests.engine.test_standing_path import close

pytestmark = pytest.mark.only_ztnode

REMOTE, LAN = "198.51.100.1", "192.168.1.1"
# Of each uplink: our address, the gateway, the metric of the default route.
UPLINKS = {"wan1": ("192.0.2.2", "192.0.2.1", 100), "wan2": ("203.0.113.2", "203.0.113.1", 200)}
ECHOES = 20
DELAY_MS = 40


def cable(near: Host, device: str, address: str, far: Host, other: str, there: str) -> None:
    """A link of two hosts, each with its address."""
    run(["ip", "-n", near.name, "link", "add", device, "type", "veth", "peer", "name", other, "netns", far.name])
    for host, name, own in ((near, device, address), (far, other, there)):
        host.run("ip", "addr", "add", f"{own}/24", "dev", name)
        host.run("ip", "link", "set", name, "up")


def delayed(near: Host, device: str, far: Host) -> subprocess.Popen[bytes]:
    """Put a delay into a link; who asked for it ends the process."""
    port, inner, outer = f"{device}p", f"{device}i", device
    far.run("ip", "link", "set", outer, "down")
    address = json.loads(far.run("ip", "-j", "addr", "show", outer))[0]["addr_info"][0]["local"]
    far.run("ip", "link", "set", outer, "name", port)
    far.run("ip", "addr", "flush", "dev", port)
    far.run("ip", "link", "add", inner, "type", "veth", "peer", "name", outer)
    far.run("ip", "addr", "add", f"{address}/24", "dev", outer)
    for name in (port, inner, outer):
        far.run("ethtool", "-K", name, *PLAIN)
        far.run("ip", "link", "set", name, "up", "promisc", "on")
    near.run("ethtool", "-K", device, *PLAIN)
    command = [sys.executable, "-m", "lab.impair", port, inner, json.dumps({"delay_ms": DELAY_MS})]
    relay = subprocess.Popen(["ip", "netns", "exec", far.name, *command], cwd=ROOT, stdout=subprocess.PIPE)
    assert relay.stdout and relay.stdout.readline() == b"ready\n"
    return relay


@dataclass(frozen=True)
class Site:
    """Ours, with two uplinks to the Internet and a LAN, and a remote that is reached by either; the second is slow."""

    ours: Node
    remote: Node

    def connect(self, uplink: str) -> None:
        """Have an uplink, as when its DHCP client has got an address."""
        _, gateway, metric = UPLINKS[uplink]
        self.ours.host.run("ip", "link", "set", uplink, "up")
        self.ours.host.run("ip", "route", "replace", "default", "via", gateway, "dev", uplink, "metric", str(metric))

    def sent(self, device: str) -> int:
        """Packets that have left by a device."""
        return int(self.ours.host.run("cat", f"/sys/class/net/{device}/statistics/tx_packets"))

    def carried(self) -> str:
        """The uplink by which echo requests go; empty where they get no answers or take both."""
        before = {uplink: self.sent(uplink) for uplink in UPLINKS}
        ping = ["ping", "-q", f"-c{ECHOES}", "-i0.01", "-W1", "10.14.0.2"]
        if f" {ECHOES} received" not in self.ours.host.run(*ping, check=False):
            return ""
        most = [uplink for uplink in UPLINKS if self.sent(uplink) - before[uplink] >= ECHOES]
        return most[0] if len(most) == 1 else ""


@pytest.fixture
def site(engine: str, tmp_path: Path) -> Iterator[Site]:
    ours, internet, remote, lan = made = tuple(Host(f"zt{letter}-{os.getpid()}") for letter in "aibl")
    relay: subprocess.Popen[bytes] | None = None
    try:
        for uplink, (address, gateway, _) in UPLINKS.items():
            cable(ours, uplink, address, internet, uplink, gateway)
        cable(ours, "lan", LAN, lan, "lan", "192.168.1.2")
        cable(remote, "eth0", REMOTE, internet, "far", "198.51.100.254")
        remote.run("ip", "route", "add", "default", "via", "198.51.100.254")
        internet.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        relay = delayed(ours, "wan2", internet)
        a, b = Node(engine, ours, tmp_path / "a"), Node(engine, remote, tmp_path / "b")
        link(a, b, ([], [REMOTE]))
        close(a, b)
        close(b, a)
        yield Site(a, b)
    finally:
        if relay:
            relay.kill()
            relay.wait()
        for host in made:
            host.close()


def test_it_returns_to_the_uplink_that_the_routes_prefer(site: Site) -> None:
    """The other one works on, and is slow."""
    for uplink in UPLINKS:
        site.connect(uplink)
    bring_up(site.ours, site.remote)
    wait(lambda: site.carried() == "wan1", timeout=30, what="traffic by the uplink of the better route")
    site.ours.host.run("ip", "link", "set", "wan1", "down")
    wait(lambda: site.carried() == "wan2", timeout=30, what="traffic by the other uplink")
    site.connect("wan1")
    wait(lambda: site.carried() == "wan1", timeout=30, what="traffic by the better one again")


def test_hosts_of_a_lan_are_not_asked_for_a_remote(site: Site) -> None:
    """One that answers for it, as with proxy ARP, would get on the path: before there is any other, and while there is."""
    site.ours.host.run("ip", "link", "set", "wan2", "down")
    site.ours.start()  # no uplink has a gateway yet
    wait(lambda: "9993" in site.ours.host.run("ss", "-Hnlu", "src", LAN), timeout=10, what="its socket on the LAN")
    site.connect("wan1")
    wait(lambda: site.sent("wan1") > ECHOES, timeout=30, what="a search by the uplink")
    assert site.ours.host.run("ip", "-4", "neigh", "show", "dev", "lan") == ""
    site.ours.stop()
    bring_up(site.ours, site.remote)
    wait(lambda: reaches(site.ours), timeout=20, what="echo over the link")
    assert site.ours.host.run("ip", "-4", "neigh", "show", "dev", "lan") == ""
