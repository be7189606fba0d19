"""The pinned revisions and versions of ``pins.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError
from builder.places import PINS


@dataclass(frozen=True)
class EnginePin:
    """The zerotier-one package: which one, from where, and who has signed it."""

    version: str
    repository: str
    suite: str
    key: str
    fingerprint: str
    sha256: str


@dataclass(frozen=True)
class Pins:
    """All of ``pins.toml``."""

    vyos_1x: str
    zerotier_one: EnginePin


def read_pins(path: Path = PINS) -> Pins:
    """The pins of a file; raises :class:`BuildError` when it is not as it should be."""
    try:
        tree = tomllib.loads(path.read_text())
        return Pins(tree["vyos-1x"]["revision"], EnginePin(**tree["zerotier-one"]))
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise BuildError(f"{path} cannot be used ({error}); restore it from the repository") from None
