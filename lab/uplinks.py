"""Two routers with hosts behind them; the first has two WANs, the second has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.lab import Lab
from lab.lan import Lan
from lab.router import Router
from lab.scenario import example, introduce, wait_paths
from lab.wan import Wan

ZT = "set interfaces zerotier zt0"
DEVICES = {1: "eth0", 2: "eth0", 3: "eth1", 4: "eth1"}  # the uplink of each instance of R1


@dataclass
class Site:
    """R1 with WAN 1 on eth0 and WAN 2 on eth1, both by DHCP, its addresses there, R2 on the underlay, a LAN behind each."""

    r1: Router
    r2: Router
    wans: list[Wan]
    addresses: list[str]
    lans: list[Lan]

    @property
    def routers(self) -> list[Router]:
        """Both."""
        return [self.r1, self.r2]


@contextmanager
def two_uplinks(lab: Lab, engine: str, *, rates: Sequence[float] = (0, 0), lines: str = "") -> Iterator[Site]:
    """The site, connected over four paths; ``rates`` of the WANs in Mbit/s, ``lines`` of configuration for both routers."""
    r1, r2 = lab.add_routers(["R1", "R2"])
    wans = [Wan(lab.underlay, number, rate) for number, rate in enumerate(rates, start=1)]
    try:
        addresses = [wan.attach(r1, device) for wan, device in zip(wans, ("eth0", "eth1"), strict=True)]
        for wan in wans:
            wan.reached_from(r2)
        uplinks = "".join(f"{ZT} instance {k} source-interface {device}\n" for k, device in DEVICES.items())
        for router, other in ((r1, r2), (r2, r1)):
            router.must_configure(example(router, [other], 4, engine=engine) + lines + (uplinks if router is r1 else ""))
        introduce([r1, r2], 4, endpoints="4")
        wait_paths([r1, r2], 4, timeout=40)
        lans = [Lan(r1), Lan(r2)]
        for lan, other_lan in (lans, lans[::-1]):
            lan.router.must_configure(f"{ZT} remote {other_lan.router.name} prefix {other_lan.prefix}")
        lans[0].reach(lans[1].address)
        yield Site(r1, r2, wans, addresses, lans)
    finally:
        for wan in wans:
            wan.close()
