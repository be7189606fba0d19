"""Throughput of N instances that each have a fixed share of a core, and what the floating address costs.

A small machine has few cores, but with a tenth of a core each it has room for eight instances at both ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench.budget import limited
from bench.ends import End
from bench.measure.common import Context, Reading
from bench.peers.common import Link
from bench.results import Parameter
from bench.traffic import Carried, carry

TRANSIT = ("10.14.0.1", "10.14.0.2")  # of instance 1


def measure(context: Context) -> Iterator[Reading]:
    """Each budget, over the floating addresses; one instance over its transit addresses too, which is what counts for it."""
    count = int(context.subject.parameters["instances"])
    with context.link() as link:
        for budget in context.parameters["budgets"]:
            with limited(link.pids if budget else (), budget):
                if count == 1:
                    yield from _both(context, link, budget)
                else:
                    carried = _carry(context, link, context.ends(link), context.seconds, count)
                    yield from _readings(context, link, [carried], _parameters(context, budget))


def _carry(context: Context, link: Link, ends: tuple[End, End], seconds: float, count: int) -> Carried:
    return carry(context.parameters["traffic"], ends, seconds, link.cost, times=count)


def _both(context: Context, link: Link, budget: float) -> Iterator[Reading]:
    """One instance in short turns with and without the floating address: what differs between two of them is not the drift of
    the machine."""
    transit = tuple(End(place, address) for place, address in zip(context.site.places, TRANSIT, strict=True))
    pairs, seconds = int(context.parameters["pairs"]), float(context.parameters["pair_seconds"])
    floating: list[Carried] = []
    without: list[Carried] = []
    for number in range(pairs):
        turns = [(floating, context.ends(link)), (without, (transit[0], transit[1]))]
        for found, ends in turns if number % 2 else reversed(turns):
            found.append(_carry(context, link, ends, seconds, 1))
    yield from _readings(context, link, without, _parameters(context, budget))
    yield from _readings(context, link, floating, _parameters(context, budget, floating_ip=True))
    ratios = tuple(over.mbit / plain.mbit for over, plain in zip(floating, without, strict=True))
    yield Reading(
        _parameters(context, budget), "floating ip to transit", "x", "higher", statistics.mean(ratios), distribution=ratios
    )


def _parameters(context: Context, budget: float, **more: Parameter) -> dict[str, Parameter]:
    return {"budget": budget, "traffic": f"{context.parameters['traffic']} per instance", **more}


def _readings(context: Context, link: Link, carried: list[Carried], parameters: dict[str, Parameter]) -> Iterator[Reading]:
    mbit = statistics.mean(one.mbit for one in carried)
    gbit = sum(one.mbit * one.seconds for one in carried) / 1000
    yield context.main(mbit, parameters, (*link.commands, *carried[0].commands))
    yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", sum(one.cost.machine for one in carried) / gbit)
    used = sum(one.cost.processes for one in carried) / sum(one.seconds for one in carried) / len(link.pids)
    yield Reading(parameters, "cores used per instance", "cores", "lower", used)
