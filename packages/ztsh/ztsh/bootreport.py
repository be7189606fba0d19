"""What could not be applied at boot, as :mod:`ztsh.boot` has left it for users."""

from __future__ import annotations

from ztsh import places


def boot_warning() -> str:
    """A line for each, for a user who may configure; empty when there is nothing to say."""
    try:
        lines = places.boot_report().read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"Warning: at boot: {line}\n" for line in lines)
