"""The answer of a run for people: a table, sentences, and lines to paste."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zerotier_multi.op.table import clean, dash, percent, table, wrap

_HEADERS = [
    "Inst-\nances",
    "Received\nMbit/s",
    "Lost\n%",
    "CPU s per\nGbit here",
    "\nthere",
    "Fullest\nCPU here",
    "\nthere",
    "\nLimit",
]


def text(data: Mapping[str, Any]) -> str:
    """All of it."""
    rows = [_row(step) for step in data["steps"]]
    parts = [
        f"{data['bundle']}, {clean(data['router'])} to {clean(data['remote'])}, TCP",
        table(_HEADERS, rows, "rrrrrrrl"),
        "\n".join(line for sentence in data["sentences"] for line in wrap(clean(sentence))),
        *(
            f"At {clean(name)}:\n" + "\n".join(map(clean, lines))
            for name, lines in ((data["router"], data["commands"]), (data["remote"], data["remote_commands"]))
            if lines
        ),
    ]
    if not data["commands"] and not data["remote_commands"]:
        parts.append("Nothing needs to be changed.")
    elif any(" instances " in line for line in (*data["commands"], *data["remote_commands"])):
        more = data["instances"] > max(step["instances"] for step in data["steps"])
        parts.append(f"Both routers need the same number of instances{', and the identities of new ones' if more else ''}.")
    return "\n\n".join(parts)


def _row(step: Mapping[str, Any]) -> list[str]:
    here, there = step["ends"]
    cells = [str(step["instances"]), f"{step['received_mbit']:.0f}", percent(step["lost"])]
    cells += [dash(end["cpu_seconds_per_gbit"]) for end in (here, there)]
    cells += [
        "-" if end["fullest_cpu"] is None else f"{end['fullest_cpu']}: {end['fullest_cpu_percent']:.0f} %" for end in (here, there)
    ]
    return [*cells, str(step["limit"])]
