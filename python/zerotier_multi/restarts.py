"""Restarts several instances of a bundle so that it goes on carrying: one after the other, each drained before."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from zerotier_multi import systemd
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.plan import InstancePlan

PATIENCE = 10.0  # seconds that an instance gets to carry again before the next one goes
_POLL = 0.1


def paths_up(bundle: str, instance: int) -> set[tuple[str, int]]:
    """(remote, family) of the paths of an instance that carry traffic.

    Raises :class:`PathdError`.
    """
    bundles = ask({"op": "status"})["bundles"]
    if bundle not in bundles:
        raise PathdError(f"zerotier-pathd does not know {bundle}")
    return {(p["remote"], p["family"]) for p in bundles[bundle]["paths"] if p["instance"] == instance and p["state"] == "up"}


def restart(bundle: str, instances: Sequence[InstancePlan]) -> None:
    """Restart these instances; those that carry go one by one, and the last one is not waited for.

    When one does not carry again in time, the far end needs the same change perhaps. Then all others go at once, because
    waiting would keep nothing. Raises PathdError and SystemdError.
    """
    before = {instance: paths_up(bundle, instance.number) for instance in instances}
    _go([instance for instance in instances if not before[instance]])
    left = [instance for instance in instances if before[instance]]
    while left:
        one = left.pop(0)
        _go([one])
        if left and not _back(bundle, one.number, before[one]):
            _go(left)
            return


def _go(instances: Sequence[InstancePlan]) -> None:
    if instances:
        # Drained until the device is another one, so none of its paths is up before it is back.
        ask({"op": "drain", "devices": [instance.device for instance in instances]})
        systemd.systemctl("restart", "--no-block", *(instance.unit for instance in instances))


def _back(bundle: str, instance: int, before: Collection[tuple[str, int]]) -> bool:
    end = time.monotonic() + PATIENCE
    while not paths_up(bundle, instance).issuperset(before):
        if time.monotonic() >= end:
            return False
        time.sleep(_POLL)
    return True
