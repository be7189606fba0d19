"""Throughput of N instances that each have a fixed share of a core.

A small machine has few cores, but with a tenth of a core each it has room for eight instances at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.budget import limited
from bench.ends import cost
from bench.measure.common import Context, Reading
from bench.ours import FIRST_TRANSIT
from bench.peers.common import Link
from bench.results import Parameter
from bench.traffic import Carried, carry


def measure(context: Context) -> Iterator[Reading]:
    """Each budget, over the loopback addresses; one instance over its transit addresses."""
    count = int(context.subject.parameters["instances"])
    with context.link() as link:
        loopback, transit = context.ends(link), context.ends(replace(link, addresses=FIRST_TRANSIT))
        for budget in context.parameters["budgets"]:
            with limited(link.pids if budget else (), budget):
                ends = loopback if count > 1 else transit
                carried = carry(context.parameters["traffic"], ends, context.seconds, partial(cost, link.pids), times=count)
                yield from _readings(context, link, carried, _parameters(context, budget))


def _parameters(context: Context, budget: float) -> dict[str, Parameter]:
    return {"budget": budget, "traffic": f"{context.parameters['traffic']} per instance"}


def _readings(context: Context, link: Link, carried: Carried, parameters: dict[str, Parameter]) -> Iterator[Reading]:
    yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
    yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
    yield Reading(
        parameters, "cores used per instance", "cores", "lower", carried.cost.processes / carried.seconds / len(link.pids)
    )
