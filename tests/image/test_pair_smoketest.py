"""The smoketest that the image carries, on a router of its own kernel."""

from __future__ import annotations

import re

import pytest

from lab.edition import Edition
from tests.image.ends import End

pytestmark = pytest.mark.long


def test_the_installed_smoketest(pair: list[End], edition: Edition) -> None:
    """On R2, whose bundle it stops meanwhile."""
    if edition.name == "vyos":
        pytest.skip("test_vyos.py runs it on the installed image")
    r2 = pair[1]
    text = r2.person.smoketest()
    assert len(re.findall(r"^OK", text, re.MULTILINE)) == 2, text[-4000:]
