"""Throughput of N instances that each have a fixed share of a core, and what the floating address costs.

A small machine has few cores, but with a tenth of a core each it has room for eight instances at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.budget import limited
from bench.ends import End
from bench.measure.common import Context, Reading
from bench.results import Parameter
from bench.traffic import carry

TRANSIT = ("10.14.0.1", "10.14.0.2")  # of instance 1


def measure(context: Context) -> Iterator[Reading]:
    """Each budget (0: none) to the floating addresses; with one instance to its transit addresses as well."""
    traffic = context.parameters["traffic"]
    with context.link() as link:
        targets = {"floating": context.ends(link)}
        if int(context.subject.parameters["instances"]) == 1:
            here, there = (End(place, address) for place, address in zip(context.site.places, TRANSIT, strict=True))
            targets["transit"] = (here, there)
            if context.round % 2:  # what is compared takes turns
                targets = dict(reversed(targets.items()))
        for budget in context.parameters["budgets"]:
            for target, ends in targets.items():
                parameters: dict[str, Parameter] = {"budget": budget, "target": target, "traffic": traffic}
                with limited(link.pids if budget else (), budget):
                    carried = carry(traffic, ends, context.seconds, link.pids)
                yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
                yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
                used = carried.cost.processes / carried.seconds / len(link.pids)
                yield Reading(parameters, "cores used per instance", "cores", "lower", used)
