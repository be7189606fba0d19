"""What flows notice when a path dies, the address of a router changes, or one of its two uplinks goes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

from bench.measure.common import Context, Reading
from bench.ours import ZT
from bench.peers.common import Unavailable
from bench.results import Parameter
from lab.faults import CUT_BOTH, KILL, RESTART, STOP, Fault
from lab.link import Link, Traffic, Witness
from lab.router import Router
from lab.scenario import wait_paths
from lab.uplinks import DEVICES, two_uplinks

PATH = 2  # that is hit
SECOND = [f"zt0p{number}" for number, device in DEVICES.items() if device == "eth1"]  # the members on the uplink that goes
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
    if context.subject.parameters["uplinks"] == 2:
        yield from _uplink(context)
        return
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
            hit = [device for one in seen for device in one.before] if fault.hits == "all" else [f"zt0p{PATH}"]
            yield from readings(name, seen, begin, BEFORE + context.seconds, hit, made.commands)


def _uplink(context: Context) -> Iterator[Reading]:
    """The provider of one of two uplinks lets nothing through any more; the router's own link stays up.

    R1 has two WANs then, so this has two routers of its own.
    """
    engine = str(context.subject.parameters["engine"])
    if engine == "zerotier-one" and not context.site.stock:
        raise Unavailable("zerotier-one is not on PATH and not named; name it: make bench ZEROTIER_ONE=/path/zerotier-one")
    with context.site.lab.another("u") as lab, two_uplinks(lab, engine, lines=f"{ZT} cpu affinity none\n") as site:
        link = Link(lab, site.r1, site.r2, len(DEVICES))
        traffic = Traffic(link, context.parameters["flows"])
        try:
            begin = time.monotonic()
            time.sleep(BEFORE)  # traffic before the fault; its length is part of the method
            site.wans[1].cut()
            time.sleep(context.seconds)
            seen = traffic.end()
        finally:
            traffic.kill()
            site.wans[1].repair()
        wait_paths(site.routers, len(DEVICES), timeout=90)
        commands = tuple(f"{ZT} instance {number} source-interface {device}" for number, device in DEVICES.items())
        yield from readings("uplink-gone", seen, begin, BEFORE + context.seconds, SECOND, commands)


def readings(
    name: str, seen: Sequence[Witness], begin: float, seconds: float, members: Collection[str], commands: tuple[str, ...]
) -> Iterator[Reading]:
    """What the flows saw: gap and loss of those that used a member that was hit, loss of the others, answers over time."""
    hit = [one.seen for one in seen if not {*members}.isdisjoint(one.before)]
    others = [one.seen for one in seen if {*members}.isdisjoint(one.before)]
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
