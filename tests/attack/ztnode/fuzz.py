"""Everything at once against a ztnode with a sanitizer, for a time.

``python3 -m tests.attack.ztnode.fuzz --sanitizer address --seconds 60 --seed 1`` ends with 1 when a sanitizer has reported
something, an end has died or does not answer, or the link does not come back afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from ctypes import c_ulong
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.attack.ztnode.machine import SANITIZERS, SLOW, Pair, enter, pair
from tests.attack.ztnode.packets import Packets
from tests.attack.ztnode.requests import Requests
from tests.attack.ztnode.surroundings import Devices, Files, Traffic
from tests.engine.test_contract import mac
from zerotier_multi.apiway import SOCKET

from lab.process import LabError, wait

RESTART = 25.0  # seconds between two restarts of the attacked end, so that it reads what was left in its home
START_TRIES = 6
MOST = 10  # times as long as asked for, where an attacker has not come to anything yet on a busy machine
LOOK = 2.0  # seconds between two looks whether it lives


class Attacker(Protocol):
    """What a process of the fuzzer does again and again."""

    def step(self) -> int:
        """Do something; how many of it."""


@dataclass
class Result:
    """What was done, by kind, and what was found."""

    counts: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    findings: list[str] = field(default_factory=list)


@dataclass
class _Worker:
    """One attacker in a process and a namespace of its own."""

    name: str
    namespace: str
    make: Callable[[], Attacker]
    pause: float  # seconds between two steps
    # Only the worker writes it, so it has no lock, which a worker that is killed may hold: whoever asks then waits for ever.
    count: c_ulong = field(default_factory=lambda: multiprocessing.RawValue("L", 0))
    process: multiprocessing.Process | None = None

    def start(self) -> None:
        self.process = multiprocessing.Process(target=self._work, name=self.name, daemon=True)
        self.process.start()

    def _work(self) -> None:
        os.nice(19)
        enter(self.namespace)
        attacker = self.make()
        while True:
            self.count.value += attacker.step()
            time.sleep(self.pause)

    def stop(self) -> None:
        """Raises AssertionError when it has ended by itself: an attacker with a fault of its own shows nothing."""
        assert self.process
        lives = self.process.is_alive()
        self.process.kill()
        self.process.join()
        assert lives, f"the attacker {self.name} has ended with {self.process.exitcode}"


def _workers(made: Pair, seed: int, kinds: set[str]) -> list[_Worker]:
    def dice(name: str) -> random.Random:
        return random.Random(f"{seed} {name}")

    (a, b), (here, there) = made.names, (made.b, made.a)
    secret, victim = ((here.home / "identity.secret").read_text(), (there.home / "identity.public").read_text())
    token = there.token()
    found = [
        _Worker(f"requests {i}", a, lambda i=i: Requests(dice(f"requests {i}"), token, str(there.home / SOCKET)), 0.001)
        for i in range(2)
    ]
    found += [
        _Worker("packets", b, lambda: Packets(dice("packets"), secret, victim, here.address, there.address), 0.005),
        _Worker("files", a, lambda: Files(dice("files"), there.home, made.good), 0.1),
        _Worker("devices", a, lambda: Devices(dice("devices")), 0.15),
    ]
    for number, node, other in ((1, made.a, made.b), (2, made.b, made.a)):
        lladdr = mac((other.home / "identity.public").read_text())
        name = f"echoes {number}"
        found.append(_Worker(name, node.host.name, lambda n=number, m=lladdr, s=name: Traffic(dice(s), n, m), 0.05))
    return [worker for worker in found if worker.name.split()[0] in kinds]


KINDS = {"requests", "packets", "files", "devices", "echoes"}


def _restart(made: Pair, result: Result) -> None:
    """End the attacked node in order and start it with the home as it was left, or repaired where it refuses that."""
    code = made.a.end()
    if code != 0:
        result.findings.append(f"TERM: exit code {code}")
    if result.restarts % 2:
        made.restore()
    for _ in range(START_TRIES):
        made.a.start(answer=False)
        try:
            made.a.wait_for_answer(SLOW)
            break
        except AssertionError:
            if made.a.reports() or not made.a.process or made.a.process.returncode != 1:
                raise
            made.restore()  # it said in a sentence what it cannot use; somebody may spoil it again before it has begun
    else:
        result.findings.append("it does not start with the home as it was")
    result.restarts += 1


def fuzz(sanitizer: str, seconds: float, seed: int, where: Path, kinds: set[str] = KINDS, told: bool = False) -> Result:
    """Attack for so many seconds; stops at the first finding."""
    result = Result()
    with pair(sanitizer, where) as made:
        workers = _workers(made, seed, kinds)
        for worker in workers:
            worker.start()
        try:
            _attack(made, workers, seconds, result, told)
        except (AssertionError, LabError) as error:
            result.findings.append(str(error))
        finally:
            for worker in workers:
                worker.stop()
                kind = worker.name.split()[0]
                result.counts[kind] = result.counts.get(kind, 0) + worker.count.value
        try:
            if not result.findings:
                _afterwards(made, result)
        except (AssertionError, LabError) as error:
            result.findings.append(str(error))
        result.findings += [report for node in (made.a, made.b) for report in node.reports()]
    return result


def _attack(made: Pair, workers: list[_Worker], seconds: float, result: Result, told: bool) -> None:
    begin = time.monotonic()
    restart = begin + min(RESTART, seconds / 2)
    for look in itertools.count(1):
        if (elapsed := time.monotonic() - begin) >= seconds and (all(w.count.value for w in workers) or elapsed >= MOST * seconds):
            return
        time.sleep(min(LOOK, seconds / 4))
        # The other end is where the attacker has the secret from, so it goes on as long as this one.
        for node in (made.a, made.b):
            assert node.process and node.process.poll() is None, f"{node.home.name} has ended with {node.process.returncode}"
            assert not node.reports(), "a report"
        made.a.wait_for_answer(2 * SLOW)
        if time.monotonic() >= restart:
            _restart(made, result)
            restart = time.monotonic() + RESTART
        if told and look % 30 == 0:
            print(
                f"{time.monotonic() - begin:.0f} s, {result.restarts} restarts,",
                *(f"{w.name}: {w.count.value}" for w in workers),
                flush=True,
            )


def _afterwards(made: Pair, result: Result) -> None:
    """With the home as it was, the link carries; then both end in order."""
    made.a.end()
    made.restore()
    made.a.start()
    wait(made.reaches, timeout=2 * SLOW, what="echo over the link after the attack")
    for node in (made.a, made.b):
        if code := node.end():
            result.findings.append(f"{node.home.name}: exit code {code}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a ztnode with a sanitizer from all sides at once.")
    parser.add_argument("--sanitizer", choices=SANITIZERS, default="address")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kinds", default=",".join(sorted(KINDS)), help="attackers, with commas")
    arguments = parser.parse_args()
    print(f"SEED={arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ztnode-") as where:
        done = fuzz(arguments.sanitizer, arguments.seconds, arguments.seed, Path(where), set(arguments.kinds.split(",")), told=True)
    print(
        f"{arguments.sanitizer}, {arguments.seconds:g} s, {done.restarts} restarts:",
        ", ".join(f"{n} {kind}" for kind, n in done.counts.items()),
    )
    for finding in done.findings:
        print(finding)
    return 1 if done.findings else 0


if __name__ == "__main__":
    sys.exit(main())
