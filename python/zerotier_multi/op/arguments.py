"""What op mode scripts are called with."""

from __future__ import annotations

from collections.abc import Iterable


def with_values(arguments: Iterable[str]) -> list[str]:
    """Arguments of which none has ``--`` alone as its value: argparse takes that for no value and gives an empty list (Python < 3.13)."""
    return [f"{argument} " if argument.endswith("=--") else argument for argument in arguments]
