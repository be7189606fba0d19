"""The hook for commit messages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / ".githooks/commit-msg"


@pytest.mark.parametrize(
    ("subject", "refusal"),
    [
        ("pathd: raise the reply timeout to 20 s", ""),
        ("homes, pathd: open tokens are replaced", ""),
        ("op mode: x" + "é" * 62, ""),
        ("Revert \"pathd: x\"", ""),
        ("op mode: x" + "é" * 63, "more than 72 characters"),
        ("Fix things", "is not 'area: what'"),
        ("pathd:raise", "is not 'area: what'"),
        ("", "is not 'area: what'"),
    ],
)  # fmt: skip
def test_a_subject_names_its_area_and_is_short(tmp_path: Path, subject: str, refusal: str) -> None:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nbody\n# comment\n")
    done = subprocess.run(
        [HOOK, message], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, refusal in done.stderr) == (int(bool(refusal)), True)
