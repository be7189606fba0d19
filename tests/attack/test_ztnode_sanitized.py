"""ztnode with sanitizers: its unit tests, and a moment of everything at once; ``make fuzz`` and ``ATTACK=long`` go on for longer.

The package's own build runs the unit tests with the address sanitizer. Needs no lab: two namespaces, and the program built with the compiler's sanitizers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.attack.settings import Attack
from tests.attack.ztnode.fuzz import KINDS, fuzz
from tests.attack.ztnode.machine import SOURCE

from lab.process import run

pytestmark = pytest.mark.only_ztnode


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_nothing_is_reported_and_the_link_comes_back(attack: Attack, tmp_path: Path, sanitizer: str) -> None:
    done = fuzz(sanitizer, attack.either(6.0, attack.seconds / 2), attack.seed, tmp_path)
    print(f"{done.restarts} restarts, {done.counts}")
    assert not done.findings, "\n".join(done.findings)
    assert done.restarts and done.counts.keys() == KINDS and all(done.counts.values()), "an attacker did nothing"


def test_unit_tests_with_threads_pass_with_the_thread_sanitizer() -> None:
    run(["make", "-s", "-j", "-C", str(SOURCE), "test", "SANITIZERS=thread"], timeout=300)
