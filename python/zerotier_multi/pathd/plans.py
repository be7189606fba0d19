"""The published plans as the daemon holds them: the last good one of each bundle."""

from __future__ import annotations

from pathlib import Path

from zerotier_multi import names
from zerotier_multi.plan import Plan, PlanError, from_json


class Plans:
    """Reads the plan files; a broken one never replaces a good one that was read before."""

    def __init__(self, directory: Path = names.RUN_DIR) -> None:
        self._directory = directory
        self._good: dict[str, Plan] = {}
        self.problems: list[str] = []

    def load(self) -> list[Plan]:
        """All plans, bundles in order; :attr:`problems` says which files could not be used."""
        self.problems = []
        found: dict[str, Plan] = {}
        for path in sorted(self._directory.glob("zt*.json")):
            try:
                plan = from_json(path.read_text())
                if plan.bundle != path.stem:
                    raise PlanError(f"it is the plan of {plan.bundle}")
                found[path.stem] = plan
            except (OSError, UnicodeDecodeError, PlanError) as error:
                kept = "the last good one stays in force" if path.stem in self._good else "it is left out"
                self.problems.append(f"plan {path} is unusable: {error}; {kept}; commit again to mend it")
                if path.stem in self._good:
                    found[path.stem] = self._good[path.stem]
        self._good = found
        return [found[bundle] for bundle in sorted(found, key=names.bundle_number)]
