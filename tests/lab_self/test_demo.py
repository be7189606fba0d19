"""What the demo reads of its surroundings."""

from __future__ import annotations

import pytest

from lab.demo import commit_limit
from lab.process import LabError


def test_the_limit_of_a_commit() -> None:
    assert commit_limit("2") == 2.0
    for text in ("abc", "", "0", "-1", "nan", "inf"):
        with pytest.raises(LabError, match=f"^ZTM_COMMIT_LIMIT={text} is not a number of seconds; give one above 0, such as 2$"):
            commit_limit(text)
