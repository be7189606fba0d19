"""Memory and CPU time, idle and under load, as the field's comparison took them (PSS, available memory, CPU s per minute)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.ends import available, pss
from bench.measure.common import Context, Reading
from bench.traffic import KINDS, Senders


def measure(context: Context) -> Iterator[Reading]:
    """Before the subject starts, idle, and in the middle of traffic."""
    at_rest = available()
    with context.link() as link:
        for load in ("idle", str(context.parameters["traffic"])):
            parameters = {"load": load}
            senders = Senders(KINDS[load], *context.ends(link), context.seconds + 1) if load != "idle" else None
            try:
                before, begin = link.cost(), time.monotonic()
                time.sleep(context.seconds)  # the length of the measurement
                spent, seconds = link.cost().since(before), time.monotonic() - begin
                lost = at_rest - available()
                size = pss(link.processes)
                if senders:
                    senders.end()
            finally:
                if senders:
                    senders.kill()
            if link.pids:
                yield Reading(parameters, "PSS", "MB", "lower", size, link.commands)
                yield Reading(parameters, "cpu per minute", "CPU s", "lower", spent.processes * 60 / seconds)
            yield Reading(parameters, "cpu per minute of the machine", "CPU s", "lower", spent.machine * 60 / seconds)
            yield Reading(parameters, "available memory lost", "MB", "lower", lost)
