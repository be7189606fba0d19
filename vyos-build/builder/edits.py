"""Small changes to other people's files: each with its reason, each at a place that must be there exactly once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import BuildError


@dataclass(frozen=True)
class Edit:
    """One change: where ``anchor`` (a regular expression, ``^`` and ``$`` at lines) is, ``replacement`` comes."""

    path: str
    reason: str
    anchor: str
    replacement: str


def apply(edit: Edit, text: str) -> str:
    """The text with the edit made; raises :class:`BuildError` unless its place is found exactly once."""
    changed, found = re.subn(edit.anchor, edit.replacement, text, flags=re.MULTILINE)
    if found != 1:
        raise BuildError(
            f"{edit.path}: the place where {edit.reason} was found {found} times instead of once; "
            f"correct the anchor {edit.anchor!r} for this version"
        )
    return changed
