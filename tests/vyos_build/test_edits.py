"""Edits of other people's files: the place is there once, or the edit is refused."""

from __future__ import annotations

import pytest
from builder.edits import Edit, apply
from builder.errors import BuildError

EDIT = Edit("a/file", "the word goes", r"^here$", r"\g<0>\nnew")


def test_found_once() -> None:
    assert apply(EDIT, "before\nhere\nafter\n") == "before\nhere\nnew\nafter\n"


@pytest.mark.parametrize(("text", "times"), [("before\n", 0), ("here\nhere\n", 2), ("not here\n", 0)])
def test_found_otherwise(text: str, times: int) -> None:
    with pytest.raises(BuildError) as refused:
        apply(EDIT, text)
    assert str(refused.value) == (
        f"a/file: the place where the word goes was found {times} times instead of once; "
        "correct the anchor '^here$' for this version"
    )
