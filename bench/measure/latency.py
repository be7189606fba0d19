"""Round-trip times, idle and while traffic goes the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.ends import End
from bench.figures import percentile
from bench.measure.common import Context, Reading
from bench.traffic import KINDS, Senders
from lab.process import LabError

INTERVAL = 0.01  # seconds between two echo requests


def measure(context: Context) -> Iterator[Reading]:
    """Idle, then under each kind of traffic."""
    with context.link() as link:
        here, there = context.ends(link)
        for load in ("idle", *context.parameters["traffic"]):
            senders = Senders(KINDS[load], here, there, context.seconds + 2) if load != "idle" else None
            try:
                sent, times = ping(here, there, context.seconds)
                if senders:
                    senders.end()
            finally:
                if senders:
                    senders.kill()
            yield Reading({"load": load}, "latency", "ms", "lower", percentile(times, 0.5), link.commands, times)
            yield Reading({"load": load}, "latency p99", "ms", "lower", percentile(times, 0.99))
            yield Reading({"load": load}, "echoes lost", "%", "lower", 100 * (1 - len(times) / sent))


def ping(here: End, there: End, seconds: float) -> tuple[int, tuple[float, ...]]:
    """Echo requests sent, and the round-trip times of their answers in ms. Raises :class:`LabError` without any."""
    count = int(seconds / INTERVAL)
    command = ["ping", "-c", str(count), "-i", str(INTERVAL), "-W", "1", "-I", here.address, there.address]
    text = here.place.run(command, check=False, timeout=seconds * 5 + 20).stdout
    times = round_trips(text)
    if not times:
        raise LabError(f"no echo from {there.address}: {text[-200:]}")
    return count, times


def round_trips(text: str) -> tuple[float, ...]:
    """The times (ms) of an output of ping."""
    return tuple(float(found) for found in re.findall(r" time=([\d.]+) ms", text))
