"""Where things stand in this repository."""

from __future__ import annotations

from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent.parent
PINS = HOUSE / "vyos-build/pins.toml"
FLAVOR = HOUSE / "vyos-build/flavor"
DEBS = HOUSE / "build/debs"
WORK = HOUSE / "build/vyos"
