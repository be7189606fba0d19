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
    """Each budget (0: none) to the floating addresses; one instance also to its transit addresses, which is what counts for it."""
    traffic = context.parameters["traffic"]
    with context.link() as link:
        targets: list[tuple[dict[str, Parameter], tuple[End, End]]] = [({}, context.ends(link))]
        if int(context.subject.parameters["instances"]) == 1:
            here, there = (End(place, address) for place, address in zip(context.site.places, TRANSIT, strict=True))
            targets = [({}, (here, there)), ({"floating_ip": True}, context.ends(link))]
            if context.round % 2:  # what is compared takes turns
                targets.reverse()
        for budget in context.parameters["budgets"]:
            for more, ends in targets:
                parameters = {"budget": budget, "traffic": traffic, **more}
                with limited(link.pids if budget else (), budget):
                    carried = carry(traffic, ends, context.seconds, link.cost)
                yield context.main(carried.mbit, parameters, (*link.commands, *carried.commands))
                yield Reading(parameters, "cpu per Gbit", "CPU s", "lower", carried.cpu_per_gbit)
                used = carried.cost.processes / carried.seconds / len(link.pids)
                yield Reading(parameters, "cores used per instance", "cores", "lower", used)
