"""``make bench-chaos SECONDS=1800 SEED=1``: random faults under traffic, one after another and two at a time.

Two routers, four instances each. Every fault is repaired after a random time. Then both routers have to be what their
plans say within 30 s (a path that is held down for having fallen too often gets that time besides), zerotier-pathd has
to be the process that it was unless it was the victim, and flows that did not run over the path of a fault must neither
have lost a packet nor have moved. In the end nothing may have grown between the first and the last quarter.

The flows end in sockets of the routers, whose buckets look idle to the kernel, so that it may move one after the idle timer:
in a round that took longer than that (a path was held down) a move is none of ours.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab import Lab, LabError, Router, faults
from lab.faults import FAULTS, POWER, Fault, own_config_disk
from lab.flows import PERIOD
from lab.link import Link, Traffic, Witness, look

INSTANCES, FLOWS = 4, 16
CONVERGE, LONGEST_HOLD = 30.0, 60.0  # seconds
SHORTEST, LONGEST = 0.2, 6.0  # seconds that a fault lasts
TWO_AT_ONCE = 0.3  # share of the rounds
# Without power, and while instances come and go on purpose, nothing else can happen; a commit needs room to write.
ALONE = (POWER, faults.FEWER, faults.COMMITS)
# Two of a kind would take each other's means away.
KINDS = (
    (faults.DELAY, faults.OVERTAKING),
    (faults.LOSS_5, faults.LOSS_20),
    (faults.PATHD_KILL, faults.PATHD_STOP, faults.PATHD_FREEZE, faults.PATHD_RESTART),
)
# Most that may be more in the last quarter than in the first; KiB for memory, all else must not grow.
GROWTH = {"RSS of pathd": 2048, "RSS of an instance": 2048}


@dataclass(frozen=True)
class Blow:
    """A fault, where it strikes, and for how long."""

    fault: Fault
    router: Router
    path: int
    seconds: float

    def __str__(self) -> str:
        where = "" if self.fault.hits == "all" else f" path {self.path}"
        return f"{self.fault.name} at {self.router.name}{where} for {self.seconds:.1f} s"


@dataclass
class Record:
    """What the rounds with one fault came to; of packets only the rounds with this fault alone tell."""

    back: list[float] = field(default_factory=list)  # seconds from the last repair to all as planned
    held: int = 0
    gaps: list[float] = field(default_factory=list)
    spared: int = 0
    lost: int = 0
    moved: int = 0


class Chaos:
    """The rounds and what they have shown."""

    def __init__(self, link: Link, seed: int) -> None:
        self._link = link
        self._random = random.Random(seed)
        groups = [group for plan in look(link.near).data["plans"].values() for group in plan["groups"]]
        self._idle_timer = min(float(group["idle_timer"]) for group in groups)  # seconds
        self._deck: list[Fault] = []
        self.records: dict[str, Record] = {fault.name: Record() for fault in FAULTS}
        self.samples: list[dict[str, dict[str, int]]] = []
        self.wrongs: list[str] = []

    def _draw(self) -> Fault:
        """Every fault comes once before any comes again."""
        if not self._deck:
            self._deck = self._random.sample(FAULTS, len(FAULTS))
        return self._deck.pop()

    def _blows(self) -> list[Blow]:
        chosen = [self._draw()]
        if self._random.random() < TWO_AT_ONCE:
            other = self._draw()
            clash = other in chosen or any(other in kind and chosen[0] in kind for kind in KINDS)
            if clash or chosen[0] in ALONE or other in ALONE:
                self._deck.append(other)
            else:
                chosen.append(other)
        paths = self._random.sample(range(1, INSTANCES + 1), len(chosen))
        return [
            Blow(fault, self._random.choice(self._link.routers), path, self._random.uniform(SHORTEST, LONGEST))
            for fault, path in zip(chosen, paths, strict=True)
        ]

    def round(self, number: int) -> bool:
        """One round; False when the routers have not found back."""
        blows = self._blows()
        print(f"{number}: {'; '.join(map(str, blows))}", file=sys.stderr, end="", flush=True)
        before = self._link.pids()
        # Programs that run inside end with the power.
        traffic = None if blows[0].fault is POWER else Traffic(self._link, FLOWS)
        back, held = None, False
        try:
            try:
                self._strike(blows)
                back, held = self._converge()
            except LabError as error:
                self.wrongs.append(f"{'; '.join(map(str, blows))}: {error}")
            witnesses = traffic.end() if traffic and back is not None else []
        finally:
            if traffic:
                traffic.kill()
        print(" - " + (f"back after {back:.1f} s" if back is not None else "NOT BACK"), file=sys.stderr, flush=True)
        for blow in blows:
            record = self.records[blow.fault.name]
            record.held += held
            if back is not None:
                record.back.append(back)
        if back is None:
            return False
        self._judge_daemon(blows, before)
        if len(blows) == 1:
            self._judge_flows(blows[0], witnesses)
        self.samples.append({router.name: look(router).sizes() for router in self._link.routers})
        return True

    def _strike(self, blows: Sequence[Blow]) -> None:
        """Let the blows fall side by side, each for its own time."""
        begin, standing = time.monotonic(), []
        for blow in blows:
            blow.fault.strike(self._link, blow.router, blow.path)
            standing.append((begin + blow.seconds, blow))
        for moment, blow in sorted(standing, key=lambda item: item[0]):
            time.sleep(max(0.0, moment - time.monotonic()))  # how long it lasts is part of the fault
            blow.fault.repair(self._link, blow.router, blow.path)

    def _converge(self) -> tuple[float | None, bool]:
        """(seconds until both were as planned or None, whether a path was held down at the end of the usual time)."""
        begin = time.monotonic()
        try:
            self._link.settle(CONVERGE)
            return time.monotonic() - begin, False
        except LabError as error:
            held = any("held down" in look(router).states.values() for router in self._link.routers)
            if not held:
                self.wrongs.append(str(error))
                return None, False
        try:
            self._link.settle(LONGEST_HOLD)
            return time.monotonic() - begin, True
        except LabError as error:
            self.wrongs.append(str(error))
            return None, True

    def _judge_daemon(self, blows: Sequence[Blow], before: dict[tuple[str, str], int]) -> None:
        victims = {blow.router.name for blow in blows if blow.fault.victim in ("pathd", "router")}
        for (name, unit), pid in self._link.pids().items():
            if unit == "zerotier-pathd.service" and name not in victims and pid != before[name, unit]:
                self.wrongs.append(f"{name}: zerotier-pathd was started again by {'; '.join(map(str, blows))}")

    def _judge_flows(self, blow: Blow, witnesses: Sequence[Witness]) -> None:
        record, device, lost, moved = self.records[blow.fault.name], f"zt0p{blow.path}", 0, 0
        for flow in witnesses:
            if blow.fault.hits == "all" or (blow.fault.hits == "path" and device in flow.before):
                record.gaps.append(flow.seen.gap)
                lost += flow.seen.lost if blow.fault.gentle else 0
                continue
            record.spared += 1
            lost += flow.seen.lost
            moved += flow.after != flow.before and flow.seen.sent * PERIOD < self._idle_timer
        record.lost += lost
        record.moved += moved
        if lost or moved:
            self.wrongs.append(f"{blow}: of flows that it must not touch {lost} packets were lost and {moved} moved")

    # -- what it came to

    def growth(self) -> list[tuple[str, str, float, float, bool]]:
        """(router, what, median of the first quarter, of the last, whether that is too much more)."""
        quarter = max(1, len(self.samples) // 4)
        found = []
        for router in self._link.routers:
            for what in self.samples[0][router.name]:
                first, last = (
                    statistics.median(sample[router.name][what] for sample in part)
                    for part in (self.samples[:quarter], self.samples[-quarter:])
                )
                found.append((router.name, what, first, last, last - first > GROWTH.get(what, 0)))
        return found

    def tables(self) -> list[Table]:
        """What the rounds came to, for a person."""
        rounds = Table(title=f"{len(self.samples)} rounds; seconds from the repair until everything is as planned; gaps in seconds")
        for title in ("fault", "times", "median", "worst", "held down", "longest gap", "flows spared", "lost", "moved"):
            rounds.add_column(title, justify="left" if title == "fault" else "right")
        for name, record in self.records.items():
            if record.back:
                rounds.add_row(
                    name, str(len(record.back)), f"{statistics.median(record.back):.1f}", f"{max(record.back):.1f}",
                    str(record.held), f"{max(record.gaps):.2f}" if record.gaps else "", str(record.spared),
                    str(record.lost), str(record.moved),
                )  # fmt: skip
        sizes = Table(title="medians of the first and the last quarter; memory in KiB")
        for title in ("router", "what", "first", "last", "may grow by", ""):
            sizes.add_column(title, justify="left" if title in ("router", "what") else "right")
        for router, what, first, last, bad in self.growth():
            sizes.add_row(router, what, f"{first:g}", f"{last:g}", str(GROWTH.get(what, 0)), "GROWN" if bad else "")
        return [rounds, sizes]


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="bench.chaos")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=None, help="of an earlier run, to see its faults again")
    parser.add_argument("debs", type=Path, nargs="+")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    with Lab(arguments.debs) as lab:
        routers = lab.add_routers(["R1", "R2"])
        for router in routers:
            own_config_disk(router)
        link = Link(lab, routers[0], routers[1], INSTANCES)
        link.connect()
        for router in routers:
            router.must_configure("", commit=False, save=True)  # a power cut must find it again
        chaos, number = Chaos(link, seed), 0
        end = time.monotonic() + arguments.seconds
        good = True
        while good and time.monotonic() < end:
            number += 1
            good = chaos.round(number)
        if not good:
            for router in routers:
                print(f"--- {router.name}\n{router.journal('zerotier-pathd')[-6000:]}", file=sys.stderr)
        console = Console(width=130)
        if chaos.samples:
            for table in chaos.tables():
                console.print(table)
            good &= not any(bad for *_, bad in chaos.growth())
    for wrong in chaos.wrongs:
        print(wrong)
    print(f"seed {seed}: {'good' if good and not chaos.wrongs else 'BAD'}")
    return 0 if good and not chaos.wrongs else 1


if __name__ == "__main__":
    sys.exit(main())
