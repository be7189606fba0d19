"""What the product has made of a configuration on a router, to be compared with what it has made at another time."""

from __future__ import annotations

import difflib
import math
import time
from pathlib import Path

from lab.process import LabError
from lab.router import Router

Fingerprint = dict[str, list[str]]  # section -> sorted lines

_INSIDE = Path(__file__).with_name("fingerprint_inside.py")
_PAUSE = 0.3  # seconds between two looks
_LOOKS = 3  # so many in a row must be equal
# Seconds in which they are: where all paths are up, or none is to be, nothing more will come. Else one may still come up, once the
# engines have found each other again.
_STILL, _STILL_WITH_SILENT_PATHS = 1.0, 6.0
_PASSING = ("is held down", "is drained")  # states of paths that end by themselves
_LONGEST = 1500  # characters of a line that are shown


def fingerprint(router: Router) -> Fingerprint:
    """Look at a router once."""
    return dict(router.json(["/usr/bin/python3", "-c", _INSIDE.read_text()]))


def settled(router: Router, timeout: float = 120.0) -> Fingerprint:
    """Look until nothing changes any more; ``timeout`` in seconds. Raises :class:`LabError` with what still did."""
    end = time.monotonic() + timeout
    last, looks, since, changes = fingerprint(router), 1, time.monotonic(), ""
    while looks < _LOOKS or time.monotonic() - since < _still(last):
        if time.monotonic() >= end:
            paths = "\n".join(_paths(last))
            raise LabError(f"{router.name}: not settled after {timeout:g} s; what changed last, and the paths:\n{changes}\n{paths}")
        time.sleep(_PAUSE)
        now = fingerprint(router)
        if now == last:
            looks += 1
        else:
            looks, since, changes = 1, time.monotonic(), differences(last, now)
        last = now
    return last


def differences_left(router: Router, wanted: Fingerprint, timeout: float) -> str:
    """Wait until a router has settled to be as ``wanted``; how it still differs after ``timeout`` seconds, empty where it does not."""
    end = time.monotonic() + timeout
    while (found := differences(wanted, settled(router))) and time.monotonic() < end:
        pass
    return found


def _paths(found: Fingerprint) -> list[str]:
    return [line for line in found["states"] if " path " in line]


def _still(found: Fingerprint) -> float:
    """How long a router has to be like this for it to stay so."""
    paths = _paths(found)
    if any(path.endswith(_PASSING) for path in paths):
        return math.inf
    return _STILL if all(path.endswith(("is up", "is backup")) for path in paths) else _STILL_WITH_SILENT_PATHS


def differences(before: Fingerprint, after: Fingerprint) -> str:
    """The lines in which two differ, with ``-`` those that have gone and with ``+`` those that have come; empty for equal ones."""
    found = []
    for section in sorted({*before, *after}):
        lines = difflib.unified_diff(before.get(section, []), after.get(section, []), lineterm="", n=0)
        changed = [line[:_LONGEST] for line in list(lines)[2:] if not line.startswith("@@")]
        found += [f"## {section}", *changed] if changed else []
    return "\n".join(found)
