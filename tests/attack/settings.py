"""How hard the attacks of this folder are, from the environment: short by default, as in CI.

``ATTACK=long`` makes them long, ``SECONDS=`` says how long those that loop may take together, ``SEED=`` repeats a run.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Attack:
    """Seed, length, and the time in seconds that a loop may take when it is long."""

    seed: int
    long: bool
    seconds: float

    def random(self, name: str) -> random.Random:
        """Random numbers of a test's own, the same for the same seed whichever tests run beside it."""
        return random.Random(f"{self.seed} {name}")

    def either(self, short: T, long: T) -> T:
        """A number of packets, rounds or bytes: ``long`` in a long run."""
        return long if self.long else short


def from_environment() -> Attack:
    """Short runs repeat one seed, so that CI fails for changes alone; long ones throw another each time."""
    long = os.environ.get("ATTACK") == "long"
    seed = os.environ.get("SEED") or (random.SystemRandom().randrange(1 << 32) if long else 1)
    return Attack(int(seed), long, float(os.environ.get("SECONDS") or 1800))


ATTACK = from_environment()
