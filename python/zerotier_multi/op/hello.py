"""Peers whose encrypted HELLO ztnode could not read, as sentences; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECENT_MS = 600_000  # a sender that has been silent for ten minutes is no longer named
SHOWN = 3  # node ids in a sentence; the senders are not authenticated, so there may be any number


def unread_sentence(instance: str, bundle_path: str, status: Mapping[str, Any] | None) -> str | None:
    """Who cannot be understood, out of the status of an instance such as ``zt0/1``; None when there is nobody."""
    status = status or {}
    clock, told = status.get("clock", 0), status.get("unreadHello")
    senders = [s for s in told if isinstance(s, dict)] if isinstance(told, list) else []
    recent = [str(s.get("address")) for s in senders if _recent(clock, s.get("last"))]
    if not recent:
        return None
    names = ", ".join(sorted(recent)[:SHOWN]) + (f" and {len(recent) - SHOWN} more" if len(recent) > SHOWN else "")
    return (
        f"{instance} gets encrypted HELLO from {names}, which ztnode cannot read, so there is no path; set "
        f"encryptedHelloEnabled to false there, or {bundle_path} engine zerotier-one with 1.16 or later"
    )


def _recent(clock: Any, last: Any) -> bool:
    return isinstance(clock, int) and isinstance(last, int) and clock - last <= RECENT_MS
