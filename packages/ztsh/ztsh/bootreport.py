"""What could not be applied at boot, as :mod:`ztsh.boot` has left it for users."""

from __future__ import annotations

from ztsh import places

# The report until all of the saved configuration has been tried.
BOOTING = "the saved configuration is not applied yet; wait, or run: systemctl restart ztsh-boot"


def boot_warning() -> str:
    """A line for each, for a user who may configure; empty when there is nothing to say."""
    return "".join(f"Warning: at boot: {line}\n" for line in _lines())


def is_booting() -> bool:
    """Whether the saved configuration is still being applied, or boot was ended in the middle of it."""
    return _lines()[:1] == [BOOTING]


def _lines() -> list[str]:
    try:
        return places.boot_report().read_text(errors="replace").splitlines()
    except OSError:
        return []
