"""Every parser stands every input: it takes it or refuses it in its declared way, soon, and without filling the memory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.attack import fuzzing
from tests.attack.fuzz_targets import targets
from tests.attack.settings import Attack
from tests.ztsh.conftest import places

SHORT = 0.2  # seconds for each parser; those that are slow get as many inputs as LEAST
LEAST = 60
MOST = 500  # in a short run, so that a fast machine tries what a slow one tries
__all__ = ["places"]


@pytest.fixture
def harmless(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ztsh has its own, with no program of the machine that a request might have run."""
    programs = places / "bin"
    programs.mkdir()
    for name in ("systemctl", "systemd-run", "wall"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(programs))
    return places


def test_every_parser(harmless: Path, attack: Attack, capsys: pytest.CaptureFixture[str]) -> None:
    every = targets(harmless)
    share = attack.either(SHORT, attack.seconds / len(every))
    chosen = [t for t in every if os.environ.get("PARSER", "") in t.name]
    found: list[fuzzing.Finding] = []
    for target in chosen:
        tally = fuzzing.run(target, attack.seed, share, LEAST, attack.either(MOST, None))
        found += tally.findings.values()
        if attack.long:
            with capsys.disabled():
                print(
                    f"\n{target.name}: {tally.inputs} inputs, {tally.good} of them good, {len(tally.findings)} findings",
                    end="",
                    flush=True,
                )
                for finding in tally.findings.values():
                    print(f"\n{finding}", flush=True)
        assert tally.good or tally.inputs < 500, f"{target.name} takes none of its own samples"
    assert not found, "\n".join(map(str, found))
