"""Restarts instances of a bundle so that it goes on carrying: one after the other, each drained before.

A commit and op mode's ``restart`` both go this way. They differ in what they wait for and in what follows when an
instance is not back in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from zerotier_multi import systemd
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.plan import InstancePlan
from zerotier_multi.states import WORKING

PATIENCE = 10.0  # seconds that an instance gets to carry again before the next one goes
_POLL = 0.01, 0.1  # seconds between two looks: at first, and at most

IsBack = Callable[[], bool]


def paths_up(bundle: str) -> dict[int, set[tuple[str, int]]]:
    """(remote, family) of the paths that work, by instance; one without such a path is left out.

    Raises :class:`PathdError`.
    """
    bundles = ask({"op": "status"})["bundles"]
    if bundle not in bundles:
        raise PathdError(f"zerotier-pathd does not know {bundle}")
    found: dict[int, set[tuple[str, int]]] = {}
    for path in bundles[bundle]["paths"]:
        if path["state"] in WORKING:
            found.setdefault(path["instance"], set()).add((path["remote"], path["family"]))
    return found


def drain(instances: Sequence[InstancePlan]) -> None:
    """Take the paths of these out of use until their device is another one. Raises :class:`PathdError`."""
    ask({"op": "drain", "devices": [instance.device for instance in instances]})


def one_by_one(
    instances: Sequence[InstancePlan],
    watch: Callable[[InstancePlan], IsBack],
    restart_one: Callable[[InstancePlan], None],
    patience: float,
) -> Iterator[tuple[InstancePlan, float | None]]:
    """Restart one, wait until it is back, then the next; each with the seconds that took, None when not in time.

    ``watch`` looks at an instance before its restart and returns what tells that it is back. The caller stops when it
    takes no more of them.
    """
    for instance in instances:
        is_back = watch(instance)
        begin = time.monotonic()
        restart_one(instance)
        yield instance, time.monotonic() - begin if wait(is_back, patience) else None


def restart(bundle: str, instances: Sequence[InstancePlan]) -> None:
    """Restart these instances; those that carry go one by one, and the last one is not waited for.

    When one does not carry at all in time, the far end needs the same change perhaps. Then all others go at once, because
    waiting would keep nothing. A remote alone that does not come back is not waited for again, because the others would lose
    their paths. Raises PathdError and SystemdError.
    """
    before = paths_up(bundle)
    _restart_all([instance for instance in instances if instance.number not in before])
    left = [instance for instance in instances if instance.number in before]

    lost: set[tuple[str, int]] = set()

    def watch(instance: InstancePlan) -> IsBack:
        return lambda: before[instance.number] - lost <= paths_up(bundle).get(instance.number, set())

    for instance, seconds in one_by_one(left[:-1], watch, lambda instance: _restart_all([instance]), PATIENCE):
        del left[0]
        if seconds is None:
            back = paths_up(bundle).get(instance.number)
            if not back:
                break
            lost |= before[instance.number] - back
    _restart_all(left)


def _restart_all(instances: Sequence[InstancePlan]) -> None:
    if instances:
        drain(instances)
        systemd.start_again([instance.unit for instance in instances])


def wait(look: IsBack, patience: float) -> bool:
    """Look until it is so; False when it is not after ``patience`` seconds."""
    end = time.monotonic() + patience
    pause, most = _POLL
    while not look():
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, most)
    return True
