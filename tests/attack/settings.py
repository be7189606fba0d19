"""How hard the attacks of this folder are, from the environment: short by default, as in CI.

``ATTACK=long`` makes them long, ``SECONDS=`` says how long those that loop may take together, ``SEED=`` repeats a run.
``GIGABYTES=`` is the amount of checked data (tests/engine).
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Attack:
    """Seed, length, the time in seconds that a loop may take when it is long, and the checked data."""

    seed: int
    long: bool
    seconds: float
    gigabytes: float = 0.4

    def random(self, name: str) -> random.Random:
        """Random numbers of a test's own, the same for the same seed whichever tests run beside it."""
        return random.Random(f"{self.seed} {name}")

    def either(self, short: T, long: T) -> T:
        """A number of packets, rounds or bytes: ``long`` in a long run."""
        return long if self.long else short


def from_environment(environment: Mapping[str, str]) -> Attack:
    """Short runs repeat one seed, so that CI fails for changes alone; long ones throw another each time.

    Raises :class:`ValueError` with a sentence.
    """
    long = environment.get("ATTACK") == "long"
    seed = environment.get("SEED") or str(random.SystemRandom().randrange(1 << 32) if long else 1)
    seconds = environment.get("SECONDS") or "1800"
    if not re.fullmatch(r"-?[0-9]{1,18}", seed):
        raise ValueError(f"SEED={seed} is not a whole number; give the one that a run has printed")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", seconds):
        raise ValueError(f"SECONDS={seconds} is not a number of seconds; give one such as 1800")
    gigabytes = environment.get("GIGABYTES") or str(Attack.gigabytes)
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]+)?", gigabytes) or not float(gigabytes):
        raise ValueError(f"GIGABYTES={gigabytes} is not a number of gigabytes above 0; give one such as 200")
    return Attack(int(seed), long, float(seconds), float(gigabytes))


ATTACK = from_environment(os.environ)
