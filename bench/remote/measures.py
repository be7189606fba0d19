"""What two boxes can be asked: measurements over the link that they have, and for the others why not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from bench.ends import Cost, End, Site
from bench.measure import latency, load
from bench.measure.common import Context, Reading
from bench.peers.common import Link, Unavailable
from bench.plan import Step, Subject
from bench.remote.box import DAEMON, Box, cost
from bench.results import Parameter
from bench.traffic import KINDS, Senders, carry

# Scenarios that are measured in the lab alone.
WHY_NOT = {
    "forwarded": "it needs a host behind each router",
    "pinned": "it needs a host behind each router",
    "loopback": "the boxes have no program that echoes datagrams",
    "evenness": "it needs a host behind each router, and a CPU budget for each instance",
    "stalls": "it kills instances and cuts ports, which routers in use are spared",
    "commit": "it changes the configuration, which routers in use are spared",
    "trusted-path": "it replaces the instances, which routers in use are spared",
    "profile": "perf runs on one machine alone; run it on the router by hand",
}


@dataclass(frozen=True)
class Pair:
    """Two boxes, and the pairs of addresses by which they reach each other: floating, of each instance, and of the underlay."""

    near: Box
    far: Box
    floating: tuple[str, str] | None
    ways: Mapping[int, tuple[str, str]]
    underlay: tuple[str, str] | None
    engine: str
    raw: bool = False  # whether a server may listen on the underlay while it is measured

    @property
    def boxes(self) -> tuple[Box, Box]:
        """Both."""
        return self.near, self.far


def pair(near: Box, far: Box, raw: bool = False) -> Pair:
    """What two boxes say of their link. Raises :class:`Unavailable` when they have none that is up."""
    ways: dict[int, tuple[str, str]] = {}
    own_underlay, other_underlay = None, None
    for path in near.facts["paths"]:
        number, target = path["instance"], str(path["next_hop"])
        if path["state"] == "up" and target in far.transit(number) and number not in ways:
            source = next(address for address in near.transit(number) if (":" in address) == (":" in target))
            ways[number] = source, target
            other_underlay = other_underlay or _host(path["underlay_address"])
    if not ways:
        raise Unavailable(f"{near.place.name} and {far.place.name} have no path of {near.bundle} between them that is up")
    for path in far.facts["paths"]:
        if path["next_hop"] in (source for source, _ in ways.values()):
            own_underlay = own_underlay or _host(path["underlay_address"])
    underlay = (own_underlay, other_underlay) if own_underlay and other_underlay else None
    floating = _floating(near.facts["addresses"], far.facts["addresses"])
    return Pair(near, far, floating, ways, underlay, near.facts["engine"], raw)


def _host(endpoint: str | None) -> str | None:
    """The address of ``198.51.100.2:9993`` and the like, where it is known."""
    return endpoint.rpartition(":")[0].strip("[]") if endpoint else None


def _floating(near: Sequence[str], far: Sequence[str]) -> tuple[str, str] | None:
    """Loopback addresses of one family at both."""
    return next(((a, b) for a in near for b in far if (":" in a) == (":" in b)), None)


class RemoteContext(Context):
    """A step between two boxes: the link is there already."""

    pair: Pair

    @contextmanager
    def link(self, lans: bool = False) -> Iterator[Link]:
        """The subject's part of the link. Raises :class:`Unavailable`."""
        assert not lans, "two boxes have no hosts"
        yield link_of(self.pair, self.subject)

    def ends(self, link: Link) -> tuple[End, End]:
        """The boxes as ends: one instance's addresses, those of some, or the floating ones for all of them."""
        pairs = addresses(self.pair, self.subject)
        here, there = zip(*pairs, strict=True)
        return End(self.pair.near.place, here[0], here[1:]), End(self.pair.far.place, there[0], there[1:])


def link_of(pair: Pair, subject: Subject) -> Link:
    """A link as measurements take it. Raises :class:`Unavailable` for what these boxes do not have."""
    first = addresses(pair, subject)[0]
    if subject.kind == "raw":
        return Link(first, meter=partial(cost, pair.boxes, ()))
    used = sorted(pair.ways)[: int(subject.parameters.get("instances", 1))]
    commands = (f"paths of instances {', '.join(map(str, used))} of {pair.near.bundle} as it is configured",)
    return Link(first, tuple(used), commands=commands, device=pair.near.bundle, meter=partial(cost, pair.boxes, [DAEMON, *used]))


def addresses(pair: Pair, subject: Subject) -> list[tuple[str, str]]:
    """Between which addresses a subject is measured. Raises :class:`Unavailable`."""
    if subject.kind == "raw":
        if not pair.raw:
            raise Unavailable("iperf3 would listen on the underlay address; --raw-link allows that while it is measured")
        if not pair.underlay:
            raise Unavailable("the underlay addresses of both boxes are not known")
        return [pair.underlay]
    if subject.kind != "ours":
        raise Unavailable("two boxes are measured over the link that they have, and it is of no other kind")
    engine, count = subject.parameters.get("engine", "ztnode"), int(subject.parameters.get("instances", 1))
    if engine != pair.engine:
        raise Unavailable(f"{pair.near.bundle} runs {pair.engine}")
    if count > len(pair.ways):
        raise Unavailable(f"{pair.near.bundle} has {len(pair.ways)} instances whose path between the boxes is up")
    if count == len(pair.ways) and count > 1 and pair.floating:
        return [pair.floating]
    return [pair.ways[number] for number in sorted(pair.ways)[:count]]


def memory(context: Context) -> Iterator[Reading]:
    """PSS of the instances and of zerotier-pathd at both, CPU seconds per minute of these and of the machines, idle and under load."""
    assert isinstance(context, RemoteContext)
    pair = context.pair
    with context.link() as link:
        if len(link.pids) < len(pair.ways):
            raise Unavailable(f"all {len(pair.ways)} instances run, and fewer would not be measured alone")
        for name in ("idle", str(context.parameters["traffic"])):
            senders = Senders(KINDS[name], *context.ends(link), context.seconds + 1) if name != "idle" else None
            try:
                before, begin = link.cost(), time.monotonic()
                time.sleep(context.seconds)  # the length of the measurement
                spent, seconds = link.cost().since(before), time.monotonic() - begin
                size = sum(box.spent().pss for box in pair.boxes)
                if senders:
                    senders.end()
            finally:
                if senders:
                    senders.kill()
            yield Reading({"load": name}, "PSS", "MB", "lower", size, link.commands)
            yield from _per_minute({"load": name}, spent, seconds)


def _per_minute(parameters: Mapping[str, Parameter], spent: Cost, seconds: float) -> Iterator[Reading]:
    yield Reading(parameters, "cpu per minute", "CPU s", "lower", spent.processes * 60 / seconds)
    yield Reading(parameters, "cpu per minute of the machine", "CPU s", "lower", spent.machine * 60 / seconds)


def scaling(context: Context) -> Iterator[Reading]:
    """Whole cores (budget 0): the paths of N instances, without a limit."""
    traffic = str(context.parameters["traffic"])
    assert isinstance(context, RemoteContext)
    with context.link() as link:
        parameters: dict[str, Parameter] = {"budget": 0, "traffic": f"{traffic} per instance"}
        times = int(context.subject.parameters["instances"])
        carried = carry(traffic, context.ends(link), context.seconds, partial(cost, context.pair.boxes, link.pids), times)
        yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
        yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
        used = carried.cost.processes / carried.seconds / len(link.pids) / 2
        yield Reading(parameters, "cores used per instance", "cores", "lower", used)


MEASURES: Mapping[str, Callable[[Context], Iterator[Reading]]] = {
    "throughput": load.throughput,
    "transfer-1gb": load.transfer,
    "memory": memory,
    "latency": latency.measure,
    "scaling": scaling,
}


def take(pair: Pair, step: Step, seconds: float) -> list[Reading]:
    """All readings of one step. Raises :class:`Unavailable`, and :class:`LabError` when it fails."""
    if step.plan.name in WHY_NOT:
        raise Unavailable(f"not between two boxes: {WHY_NOT[step.plan.name]}")
    context = RemoteContext(cast(Site, None), step.plan, step.subject, step.plan.seconds or seconds, step.round)  # no lab
    context.pair = pair
    return list(MEASURES[step.plan.name](context))
