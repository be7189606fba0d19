"""What has happened since the daemon was started: told to whoever listens, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from zerotier_multi.pathd.tell.events import STARTS, Event, Seen, events, fresh, gone, path_cause, remembered
from zerotier_multi.pathd.tell.since import since_boot
from zerotier_multi.plan import Plan
from zerotier_multi.states import WORKING, PathState


class Chronicle:
    """Compares each look with the one before it; ``clock`` says how long a remote was gone."""

    def __init__(self, listeners: Sequence[Callable[[Event], None]], clock: Callable[[], float] = since_boot) -> None:
        self._listeners, self._clock = listeners, clock
        self._seen: Seen | None = None
        self._changes: Counter[int] = Counter()
        self._falls: Counter[int] = Counter()
        self._causes: dict[int, str] = {}
        self._revivals: Counter[tuple[str, int]] = Counter()

    def look(
        self,
        plans: Sequence[Plan],
        now: Seen,
        memory: Mapping[int, str],
        unrouted: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        """Take a look; ``memory`` and ``unrouted`` are the states of the paths and the prefixes that go elsewhere as they
        were written down before it."""
        before = remembered(plans, memory, now, unrouted) if self._seen is None else self._seen
        for path, (plan, entry) in {path.nexthop_id: (of, path) for of in plans for path in of.paths}.items():
            was, word = before.states.get(path), now.states[path]
            changed = was is not None and was != word
            self._changes[path] += changed
            self._falls[path] += was == PathState.UP and word not in (*WORKING, PathState.DRAINED)
            stood, stands = (seen.members.get(entry.device) for seen in (before, now))
            another = word != PathState.UP and (stood and stood.word) != (stands and stands.word)
            another |= word == PathState.NO_ROUTE and self._causes.get(path) != now.blocked.get(path)
            # A path that has been out of use since before the daemon was started has a cause too.
            if changed or another or (path not in self._causes and word != PathState.UP):
                self._causes[path] = path_cause(plan, entry, before if changed else Seen(), now)
        for lost in self._changes.keys() - now.states.keys():
            del self._changes[lost], self._falls[lost]
            self._causes.pop(lost, None)
        remotes = {path.nexthop_id: (plan.bundle, path.remote) for plan in plans for path in plan.paths}
        same = {path for path, remote in remotes.items() if before.remotes.get(path) == remote}
        before = replace(before, passes={path: size for path, size in before.passes.items() if path in same})
        # A path is narrow until full packets come, also while its device or its MTU is a new one.
        lasting = {path: size for path, size in before.passes.items() if path not in now.wide}
        now = replace(now, passes={**lasting, **now.passes}, fresh=fresh(before, now), remotes=remotes, at=self._clock())
        now = replace(now, gone=gone(plans, before, now))
        self._seen = now
        for event in events(plans, before, now):
            self.tell(event)

    def tell(self, event: Event) -> None:
        """Take in an event and pass it on."""
        if event.kind in STARTS and event.instance is not None:
            self._revivals[event.bundle, event.instance] += 1
        for listener in self._listeners:
            listener(event)

    def changes(self, path: int) -> int:
        """How often the state of a path has changed."""
        return self._changes[path]

    def falls(self, path: int) -> int:
        """How often a path that carried traffic has gone, other than on purpose."""
        return self._falls[path]

    def cause(self, path: int) -> str | None:
        """Why a path is in its state; None for one that has been up all the time."""
        return self._causes.get(path)

    def revivals(self, bundle: str, instance: int) -> int:
        """How often the daemon has started an instance again, after killing it too."""
        return self._revivals[bundle, instance]
