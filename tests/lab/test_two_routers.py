"""Two routers at one site, as docs/vyos.md has them: one fails, and hosts go on."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lab import Lab, Router
from lab.lan import Lan
from lab.scenario import introduce, wait_paths
from lab.shared_lan import SharedLan
from tests.lab.test_two_lans import engine, examples

HEADING = "Two routers at one site"
INSTANCES, PERIOD = 3, 0.05
OF_R1 = ["10.14.0.1", "10.14.0.9", "10.14.0.17"]  # its transit addresses
BACKUP = re.compile(r"^set protocols static route (\S+) next-hop (\S+) distance (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Site:
    """Routers, the LAN that the first two share, and the host behind the third."""

    routers: list[Router]
    shared: SharedLan
    host: Lan

    @contextmanager
    def echoes(self, most: float) -> Iterator[None]:
        """Echoes between the hosts meanwhile, which go on in the end; no gap is longer than ``most`` seconds."""
        times: list[float] = []
        process = self.host.popen(["ping", "-D", "-i", str(PERIOD), self.shared.address])

        def read() -> None:  # all the time, because ping stops while its pipe is full
            for line in process.stdout or ():
                times.extend(float(word) for word in re.findall(r"^\[([\d.]+)\] .* bytes from .* icmp_seq", line))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            self.host.wait(lambda: times, what="a first echo")
            yield
            end = time.time()
            self.host.wait(lambda: times[-1] > end, what="echoes in the end")
        finally:
            process.kill()
            process.wait()
            reader.join()
        gap = max(after - before for before, after in itertools.pairwise(times))
        print(f"longest gap: {gap:.2f} s of {times[-1] - times[0]:.1f} s")
        assert gap <= most

    def normal(self) -> bool:
        """Whether R1 carries all."""
        nexthop = self.routers[2].json(["ip", "-j", "route", "get", self.shared.address])[0].get("gateway")
        return self.shared.master() == "R1" and nexthop in OF_R1

    def leaves_by(self, router: Router, target: str) -> str:
        """Device by which a router sends to a host."""
        return str(router.json(["ip", "-j", "route", "get", target])[0]["dev"])


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    routers = lab.add_routers(["R1", "R2", "R3"])
    shared = SharedLan(lab.underlay, 1)
    for router in routers[:2]:
        shared.plug(router)
    host = Lan(routers[2])
    for router, lines in zip(routers, examples(HEADING, 3), strict=True):
        ours = [line for line in lines.splitlines() if line.startswith("set interfaces zerotier ")]
        router.must_configure(engine() + "\n".join(ours) + "\n", save=True)
        for prefix, nexthop, distance in BACKUP.findall(lines):
            router.run(["vtysh", "-c", "configure", "-c", f"ip route {prefix} {nexthop} {distance}", "-c", "end", "-c", "write"])
    introduce(routers, INSTANCES)
    for router in routers:
        router.must_configure("", save=True)
    wait_paths(routers, 2 * INSTANCES)
    routers[0].wait(lambda: shared.master() == "R1", what="the gateway address")
    host.reach(shared.address)
    yield Site(routers, shared, host)
    shared.close()


def test_the_first_router_loses_its_uplink(site: Site, lab: Lab) -> None:
    r1, _r2, r3 = site.routers
    assert site.normal()
    with site.echoes(most=5):
        lab.underlay.down(r1.name)
        r1.wait(lambda: site.leaves_by(r1, site.host.address) == "lan0", what="the way over R2")
        site.host.reach(site.shared.address)
        assert site.shared.master() == "R1"
    with site.echoes(most=5):
        lab.underlay.up(r1.name)
        wait_paths(site.routers, 2 * INSTANCES)
        r3.wait(site.normal, what="the way over R1")


def test_the_first_router_loses_its_port_to_the_lan(site: Site) -> None:
    r1, r2, r3 = site.routers
    with site.echoes(most=10):
        site.shared.down(r1)
        r2.wait(lambda: site.shared.master() == "R2", what="the gateway address")
        assert site.leaves_by(r1, site.shared.address).startswith("zt0p")
    with site.echoes(most=10):
        site.shared.up(r1)
        r3.wait(site.normal, what="the way over R1")


def test_the_first_router_loses_power(site: Site) -> None:
    r1, r2, r3 = site.routers
    with site.echoes(most=10):
        r1.kill()
        r2.wait(lambda: site.shared.master() == "R2", what="the gateway address")
    with site.echoes(most=10):
        r1.start()
        r1.wait_boot()
        site.shared.plug(r1)
        wait_paths(site.routers, 2 * INSTANCES, timeout=60)
        r3.wait(site.normal, timeout=60, what="the way over R1")
