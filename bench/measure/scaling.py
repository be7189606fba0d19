"""Throughput of N instances that each have a fixed share of a core, and what the loopback address costs.

A small machine has few cores, but with a tenth of a core each it has room for eight instances at both ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.budget import limited
from bench.ends import End, cost
from bench.measure.common import Context, Reading
from bench.peers.common import Link
from bench.results import FLOATING_IP_RATIO, PACED_COST, Parameter
from bench.traffic import Carried, carry

TRANSIT = ("10.14.0.1", "10.14.0.2")  # of instance 1


def measure(context: Context) -> Iterator[Reading]:
    """Each budget, over the loopback addresses; one instance over its transit addresses, and then what the loopback ones cost."""
    count = int(context.subject.parameters["instances"])
    with context.link() as link:
        loopback, transit = context.ends(link), context.ends(replace(link, addresses=TRANSIT))
        for budget in context.parameters["budgets"]:
            with limited(link.pids if budget else (), budget):
                ends = loopback if count > 1 else transit
                carried = carry(context.parameters["traffic"], ends, context.seconds, partial(cost, link.pids), times=count)
                yield from _readings(context, link, carried, _parameters(context, budget))
        if count == 1:
            yield from _loopback(context, link, loopback, transit)


def _loopback(context: Context, link: Link, loopback: tuple[End, End], transit: tuple[End, End]) -> Iterator[Reading]:
    """CPU time at a rate that leaves CPUs idle, in short turns with and without the loopback address.

    What differs between two turns is not the drift of the machine. Throughput with a budget differs too much from turn to turn.
    """
    mbit = float(context.parameters["pair_mbit"][context.subject.parameters["engine"]])
    pairs, seconds = int(context.parameters["pairs"]), float(context.parameters["pair_seconds"])
    costs: dict[bool, list[float]] = {True: [], False: []}
    commands: tuple[str, ...] = ()
    for number in range(pairs):
        turns = [(True, loopback), (False, transit)]
        for over, ends in turns if number % 2 else reversed(turns):
            carried = carry(context.parameters["traffic"], ends, seconds, link.cost, mbit=mbit)
            costs[over].append(carried.cpu_per_gbit)
            commands = carried.commands
    parameters: dict[str, Parameter] = {"traffic": context.parameters["traffic"], "mbit": mbit}
    for over, found in costs.items():
        more: dict[str, Parameter] = {"floating_ip": True} if over else {}
        yield Reading({**parameters, **more}, PACED_COST, "CPU s", "lower", statistics.mean(found), (*link.commands, *commands))
    ratios = tuple(without / over for over, without in zip(costs[True], costs[False], strict=True))
    yield Reading(parameters, FLOATING_IP_RATIO, "x", "higher", statistics.geometric_mean(ratios), distribution=ratios)


def _parameters(context: Context, budget: float) -> dict[str, Parameter]:
    return {"budget": budget, "traffic": f"{context.parameters['traffic']} per instance"}


def _readings(context: Context, link: Link, carried: Carried, parameters: dict[str, Parameter]) -> Iterator[Reading]:
    yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
    yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
    yield Reading(
        parameters, "cores used per instance", "cores", "lower", carried.cost.processes / carried.seconds / len(link.pids)
    )
