"""Addresses of the underlay that move under a link, and how long its traffic is away.

Two routers, R1 that moves and R2 that mostly does not, with flows between their loopbacks. A :class:`Move` strikes; what
counts is the time from the moment in which the underlay serves again to the last packet of the longest row of lost ones.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from lab.dns import NameServer
from lab.faults import PRIMARY_PORT
from lab.flows import PERIOD, Flows
from lab.lab import Lab
from lab.nat import Nat
from lab.process import LabError
from lab.router import Router
from lab.scenario import example, identity_lines, loopback, paths_up, processes, reach, wait_paths
from lab.underlay import PREFIX4, PREFIX6

INSTANCES, FLOWS = 2, 8
NAT_NUMBER = 90  # of the NAT router, and last byte of its address
SPARE = 52  # last byte of R2's other address, which R1 knows too
DOMAIN = "example.org"
SETTLE = 0.5  # seconds of traffic before a move and after its end; their length is part of the method


@dataclass
class Site:
    """Two routers with a link over the underlay's IPv4, or both of its families, and where they are on it just now."""

    lab: Lab
    engine: str
    near: Router = field(init=False)
    far: Router = field(init=False)
    nat: Nat | None = None
    dns: NameServer | None = None
    _knowing: set[str] = field(default_factory=set)  # routers that have endpoints of the other
    _hosts: Iterator[int] = field(default_factory=lambda: itertools.cycle(range(100, 250)))
    _ports: Iterator[int] = field(default_factory=lambda: itertools.cycle(range(20000, 30000, FLOWS)))

    def __post_init__(self) -> None:
        self.near, self.far = self.lab.add_routers(["R1", "R2"])
        for router, other in (self.routers, self.routers[::-1]):
            router.must_configure(example(router, [other], INSTANCES, engine=self.engine))
        lines = [identity_lines(router, INSTANCES, endpoints="") for router in self.routers]
        for router, text in zip(self.routers, reversed(lines), strict=True):
            router.must_configure(text)

    @property
    def routers(self) -> tuple[Router, Router]:
        """The one that moves, and the other."""
        return self.near, self.far

    # -- where they are

    def place(self, router: Router, *hosts: int) -> None:
        """Give a router these IPv4 addresses on the underlay, known by their last byte, and no others."""
        add = "".join(f"address add {PREFIX4}.{host}/24 dev eth0\n" for host in hosts)
        self._batch(router, 4, f"address flush dev eth0\n{add}")

    def move(self, router: Router) -> int:
        """Give a router an IPv4 address that nobody has heard of; its last byte."""
        host = next(self._hosts)
        self.place(router, host)
        return host

    def ipv6(self, present: bool) -> None:
        """Whether both routers have IPv6 on the underlay."""
        for router in self.routers:
            add = f"address replace {PREFIX6}{router.number:x}/64 dev eth0 nodad\n" if present else ""
            self._batch(router, 6, f"address flush dev eth0 scope global\n{add}")

    @staticmethod
    def _batch(router: Router, family: int, lines: str) -> None:
        router.run(["ip", f"-{family}", "-batch", "-"], text_input=lines)

    def behind_nat(self) -> Nat:
        """Plug R1 in behind a NAT router; it stays there."""
        if self.nat is None:
            self.nat = Nat(self.lab.underlay, NAT_NUMBER)
            self.nat.attach(self.near, dhcp=False)
        return self.nat

    def names(self, **hosts: int) -> None:
        """Have these names in example.org for IPv4 addresses of the underlay, known by their last byte."""
        if self.dns is None:
            self.dns = NameServer(self.lab.underlay)
            for router in self.routers:
                self.dns.serve(router)
        self.dns.tell({f"{name}.{DOMAIN}": f"{PREFIX4}.{host}" for name, host in hosts.items()})

    def close(self) -> None:
        """Take the NAT router and the name server away."""
        for helper in (self.nat, self.dns):
            if helper is not None:
                helper.close()
        self.nat = self.dns = None

    # -- what they know of each other

    def know(self, near: Iterable[str], far: Iterable[str]) -> None:
        """What R1 has as addresses of R2, and R2 as those of R1; begins anew with fresh processes.

        An address is a name or as it stands in an endpoint, an IPv6 one in brackets.
        """
        for router, other, addresses in ((self.near, self.far, list(near)), (self.far, self.near, list(far))):
            lines = []
            for k in range(1, INSTANCES + 1):
                base = f"interfaces zerotier zt0 remote {other.name} instance {k} endpoint"
                if router.name in self._knowing:
                    lines.append(f"delete {base}")
                lines += [f"set {base} {address}:{PRIMARY_PORT + k - 1}" for address in addresses]
            if lines:
                router.must_configure("\n".join(lines))
            (self._knowing.add if addresses else self._knowing.discard)(router.name)
        self.refresh()

    def refresh(self) -> None:
        """New processes on both, so that nothing is left of what they have learned of each other; all paths are up then."""
        for router in self.routers:
            router.run(["systemctl", "stop", "zerotier-multi@*.service"])
            router.run(["sh", "-c", "rm -f /config/zerotier-multi/zt0/*/peers.d/*"])
        for router in self.routers:
            units = [f"zerotier-multi@zt0-{k}.service" for k in range(1, INSTANCES + 1)]
            router.run(["systemctl", "start", *units])
        self.settle(60.0)

    def settle(self, patience: float) -> None:
        """Wait until the link is whole, with daemons that hold no fall of the past against a path."""
        for router in self.routers:
            router.wait(lambda r=router: len(processes(r)) == INSTANCES, what="all instances")
            router.run(["systemctl", "restart", "zerotier-pathd"])
        self.whole(patience)

    def whole(self, patience: float) -> None:
        """Wait until all paths are up."""
        wait_paths(self.routers, INSTANCES, timeout=patience)
        reach(self.near, loopback(self.near), loopback(self.far))

    # -- what is measured

    def run(self, move: Move, patience: float) -> Outcome:
        """Move once under traffic; ``patience`` in seconds for the traffic, and again for the rest of the paths."""
        flows = Flows(self.near, self.far, FLOWS, first=next(self._ports))
        try:
            time.sleep(SETTLE)
            moment = move.strike(self)
            try:
                reach(self.near, loopback(self.near), loopback(self.far), timeout=patience)
            except LabError:
                return Outcome(None, None)
            whole = self._whole(moment, patience)
            time.sleep(SETTLE)
            seen = flows.end()
        finally:
            flows.kill()
        return Outcome(max(away(flow.missing, moment) for flow in seen), whole)

    def _whole(self, moment: float, patience: float) -> float | None:
        try:
            for router in self.routers:
                router.wait(lambda r=router: paths_up(r) == INSTANCES, timeout=patience, what="all paths up")
        except LabError:
            return None
        return time.monotonic() - moment


def away(missing: list[float], moment: float) -> float:
    """Seconds from ``moment`` to the end of the longest row of lost packets, given when each of them was sent."""
    longest = begin = end = 0.0
    last = None
    for at in missing:
        if last is None or at - last > 2.5 * PERIOD:
            begin = at
        if at - begin >= longest:
            longest, end = at - begin, at
        last = at
    return max(0.0, end + PERIOD - moment) if missing else 0.0


@dataclass(frozen=True)
class Outcome:
    """Seconds until all flows were back, and until all paths were; None where they were not in time."""

    traffic: float | None
    paths: float | None


@dataclass(frozen=True)
class Move:
    """A way for addresses to move. ``prepare`` brings the site to where it begins, ``strike`` does it.

    ``strike`` returns the moment (monotonic) from which the underlay serves again; ``limit`` in seconds until the traffic
    is back.
    """

    name: str
    limit: float
    prepare: Callable[[Site], None]
    strike: Callable[[Site], float]
    again: Callable[[Site], None] = lambda _site: None  # what has to come back before the next time


def events(router: Router, kind: str) -> list[str]:
    """Events of a kind since a router has booted."""
    lines = router.run(["journalctl", "-b", "-o", "cat", "-t", "zerotier-pathd", f"ZEROTIER_EVENT={kind}"]).stdout
    return lines.splitlines()


def _at_home(site: Site) -> None:
    """Both on the underlay with IPv4 alone, where they were at the beginning."""
    site.ipv6(False)
    site.place(site.near, site.near.number)
    site.place(site.far, site.far.number)


def _plain(site: Site) -> None:
    """Both on the underlay with IPv4 alone, each knowing where the other is."""
    _at_home(site)
    site.know([site.far.underlay4], [site.near.underlay4])


def _one(site: Site) -> float:
    site.move(site.near)
    return time.monotonic()


def _spare(site: Site) -> None:
    _at_home(site)
    site.know([site.far.underlay4, f"{PREFIX4}.{SPARE}"], [site.near.underlay4])


def _both(site: Site) -> float:
    addresses = site.far.run(["ip", "-4", "address", "show", "dev", "eth0"]).stdout
    site.place(site.far, site.far.number if f"{PREFIX4}.{SPARE}/" in addresses else SPARE)
    site.move(site.near)
    return time.monotonic()


def _named(site: Site) -> None:
    """R1 knows R2 by its name alone, and R2 where R1 was at the beginning."""
    _at_home(site)
    site.names(r2=site.far.number)
    site.know([f"r2.{DOMAIN}"], [site.near.underlay4])


def _renamed(site: Site) -> float:
    """Nothing but the name leads from one to the other."""
    site.names(r2=site.move(site.far))
    site.move(site.near)
    return time.monotonic()


def _gone(seconds: float) -> Callable[[Site], float]:
    def strike(site: Site) -> float:
        site.place(site.near)
        time.sleep(seconds)  # how long it has no address
        site.move(site.near)
        return time.monotonic()

    return strike


def _dual(site: Site) -> None:
    site.ipv6(True)
    site.place(site.near, site.near.number)
    site.place(site.far, site.far.number)
    near, far = ([router.underlay4, f"[{router.underlay6}]"] for router in site.routers)
    site.know(far, near)


def _with_ipv6(site: Site) -> None:
    site.ipv6(True)
    site.refresh()


def _without_ipv6(site: Site) -> float:
    """Gone from both. New processes find each other over either family, so both are up before it goes."""
    site.ipv6(False)
    return time.monotonic()


def _natted(site: Site) -> None:
    site.ipv6(False)
    site.place(site.far, site.far.number)
    site.behind_nat()
    site.know([site.far.underlay4], [])


def _other_port(site: Site) -> float:
    """Every other time back to the port that the instances have themselves."""
    nat = site.behind_nat()
    ranges = nat.run(["nft", "list", "chain", "ip", "nat", "postrouting"]).stdout
    port = "" if "to :" in ranges else " to :40000-40999"
    rules = f'flush chain ip nat postrouting\nadd rule ip nat postrouting oifname "out0" meta l4proto udp masquerade{port}\n'
    nat.run(["nft", "-f", "-"], text_input=rules)
    nat.forget()
    return time.monotonic()


def _forgets(site: Site) -> float:
    """All mappings gone, and another port for each because the NAT router chooses them at random."""
    nat = site.behind_nat()
    rules = 'flush chain ip nat postrouting\nadd rule ip nat postrouting oifname "out0" masquerade fully-random\n'
    nat.run(["nft", "-f", "-"], text_input=rules)
    nat.forget()
    return time.monotonic()


MOVES = [
    Move("one end renumbered", 5.0, _plain, _one),
    Move("both renumbered, one to another address that the other has", 10.0, _spare, _both),
    Move("5 s without an address, then another one", 5.0, _plain, _gone(5.0)),
    Move("20 s without an address, then another one", 5.0, _plain, _gone(20.0)),
    Move("IPv6 of both gone, IPv4 stays", 5.0, _dual, _without_ipv6, _with_ipv6),
    Move("both renumbered, the DNS name of one follows", 10.0, _named, _renamed),
    Move("NAT: another source port, and back", 5.0, _natted, _other_port),
    Move("NAT: all mappings forgotten, random ports", 5.0, _natted, _forgets),
]
