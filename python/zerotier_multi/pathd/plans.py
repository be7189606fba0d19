"""The published plans as the daemon holds them: the last good one of each bundle."""

from __future__ import annotations

from pathlib import Path

from zerotier_multi import names
from zerotier_multi.plan import Plan
from zerotier_multi.plans import read_plans


class Plans:
    """Reads the plan files; a broken one never replaces a good one that was read before."""

    def __init__(self, directory: Path = names.RUN_DIR) -> None:
        self._directory = directory
        self._good: dict[str, Plan] = {}
        self.problems: list[str] = []

    def load(self) -> list[Plan]:
        """All plans, bundles in order; :attr:`problems` says which files could not be used."""
        published = read_plans(self._directory)
        kept = {bundle: self._good[bundle] for bundle in published.faults if bundle in self._good}
        self.problems = [
            f"plan {self._directory / bundle}.json is unusable: {fault}; "
            f"{'the last good one stays in force' if bundle in kept else 'it is left out'}; commit again to replace it"
            for bundle, fault in published.faults.items()
        ]
        self._good = {**published.plans, **kept}
        return [self._good[bundle] for bundle in sorted(self._good, key=names.bundle_number)]
