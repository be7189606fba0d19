"""Settings below /proc/sys: those of a member device, and the few of the whole router.

Router-wide settings are raised while a bundle needs them and put back afterwards; what they were is kept in
a file, so that a daemon started anew still knows it.

What somebody else sets meanwhile is what counts afterwards, and where that is the value that is held anyway there is nothing to put
back. Of such a write only inotify tells, and not of one while no daemon runs. VyOS makes none: it leaves a setting alone that
has the value already. So a commit says what VyOS's own configuration wants (:meth:`Sysctls.configured`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from zerotier_multi import memory
from zerotier_multi.plan import Plan

HASH_POLICIES = ("net/ipv4/fib_multipath_hash_policy", "net/ipv6/fib_multipath_hash_policy")
# The same on every router, so that both ends hash a flow alike; kernels from 6.11 have it. Only for routes of ours: of two
# routers in a row that both spread by routes of FRR, the second would have all flows that the first sends it on one path.
HASH_SEED, SEED = "net/ipv4/fib_multipath_hash_seed", "2054422528"
RP_FILTER_ALL = "net/ipv4/conf/all/rp_filter"
MUTE = {4: "net/ipv4/icmp_echo_ignore_all", 6: "net/ipv6/icmp/echo_ignore_all"}  # by address family
_UNMUTE = {4: " (VyOS: delete firewall global-options all-ping)", 6: ""}
GLOBAL = (*HASH_POLICIES, HASH_SEED)
_RP_FILTER = re.compile(r"net/ipv4/conf/[^/]+/rp_filter")  # of an uplink that others use too


class Sysctls:
    """Reads and writes settings, and remembers what the router-wide ones were before us."""

    def __init__(self, path: Path, root: Path = Path("/proc/sys")) -> None:
        self._memory, self._root = path, root
        self._before = self._load()
        self._ours: dict[str, str] = {}  # values that are held
        self._own_writes: set[str] = set()  # of which there will be an event yet

    def read(self, name: str) -> str | None:
        """Value of a setting, or None where this kernel has none of that name."""
        try:
            return (self._root / name).read_text().strip()
        except OSError:
            return None

    def mute(self) -> frozenset[int]:
        """Address families in which this router answers no echo requests."""
        return frozenset(family for family, name in MUTE.items() if self.read(name) not in (None, "0"))

    def path(self, name: str) -> Path:
        """File of a setting."""
        return self._root / name

    def apply(self, settings: Mapping[str, str]) -> list[str]:
        """Set what differs; a sentence for each that cannot be set. A setting that does not exist is left out."""
        problems = []
        for name, value in settings.items():
            found = self.read(name)
            if found is not None and found != value:
                problems += self._write(name, value)
        return problems

    def hold(self, settings: Mapping[str, str], *, keep: bool = False) -> tuple[list[str], list[str]]:
        """Hold router-wide settings at these values and give back those no longer named, unless ``keep``.

        Returns problems, and a sentence for each setting that somebody else had changed under us.
        """
        problems, drifted = [], []
        for name in [name for name in self._before if name not in settings and not keep]:
            if self.read(name) == self._ours.get(name, self.read(name)):
                problems += self._write(name, self._before[name])
            del self._before[name]
        self._ours = {name: value for name, value in self._ours.items() if name in settings}
        for name, value in settings.items():
            found, held = self.read(name), self._ours.get(name)
            if found is None:
                continue
            if found != value:
                if held == value:
                    drifted.append(f"{name.replace('/', '.')} was set to {found} by another program; it is {value} again")
                if name not in self._before or held not in (None, found):
                    self._before[name] = found
                problems += self._save()  # first: what it was must be known to whoever comes after us
                problems += self._write(name, value)
            self._ours[name] = value
        problems += self._save()
        return list(dict.fromkeys(problems)), drifted

    def written(self, files: Collection[Path]) -> None:
        """These files were written since the last call, by whomever.

        A setting that another program has given the value that is held anyway is no longer ours to put back. One that it
        writes in the moment after this daemon has cannot be told from that.
        """
        for name in GLOBAL:
            if self.path(name) not in files:
                continue
            if name in self._own_writes:
                self._own_writes.discard(name)
            elif name in self._before and self.read(name) == self._ours.get(name):
                del self._before[name]

    def configured(self, settings: Mapping[str, str]) -> None:
        """The router's own configuration wants these values, whatever bundles need; only router-wide settings count."""
        self._before |= {name: settings[name] for name in self._before if name in GLOBAL and name in settings}

    def _write(self, name: str, value: str) -> list[str]:
        try:
            (self._root / name).write_text(value)
        except OSError as error:
            return [f"sysctl {name.replace('/', '.')} cannot be set to {value} ({error.strerror})"]
        if name in GLOBAL:
            self._own_writes.add(name)
        return []

    def _load(self) -> dict[str, str]:
        held = memory.load(self._memory).items()
        return {k: v for k, v in held if isinstance(v, str) and (k in GLOBAL or _RP_FILTER.fullmatch(k))}

    def _save(self) -> list[str]:
        return memory.store(self._memory, self._before) if self._before or self._memory.exists() else []


def router_wide(plans: Iterable[Plan]) -> dict[str, str]:
    """Router-wide settings that the plans need: none while every bundle has one instance."""
    spreading = [plan for plan in plans if plan.hash_policy is not None]
    if not spreading:
        return {}
    policies = dict.fromkeys(HASH_POLICIES, str(spreading[0].hash_policy))
    return {**policies, HASH_SEED: SEED} if any(plan.routes for plan in spreading) else policies


def mute_notes(plans: Iterable[Plan], mute: Collection[int]) -> list[str]:
    """A sentence for each address family whose echo requests the kernel ignores although other routers probe by them."""
    probed = {path.family for plan in plans if plan.health.enabled for path in plan.paths}
    return [
        f"sysctl {MUTE[family].replace('/', '.')} is 1: other routers see their paths to this one only while zerotier-pathd runs "
        f"here and answers instead of the kernel; set it to 0{_UNMUTE[family]}"
        for family in sorted(probed.intersection(mute))
    ]
