"""The published plans, read from their files: the one reader for commits, zerotier-pathd and op mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.plan import Plan, PlanError, from_json


@dataclass(frozen=True)
class Published:
    """What the directory of the plans holds."""

    plans: Mapping[str, Plan]  # by bundle
    faults: Mapping[str, str] = field(default_factory=dict)  # bundle -> why its file cannot be used


def read_plan(bundle: str, directory: Path | None = None) -> Plan:
    """The published plan of a bundle. Raises OSError when it cannot be read, ValueError when it cannot be used."""
    names.bundle_number(bundle)
    try:
        plan = from_json(((directory or names.RUN_DIR) / f"{bundle}.json").read_text())
    except UnicodeDecodeError as error:
        raise PlanError(str(error)) from None
    if plan.bundle != bundle:
        raise PlanError(f"it is the plan of {plan.bundle}")
    return plan


def read_plans(directory: Path | None = None) -> Published:
    """All published plans, and what is wrong with those that cannot be used."""
    plans, faults = {}, {}
    for path in sorted((directory or names.RUN_DIR).glob("zt*.json")):
        try:
            plans[path.stem] = read_plan(path.stem, path.parent)
        except (OSError, ValueError) as error:
            faults[path.stem] = str(error)
    return Published(plans, faults)


def published_plans() -> list[Plan]:
    """Plans in force, in the order of the bundles' numbers; an unusable file is left out: the next commit replaces it."""
    plans = read_plans().plans
    return [plans[bundle] for bundle in sorted(plans, key=names.bundle_number)]
