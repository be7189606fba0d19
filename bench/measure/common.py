"""What every measurement takes and yields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from bench import ours
from bench.ends import End, Place, Site, host
from bench.peers import PEERS
from bench.peers.common import Link, Unavailable
from bench.plan import Plan, Subject
from bench.results import Parameter
from lab.lan import Lan


@dataclass(frozen=True)
class Reading:
    """One sample of one row, or in ``failed`` why there is none."""

    parameters: Mapping[str, Parameter]  # besides the subject's
    metric: str
    unit: str
    better: str
    value: float = 0.0
    commands: tuple[str, ...] = ()
    distribution: tuple[float, ...] | None = None
    timeline: tuple[tuple[float, float], ...] | None = None
    stacks: str | None = None
    failed: str | None = None


@dataclass
class Context:
    """One subject in one round of a scenario."""

    site: Site
    plan: Plan
    subject: Subject
    seconds: float
    round: int
    parts: ExitStack = field(default_factory=ExitStack)  # closed when the step is over

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of the scenario."""
        return self.plan.parameters

    @cached_property
    def lans(self) -> tuple[Lan, Lan]:
        """A host behind each router, made when it is first asked for."""
        made = []
        for router in self.site.routers:
            lan = Lan(router)
            self.parts.callback(lan.close)
            made.append(lan)
        return made[0], made[1]

    @property
    def hosts(self) -> tuple[End, End]:
        """The hosts as ends of traffic."""
        here, there = (End(host(lan), lan.address) for lan in self.lans)
        return here, there

    def ends(self, link: Link) -> tuple[End, End]:
        """The routers as ends of traffic over a link."""
        here, there = (End(place, address) for place, address in zip(self.site.places, link.addresses, strict=True))
        return here, there

    def main(self, value: float, parameters: Mapping[str, Parameter], commands: tuple[str, ...] = ()) -> Reading:
        """A reading of the scenario's own metric."""
        return Reading(parameters, self.plan.metric, self.plan.unit, self.plan.better, value, commands)

    @contextmanager
    def link(self, lans: bool = False) -> Iterator[Link]:
        """The subject's link. ``lans`` lets it carry what hosts behind the routers send. Raises :class:`Unavailable`."""
        if self.subject.kind == "ours":
            with ours.link(self.site, self.subject.parameters, self.lans if lans else None) as link:
                yield link
            return
        if self.subject.kind not in PEERS:
            raise Unavailable(f"{self.subject.kind} is no kind of link that this program knows")
        with ExitStack() as stack:
            site = replace(self.site, behind=(self.lans[0].prefix, self.lans[1].prefix)) if lans else self.site
            link = stack.enter_context(PEERS[self.subject.kind](site, self.subject.parameters))
            if lans and not link.routes:
                stack.enter_context(_routed(self.site.places, self.lans, link))
            yield link


@contextmanager
def _routed(places: Sequence[Place], lans: Sequence[Lan], link: Link) -> Iterator[None]:
    """Route the LANs over a peer's link; a route that stayed would also lead the traffic of the next subject."""
    try:
        for own, place in enumerate(places):
            place.run(["ip", "route", "replace", lans[1 - own].prefix, "via", link.addresses[1 - own]])
        yield
    finally:
        for own, place in enumerate(places):
            place.run(["ip", "route", "del", lans[1 - own].prefix, "via", link.addresses[1 - own]], check=False)
