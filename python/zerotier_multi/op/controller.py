"""The controller of a bundle: what the daemon tells of it, as data and as text; pure."""

from __future__ import annotations

from typing import Any

from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.op.table import duration
from zerotier_multi.plan import Plan

Data = dict[str, Any]


def controller_data(snapshot: Snapshot, plan: Plan) -> Data | None:
    """The controller whose API is used, and how that stands; None where none is configured."""
    if plan.controller is None:
        return None
    told = (snapshot.pathd or {}).get("bundles", {}).get(plan.bundle, {}).get("controller") or {}
    return {
        "type": plan.controller.kind,
        "url": plan.controller.url,
        "authorize": plan.controller.authorize,
        "assign_addresses": plan.controller.assign_addresses,
        "state": told.get("state"),
        "members_done": told.get("members_done"),
        "members_total": sum(len(instance.joined) for instance in plan.instances),
        "fault": told.get("fault"),
        "checked": told.get("checked"),
        "checked_seconds": None if told.get("checked") is None else max(0, int(snapshot.now - told["checked"])),
    }


def controller_warnings(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Why members are not as configured, one sentence."""
    found = controller_data(snapshot, plan)
    if not found or not found["fault"] or plan.controller is None:
        return []
    return [f"controller {plan.controller.place} {found['fault']}; zerotier-pathd tries again"]


def controller_rows(found: Data | None) -> list[tuple[str, str]]:
    """The lines of ``show zerotier ztN``; none where no controller is configured."""
    if found is None:
        return []
    count = f"{found['members_done'] or 0} of {found['members_total']} members as configured"
    ago = f" ({duration(found['checked_seconds'])} ago)" if found["checked_seconds"] is not None else ""
    return [("Controller", f"{found['type']}: {count}{ago}" if found["state"] else f"{found['type']}: not known")]
