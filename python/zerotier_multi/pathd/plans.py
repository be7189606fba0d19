"""The published plans as the daemon holds them: the last good one of each bundle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.plan import Plan
from zerotier_multi.plans import read_plans


class Plans:
    """Reads the plan files; a broken one never replaces a good one that was read before."""

    def __init__(self, directory: Path = names.RUN_DIR, known: Iterable[str] = ()) -> None:
        """``known`` are the bundles that a daemon before this one had."""
        self._directory, self._known = directory, set(known)
        self._good: dict[str, Plan] = {}
        self.problems: list[str] = []
        self.unread: frozenset[str] = frozenset()  # bundles with a broken plan and no good one
        self.configured: dict[str, bool] = {}  # of each bundle that was ever known; False: it has been deleted

    def load(self) -> list[Plan]:
        """All plans, bundles in order; :attr:`problems` says which files could not be used."""
        published = read_plans(self._directory)
        kept = {bundle: self._good[bundle] for bundle in published.faults if bundle in self._good}
        self._good = {**published.plans, **kept}
        self.unread = frozenset(bundle for bundle in published.faults if is_bundle(bundle) and bundle not in kept)
        self._known |= self._good.keys() | self.unread
        self.configured = {
            bundle: bundle in self._good or bundle in self.unread for bundle in sorted(self._known, key=names.bundle_number)
        }
        self.problems = [self._problem(bundle, fault) for bundle, fault in published.faults.items()]
        return [self._good[bundle] for bundle in sorted(self._good, key=names.bundle_number)]

    def _problem(self, bundle: str, fault: str) -> str:
        file = self._directory / f"{bundle}.json"
        if not is_bundle(bundle):
            return f"plan {file} is unusable: {fault}; remove it with: rm {file}"
        outcome = "the last good one stays in force"
        if bundle in self.unread:
            outcome = (
                "it is left out; what stands of that bundle carries on without health checks, and nftables and settings that "
                "bundles share stay as they are"
            )
        return f"plan {file} is unusable: {fault}; {outcome}; {remedy(bundle)}"


def is_bundle(bundle: str) -> bool:
    """Whether a file of that name is a bundle's."""
    try:
        names.bundle_number(bundle)
    except ValueError:
        return False
    return True


def remedy(bundle: str) -> str:
    """How a plan is written anew. A commit without a change writes none, so it takes one that harms nothing."""
    return f"to replace it, commit a change of it, such as: set interfaces zerotier {bundle} description renewed"


def hindrances(directory: Path = names.RUN_DIR) -> list[str]:
    """Why a daemon of this version would be worse than the one that runs, for whoever installs it: a sentence for each plan."""
    faults = read_plans(directory).faults
    return [
        f"this version cannot use {directory / bundle}.json ({fault}), so zerotier-pathd goes on as the version before; "
        f"{remedy(bundle)}; then: systemctl restart {names.PATHD_UNIT}"
        for bundle, fault in faults.items()
        if is_bundle(bundle)
    ]
