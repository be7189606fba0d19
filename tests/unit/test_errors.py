"""What a refusal looks like by the time it reaches VyOS."""

from __future__ import annotations

import pytest
from zerotier_multi.commit import CommitError
from zerotier_multi.errors import ConfigProblems, Problem
from zerotier_multi.values import shown


def test_a_sentence_has_as_many_bytes_as_characters() -> None:
    """vyos-configd counts characters and sends bytes, so the end of any other sentence is lost."""
    told = str(ConfigProblems([Problem("interfaces zerotier zt0 planet", "/config/münchen is not a file; give its path")]))
    assert told == r"interfaces zerotier zt0 planet: /config/m\xfcnchen is not a file; give its path"
    assert str(CommitError("interfaces zerotier zt0: Gerät fehlt")) == r"interfaces zerotier zt0: Ger\xe4t fehlt"


@pytest.mark.parametrize(("value", "wanted"), [("a" * 60, "a" * 60), ("a" * 61, "a" * 12 + "..."), ("a\x1b[2J", "a?[2J")])
def test_a_long_value_is_cut_in_ascii(value: str, wanted: str) -> None:
    assert shown(value) == wanted
