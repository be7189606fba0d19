"""Throughput of N instances that each have a fixed share of a core, and what the loopback address costs.

A small machine has few cores, but with a tenth of a core each it has room for eight instances at both ends.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from bench.budget import limited
from bench.echoes import added, exchange
from bench.ends import End, cost
from bench.measure.common import Context, Reading
from bench.peers.common import Link
from bench.results import LOOPBACK_COST, ROUND_TRIP, Parameter
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
    """What the loopback address adds to a datagram, as a share of the CPU time that the machine spends on one.

    A round trip is two datagrams. All that is done for it takes its turn, so what a round trip takes longer is CPU time.
    """
    size, count, block = (int(context.parameters[name]) for name in ("echo_bytes", "echoes", "echo_block"))
    flood = carry(f"udp-{size}", transit, context.seconds, link.cost)
    per_datagram = flood.cpu_per_gbit * size * 8 / 1e9  # seconds
    turns = exchange(transit, loopback, count, size)
    longer = added(turns, block)
    shares = tuple(one / 2 / 1e9 / per_datagram for one in longer)
    parameters: dict[str, Parameter] = {"bytes": size}
    for which, more in ((0, {}), (1, {"floating_ip": True})):
        median = statistics.median(turn[which] for turn in turns) / 1e3
        yield Reading({**parameters, **more}, ROUND_TRIP, "µs", "lower", median, link.commands)
    yield Reading(parameters, "cpu per datagram", "µs", "lower", per_datagram * 1e6, flood.commands)
    yield Reading(parameters, LOOPBACK_COST, "of the CPU time", "lower", statistics.mean(shares), distribution=shares)


def _parameters(context: Context, budget: float) -> dict[str, Parameter]:
    return {"budget": budget, "traffic": f"{context.parameters['traffic']} per instance"}


def _readings(context: Context, link: Link, carried: Carried, parameters: dict[str, Parameter]) -> Iterator[Reading]:
    yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
    yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
    yield Reading(
        parameters, "cores used per instance", "cores", "lower", carried.cost.processes / carried.seconds / len(link.pids)
    )
