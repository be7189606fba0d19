"""A walk of random commits on R1, which has a link to R2.

- What many small commits have made is what one commit of the same configuration makes.
- A refused commit changes neither the configuration nor the router.
- ``delete interfaces zerotier`` leaves the router as it was before the first commit.

``make test`` walks a little, ``make test-walk SEED=7 STEPS=200`` further. The same seed draws the same changes.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.lab.conftest import new_lab
from tests.walk.aspects import (
    BEGIN,
    BRIDGE,
    INSTANCES,
    SUBNET_LENGTHS,
    TAP,
    TAPPED,
    TRANSIT,
    Choice,
    Lines,
    configuration,
    drawn,
    typed,
)

from lab import Router
from lab.fingerprint import Fingerprint, differences_left, settled
from lab.scenario import example, identity_lines, introduce, wait_paths

pytestmark = pytest.mark.only_ztnode  # what an engine refuses is its own

COMPARED = 4  # after so many steps all is taken away and configured at once, and after the last
COMMIT = 200.0  # seconds that a commit may take: with silent paths it waits for each instance that it restarts
PATIENCE = 60.0  # seconds in which a router that was configured at once is what it was before
DEVICES = f"""
ip link add {TAPPED} type veth peer name {TAP}
ip link add {BRIDGE} type bridge
for device in {TAPPED} {TAP} {BRIDGE}; do ip link set $device up; done
"""


def number(name: str, default: int) -> int:
    """A whole number of the environment."""
    text = os.environ.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError(f"{name}={text} is not a whole number; give one such as {default}")
    return int(text)


SEED, STEPS = number("WALK_SEED", 1), number("WALK_STEPS", 8)


@dataclass
class Walk:
    """Where R1 is on its walk."""

    router: Router
    remote: Router
    known: Lines  # who R2 is
    empty: Fingerprint  # of R1 before its first commit
    made: Fingerprint  # now
    choice: Choice
    number: int = 0  # of the step
    since: list[str] = field(default_factory=list)  # typed since the last comparison

    def step(self, last: bool) -> None:
        """One commit more."""
        self.number += 1
        choice = drawn(self.choice, Random(f"{SEED} {self.number}"))
        if lines := typed(self._lines(self.choice), self._lines(choice)):
            self._commit(choice, lines)
        if (last or self.number % COMPARED == 0) and self.since:
            self._compare()

    def _lines(self, choice: Choice) -> Lines:
        return (*configuration(choice), *self.known)

    def _commit(self, choice: Choice, lines: str) -> None:
        before = self._configuration()
        self.since.append(lines)
        result = self.router.configure(lines, timeout=COMMIT)
        print(f"step {self.number}: {'committed' if result.ok else 'refused'} in {result.seconds:.1f} s\n{lines}{result.output}\n")
        assert "Traceback" not in result.output, self._told("a commit ends with a Traceback", result.output)
        if result.ok:
            self.choice, self.made = choice, settled(self.router)
            return
        assert self._configuration() == before, self._told("a refused commit has changed the configuration", result.output)
        left = differences_left(self.router, self.made, PATIENCE)
        assert not left, self._told(f"a refused commit has changed the router\n{result.output}", left)
        self.since.pop()

    def _compare(self) -> None:
        """Take all of it away, and configure it at once."""
        # One that holds no fall of the past against a path.
        self.remote.run(["systemctl", "restart", "zerotier-pathd"])
        self.made, before = settled(self.router), self._configuration()
        self.router.must_configure("delete interfaces zerotier", timeout=COMMIT)
        left = differences_left(self.router, self.empty, PATIENCE)
        assert not left, self._told("delete interfaces zerotier does not leave what was there before the first commit", left)
        result = self.router.configure(before, timeout=COMMIT)
        assert result.ok, self._told("what many commits have made is refused as one", result.output)
        left = differences_left(self.router, self.made, PATIENCE)
        assert not left, self._told("many commits (-) have not made what one commit of the same configuration makes (+)", left)
        print(f"step {self.number}: compared\n")
        self.since.clear()

    def _configuration(self) -> str:
        """The set lines of all bundles."""
        shown = self.router.run(["ztsh", "show", "configuration", "commands"]).stdout.splitlines(keepends=True)
        return "".join(line for line in shown if line.startswith("set interfaces zerotier "))

    def _told(self, what: str, found: str) -> str:
        """What to say of a fault, so that it can be repeated."""
        known = {f"set {line}" for line in self.known}
        now = "\n".join(line for line in self._configuration().replace("'", "").splitlines() if line not in known)
        steps = "commit\n".join(self.since)
        return (
            f"WALK_SEED={SEED}, step {self.number}: {what}\n{found}\n\n"
            f"typed since the last comparison:\n{steps}\nthe configuration now, without who R2 is:\n{now}"
        )


@pytest.fixture
def walk() -> Walk:
    """R1 and R2 with a bundle that is up in both families."""
    with new_lab() as lab:
        one, two = lab.add_routers(["R1", "R2"])
        one.run(["sh", "-ec", DEVICES])
        empty = settled(one)
        two.must_configure(example(two, [one], INSTANCES, transit=TRANSIT, subnet_lengths=SUBNET_LENGTHS))
        one.must_configure(typed((), configuration(BEGIN)))
        introduce([one, two], INSTANCES)
        wait_paths([one, two], INSTANCES * len(TRANSIT))
        known = tuple(line.removeprefix("set ") for line in identity_lines(two, INSTANCES).splitlines())
        yield Walk(one, two, known, empty, settled(one), BEGIN)


def test_walk(walk: Walk) -> None:
    for left in reversed(range(STEPS)):
        walk.step(last=not left)
