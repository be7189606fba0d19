"""To which uplink traffic returns after a failover: the one that the router's routes prefer, and then it stays there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from lab.impair import PLAIN
from lab.process import wait
from tests.engine.test_contract import ROOT, Host, Node, bring_up, engine, link  # noqa: F401 (a fixture)
from tests.engine.test_routes import REMOTE, cable
from tests.engine.test_standing_path import close

pytestmark = pytest.mark.only_ztnode

# Of each uplink: our address, the gateway, the metric of the default route.
UPLINKS = {"wan1": ("192.0.2.2", "192.0.2.1", 100), "wan2": ("203.0.113.2", "203.0.113.1", 200)}
ECHOES, MANY = 20, 400
DELAY_MS = 40
RETURNED = 30  # seconds; the first try comes after ten
TUNNEL_TABLE = "77"
NOTICED = 3.0  # seconds: our end gives the path up after 1.6, and the other one soon after
CUT = "table inet cut { chain forward { type filter hook forward priority 0; iifname wan1 drop; oifname wan1 drop; }; }"


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
    """Ours, with two uplinks to the Internet, and a remote that is reached by either."""

    ours: Node
    remote: Node
    internet: Host

    def connect(self, uplink: str) -> None:
        """Have an uplink, as when its DHCP client has got an address."""
        _, gateway, metric = UPLINKS[uplink]
        self.ours.host.run("ip", "link", "set", uplink, "up")
        self.ours.host.run("ip", "route", "replace", "default", "via", gateway, "dev", uplink, "metric", str(metric))

    def sent(self) -> dict[str, int]:
        """Packets that have left, by uplink."""
        return {u: int(self.ours.host.run("cat", f"/sys/class/net/{u}/statistics/tx_packets")) for u in UPLINKS}

    def carried(self, echoes: int = ECHOES) -> str:
        """The uplink by which echo requests go; empty where not all get answers, or some of them take the other."""
        before = self.sent()
        ping = ["ping", "-q", f"-c{echoes}", "-i0.01", "-W1", "10.14.0.2"]
        if f" {echoes} received" not in self.ours.host.run(*ping, check=False):
            return ""
        grown = {uplink: count - before[uplink] for uplink, count in self.sent().items()}
        most = max(grown, key=lambda uplink: grown[uplink])
        return most if grown[most] >= echoes and sum(grown.values()) - grown[most] < echoes // 4 else ""


@pytest.fixture(params=UPLINKS)
def site(request: pytest.FixtureRequest, engine: str, tmp_path: Path) -> Iterator[Site]:
    """One of the uplinks is slow, so the remote, which measures alone, prefers the other one."""
    with ExitStack() as stack:
        ours, internet, remote = (Host(f"zt{letter}-{os.getpid()}") for letter in "aib")
        for host in (ours, internet, remote):
            stack.callback(host.close)
        for uplink, (address, gateway, _) in UPLINKS.items():
            cable(ours, uplink, address, internet, uplink, gateway)
        cable(remote, "eth0", REMOTE, internet, "far", "198.51.100.254")
        remote.run("ip", "route", "add", "default", "via", "198.51.100.254")
        internet.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        relay = delayed(ours, request.param, internet)
        stack.callback(relay.wait)
        stack.callback(relay.kill)
        a, b = Node(engine, ours, tmp_path / "a"), Node(engine, remote, tmp_path / "b")
        link(a, b, ([], [REMOTE]))
        close(a, b)
        close(b, a)
        made = Site(a, b, internet)
        for uplink in UPLINKS:
            made.connect(uplink)
        bring_up(a, b)
        wait(lambda: made.carried() == "wan1", timeout=RETURNED, what="traffic by the uplink of the better route")
        yield made


def _unplug(site: Site) -> Callable[[], None]:
    site.ours.host.run("ip", "link", "set", "wan1", "down")
    return lambda: site.connect("wan1")


def _cut(site: Site) -> Callable[[], None]:
    """Its link stays up, and the route too."""
    site.internet.run("nft", CUT)
    return lambda: print(site.internet.run("nft", "delete table inet cut"))


@pytest.mark.parametrize("fail", [_unplug, _cut])
def test_it_returns_to_the_uplink_that_the_routes_prefer(site: Site, fail: Callable[[Site], Callable[[], None]]) -> None:
    repair = fail(site)
    wait(lambda: site.carried() == "wan2", timeout=10, what="traffic by the other uplink")
    repair()
    wait(lambda: site.carried() == "wan1", timeout=2 * RETURNED, what="traffic by the better one again")
    assert site.carried(MANY) == "wan1", "it does not stay there"


def test_it_follows_the_routes(site: Site) -> None:
    """As where a health check of the router changes them; both lines work."""
    _, gateway, _ = UPLINKS["wan2"]
    site.ours.host.run("ip", "route", "add", "default", "via", gateway, "dev", "wan2", "metric", "50")
    wait(lambda: site.carried() == "wan2", timeout=RETURNED, what="traffic by the new route")
    assert site.carried(MANY) == "wan2"


def _tunnel(site: Site) -> None:
    """Rules as pathd makes them for a full tunnel: what has no address of an uplink goes by the bundle."""
    add_rule = ("ip", "rule", "add", "pref")
    for number, (address, _, _) in enumerate(UPLINKS.values()):
        site.ours.host.run(*add_rule, str(100 + number), "from", address, "lookup", "main")
    site.ours.host.run(*add_rule, "110", "lookup", "main", "suppress_prefixlength", "0")
    site.ours.host.run(*add_rule, "120", "lookup", TUNNEL_TABLE)
    site.ours.host.run("ip", "route", "add", "default", "via", "10.14.0.2", "dev", "zt0p1", "table", TUNNEL_TABLE)


def test_it_returns_in_a_full_tunnel_too(site: Site) -> None:
    _tunnel(site)
    assert "dev zt0p1" in site.ours.host.run("ip", "route", "get", REMOTE)
    repair = _cut(site)
    wait(lambda: site.carried() == "wan2", timeout=10, what="traffic by the other uplink")
    repair()
    wait(lambda: site.carried() == "wan1", timeout=2 * RETURNED, what="traffic by the better one again")
    assert site.carried(MANY) == "wan1", "it does not stay there"


@pytest.mark.parametrize("site", ["wan2"], indirect=True)
def test_the_other_end_notices_soon_that_a_path_has_died(site: Site) -> None:
    """It sends nothing but answers, so no silence tells it."""
    ping = site.ours.host.popen("ping", "-D", "-n", "-i0.02", "-w9", "10.14.0.2")
    time.sleep(2)
    repair = _cut(site)
    answered = [float(at) for at in re.findall(r"^\[([0-9.]+)\].*icmp_seq=", ping.communicate()[0], re.MULTILINE)]
    repair()
    assert len(answered) > 200
    longest = max(later - earlier for earlier, later in pairwise(answered))
    assert longest < NOTICED, f"no answer for {longest:.2f} s"
