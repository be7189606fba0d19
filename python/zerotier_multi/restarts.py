"""Restarts several instances of a bundle so that it goes on carrying: one after the other, each drained before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from zerotier_multi import systemd
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.plan import InstancePlan

PATIENCE = 10.0  # seconds that an instance gets to carry again before the next one goes
_POLL = 0.1


def paths_up(bundle: str) -> dict[int, set[tuple[str, int]]]:
    """(remote, family) of the paths that carry traffic, by instance; one without such a path is left out.

    Raises :class:`PathdError`.
    """
    bundles = ask({"op": "status"})["bundles"]
    if bundle not in bundles:
        raise PathdError(f"zerotier-pathd does not know {bundle}")
    found: dict[int, set[tuple[str, int]]] = {}
    for path in bundles[bundle]["paths"]:
        if path["state"] == "up":
            found.setdefault(path["instance"], set()).add((path["remote"], path["family"]))
    return found


def restart(bundle: str, instances: Sequence[InstancePlan]) -> None:
    """Restart these instances; those that carry go one by one, and the last one is not waited for.

    When one does not carry again in time, the far end needs the same change perhaps. Then all others go at once, because
    waiting would keep nothing. Raises PathdError and SystemdError.
    """
    before = paths_up(bundle)
    _go([instance for instance in instances if instance.number not in before])
    left = [instance for instance in instances if instance.number in before]
    while left:
        one = left.pop(0)
        _go([one])
        if left and not wait(lambda number=one.number: before[number] <= paths_up(bundle).get(number, set()), PATIENCE):
            _go(left)
            return


def _go(instances: Sequence[InstancePlan]) -> None:
    if instances:
        # Drained until the device is another one, so none of its paths is up before it is back.
        ask({"op": "drain", "devices": [instance.device for instance in instances]})
        systemd.systemctl("restart", "--no-block", *(instance.unit for instance in instances))


def wait(look: Callable[[], bool], patience: float) -> bool:
    """Look until it is so; False when it is not after ``patience`` seconds."""
    end = time.monotonic() + patience
    while not look():
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL)
    return True
