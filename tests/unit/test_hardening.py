"""The threat model names a test for every promise; each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [line for line in (ROOT / "docs/hardening.md").read_text().splitlines() if re.search(r"`test_\w+`", line)]


def _named() -> list[tuple[str, str]]:
    found, file = [], ""
    for row in ROWS:
        named = re.findall(r"`(\w+/test_\w+\.py)`", row)
        assert len(named) == 1, f"one file in: {row}"
        file = named[0]
        found += [(file, name) for name in re.findall(r"`(test_\w+)`", row)]
    return found


@pytest.mark.parametrize(("file", "name"), _named())
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE)


def test_many_are_named() -> None:
    assert len(_named()) > 30
