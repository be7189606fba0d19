"""What flows notice when a path dies or the address of a router changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from bench.measure.common import Context, Reading
from bench.results import Parameter
from lab.faults import CUT_BOTH, KILL, RESTART, STOP, Fault
from lab.link import Link, Traffic, Witness
from lab.router import Router

PATH = 2  # that is hit
BEFORE, BIN = 0.5, 0.05  # seconds of traffic before the fault, and of one point of the timeline
RENUMBERED = "198.51.100.77"


def _renumber(link: Link, router: Router, _path: int) -> None:
    link.lab.underlay.renumber(router, 4, RENUMBERED)


def _back(link: Link, router: Router, _path: int) -> None:
    link.lab.underlay.renumber(router, 4, f"198.51.100.{router.number}")


FAULTS = {fault.name: fault for fault in (KILL, STOP, CUT_BOTH, RESTART)} | {
    "address-changed": Fault("address-changed", _renumber, _back, hits="all", lasting=False, patience=60.0)
}


def measure(context: Context) -> Iterator[Reading]:
    """Each fault strikes the near router, flows run all the time."""
    with context.link() as made:
        link = Link(context.site.lab, context.site.near, context.site.far, int(context.subject.parameters["instances"]))
        link.first += 4096 * context.round  # buckets in use stay where they are
        for name in context.parameters["faults"]:
            fault = FAULTS[name]
            traffic = Traffic(link, context.parameters["flows"])
            try:
                begin = time.monotonic()
                time.sleep(BEFORE)  # traffic before the fault; its length is part of the method
                fault.strike(link, link.near, PATH)
                time.sleep(context.seconds)
                seen = traffic.end()
            finally:
                traffic.kill()
                fault.repair(link, link.near, PATH)
                link.settle(timeout=90)
            yield from readings(name, seen, begin, BEFORE + context.seconds, fault.hits == "all", made.commands)


def readings(
    name: str, seen: Sequence[Witness], begin: float, seconds: float, every: bool, commands: tuple[str, ...]
) -> Iterator[Reading]:
    """What the flows saw: gap and loss of those that were hit, loss of the others, and the share of answers over time."""
    device = f"zt0p{PATH}"
    hit = [one.seen for one in seen if every or device in one.before]
    others = [one.seen for one in seen if not every and device not in one.before]
    parameters: dict[str, Parameter] = {"event": name}
    line = timeline([at - begin for one in hit for at in one.missing], len(hit), seconds)
    worst = max((one.gap for one in hit), default=0.0)
    yield Reading({**parameters, "timeline_unit": "% answered"}, "stall", "s", "lower", worst, commands, timeline=line)
    yield Reading(parameters, "packets lost of flows that are hit", "packets", "lower", sum(one.lost for one in hit))
    yield Reading(parameters, "packets lost of the others", "packets", "lower", sum(one.lost for one in others))


def timeline(missing: Sequence[float], flows: int, seconds: float) -> tuple[tuple[float, float], ...]:
    """Per cent of the packets that are answered, by when they were sent; every flow sends 100 packets/s."""
    bins = [0] * (int(seconds / BIN) + 1)
    for at in missing:
        if 0 <= at < len(bins) * BIN:
            bins[int(at / BIN)] += 1
    sent = flows * 100 * BIN
    return tuple((round(n * BIN - BEFORE, 3), 100 * max(0.0, 1 - lost / sent) if sent else 100.0) for n, lost in enumerate(bins))
