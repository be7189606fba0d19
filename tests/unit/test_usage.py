"""What processes use, out of /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from zerotier_multi.usage import cpu_seconds


def test_cpu_seconds_are_those_of_user_and_system_whatever_the_name(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text(f"1 (a) b) S 1 1 1 0 -1 0 0 0 0 0 {3 * ticks} {ticks} 0 0")
    assert cpu_seconds(tmp_path) == 4


def test_a_process_that_has_ended_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="stat"):
        cpu_seconds(tmp_path)
