"""What the loopback address of a bundle costs, beside the transit addresses of its instance."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

from bench.echoes import added, exchange
from bench.measure.common import Context, Reading
from bench.ours import FIRST_TRANSIT
from bench.results import LOOPBACK_COST, ROUND_TRIP, Parameter
from bench.traffic import carry


def measure(context: Context) -> Iterator[Reading]:
    """What the loopback address adds to a datagram, as a share of the CPU time that the machine spends on one.

    A round trip is two datagrams. All that is done for it takes its turn, so what a round trip takes longer is CPU time.
    """
    size, turns, block = (int(context.parameters[name]) for name in ("bytes", "turns", "block"))
    parameters: dict[str, Parameter] = {"bytes": size}
    with context.link() as link:
        loopback, transit = context.ends(link), context.ends(replace(link, addresses=FIRST_TRANSIT))
        flood = carry(f"udp-{size}", transit, context.seconds, link.cost)
        trips = exchange(transit, loopback, turns, size)
    per_datagram = flood.cpu_per_gbit * size * 8 / 1e9  # seconds
    shares = tuple(longer / 2 / 1e9 / per_datagram for longer in added(trips, block))
    for which, to in enumerate(("transit", "loopback")):
        median = statistics.median(trip[which] for trip in trips) / 1e3
        yield Reading({**parameters, "to": to}, ROUND_TRIP, "µs", "lower", median, link.commands)
    yield Reading(parameters, "cpu per datagram", "µs", "lower", per_datagram * 1e6, flood.commands)
    yield Reading(parameters, LOOPBACK_COST, "of the CPU time", "lower", statistics.mean(shares), distribution=shares)
