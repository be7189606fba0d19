"""What SEED= and SECONDS= of the attacks may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attack.settings import Attack, from_environment


def test_a_seed_repeats_a_run() -> None:
    assert from_environment({}) == Attack(1, False, 1800.0)
    assert from_environment({"SEED": "7", "ATTACK": "long", "SECONDS": "0.5"}) == Attack(7, True, 0.5)


def test_checked_data_has_an_amount() -> None:
    assert from_environment({"GIGABYTES": "200"}).gigabytes == 200


@pytest.mark.parametrize(
    ("name", "value"),
    [("SEED", "abc"), ("SEED", "1.5"), ("SECONDS", "nan"), ("SECONDS", "-1"), ("GIGABYTES", "0"), ("GIGABYTES", "many")],
)
def test_a_wrong_one_is_refused_in_one_sentence(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}={value} is not a .*; give .*"):
        from_environment({name: value})


def test_pytest_says_the_sentence_alone() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/unit/test_attack_settings.py"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, env={**os.environ, "SEED": "abc"}, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert (done.stdout + done.stderr).strip() == "ERROR: SEED=abc is not a whole number; give the one that a run has printed"
