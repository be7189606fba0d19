"""Where an instance spends its time: stacks of all its threads under load, by perf, with the kernel's side where that is allowed."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.measure.common import Context, Reading
from bench.peers.common import Unavailable
from bench.traffic import KINDS, Senders
from lab.process import run

FREQUENCY = 499  # samples per second and thread; no divisor of a timer's
_FRAME = re.compile(r"^\s+[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \((.*)\)$")


def measure(context: Context) -> Iterator[Reading]:
    """Stacks of both ends' processes in the middle of traffic."""
    perf = shutil.which("perf")
    if not perf:
        raise Unavailable("perf is not installed; apt-get install linux-perf")
    traffic = context.parameters["traffic"]
    with context.link() as link, tempfile.TemporaryDirectory() as directory:
        senders = Senders(KINDS[traffic], *context.ends(link), context.seconds + 2)
        try:
            record = [perf, "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-g", "-p", ",".join(map(str, link.pids))]
            record += ["-o", f"{directory}/data", "--", "sleep", f"{context.seconds:g}"]
            run(record, timeout=context.seconds + 60)
            mbit, _ = senders.end()
        finally:
            senders.kill()
        script = [perf, "script", "-i", f"{directory}/data", "-F", "comm,ip,sym,dso"]
        stacks = fold(run(script, timeout=120).stdout)
    yield Reading(
        {"traffic": traffic}, context.plan.metric, context.plan.unit, context.plan.better, mbit, (" ".join(record),), stacks=stacks
    )


def fold(text: str) -> str:
    """Folded stacks out of what ``perf script -F comm,ip,sym,dso`` prints: callers first, frames of the kernel end in ``_[k]``."""
    counts: Counter[str] = Counter()
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        frames = [_named(found[1], found[2]) for line in lines[1:] if (found := _FRAME.match(line))]
        if frames:
            counts[";".join([lines[0].split()[0], *reversed(frames)])] += 1
    return "\n".join(f"{stack} {count}" for stack, count in sorted(counts.items()))


def _named(symbol: str, place: str) -> str:
    name = symbol.partition("(")[0].replace(";", ",").replace(" ", "") or symbol
    if name == "[unknown]":
        name = f"[{Path(place).name}]"
    return f"{name}_[k]" if place.startswith(("[kernel", "[guest.kernel")) else name
