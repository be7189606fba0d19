"""How evenly equal flows of hosts behind the routers spread over the paths.

Every instance has a share of a core, so that paths can be full. What they carry together is measured with greedy flows,
once in a run, so that all subjects are offered the same; then each flow sends an equal part of most of that, and the bytes of
the last seconds count, when weights had time to move flows. Where nothing moves flows, how they lie is chance, and many short
draws say what chance comes to.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.budget import limited
from bench.figures import evenness
from bench.measure.common import Context, Reading
from bench.results import Parameter
from bench.traffic import Kind, Senders, carry
from lab.scenario import member_bytes, shares


def measure(context: Context) -> Iterator[Reading]:
    """All numbers of flows, one after the other, each several times where the weights say so."""
    wanted = context.parameters
    draws = wanted["draws"][context.subject.parameters["weights"]]
    with context.link(lans=True) as link, limited(link.pids, wanted["budget"]):
        context.lans[0].reach(context.lans[1].address)
        capacity = _capacity(context)
        for flows in wanted["flows"]:
            rate = wanted["load"] * capacity / flows
            seen = [_draw(context, flows, rate, draws["seconds"], draws["last"]) for _ in range(draws["count"])]
            paths = context.subject.parameters["instances"]
            parameters: dict[str, Parameter] = {"flows": flows, "paths": paths, "budget": wanted["budget"], "load": wanted["load"]}
            found = tuple(draw.evenness for draw in seen)
            main = context.main(statistics.mean(found), parameters, seen[-1].commands)
            yield replace(main, distribution=found)
            yield Reading(parameters, "offered", "Mbit/s", "higher", rate * flows)
            carried = statistics.mean(draw.mbit for draw in seen) / (rate * flows) * 100
            yield Reading(parameters, "carried of offered", "%", "higher", carried)


@dataclass(frozen=True)
class Draw:
    """How flows lay on the paths once, the Mbit/s that they had, and what sent them."""

    evenness: float
    mbit: float
    commands: tuple[str, ...]


def _draw(context: Context, flows: int, rate: float, seconds: float, last: float) -> Draw:
    """New flows with new ports for so many seconds; the bytes of the ``last`` of them count."""
    router = context.site.near
    kind = Kind(flows, min(16, flows))  # a stream that cannot write holds up all others of its process, whatever their path
    senders = Senders(kind, *context.hosts, seconds, rate)
    try:
        time.sleep(senders.seconds - last)  # the last seconds are what is measured
        before = member_bytes(router)
        mbit, _ = senders.end()
        after = member_bytes(router)
    finally:
        senders.kill()
    return Draw(evenness(list(shares(before, after).values())), mbit, senders.commands)


_capacities: dict[tuple[Parameter, ...], float] = {}  # of this process, which is one run or its continuation


def _capacity(context: Context) -> float:
    """Mbit/s that so many instances with this budget carry, median of three measurements at the first time."""
    own = context.subject.parameters
    key = own["engine"], own["instances"], context.parameters["budget"]
    if key not in _capacities:
        rates = [carry("tcp-64", context.hosts, context.parameters["alone"]).mbit for _ in range(3)]
        _capacities[key] = statistics.median(rates)
    return _capacities[key]
