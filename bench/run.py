"""``make bench``: the product beside what a user would pick instead, on this machine, in one run.

Two routers on an underlay; every subject makes its link between these two, is measured and takes it away. All subjects of a
scenario have their turn in a round before the next round begins. Results are in build/bench/NAME/results.json after every
step, so a run that was interrupted goes on with ``make bench NAME=…`` where it was.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.ends import Site
from bench.machine import machine, versions
from bench.measure import MEASURES
from bench.measure.common import Context, Reading
from bench.peers import PROGRAMS
from bench.peers.common import Unavailable, program
from bench.plan import Plan, Step, Subject, left, selected, steps, time_left
from bench.record import add, unavailable, with_plans
from bench.results import Machine, ResultsError, Run, Settings, save
from bench.results import load as load_run
from lab import Lab
from lab.process import LabError

Take = Callable[[Step, float], list[Reading]]  # all readings of a step, of so many seconds for each measurement

TRIES = 2
GUESS = 20.0  # seconds of a step before any was done
DEFAULTS = {False: (3, 4.0), True: (1, 2.0)}  # rounds and seconds; quick or not


def names(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def chosen() -> argparse.ArgumentParser:
    """The part of a command line that says which scenarios are meant."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--scenarios", type=names, default=[], metavar="NAME,…")
    made.add_argument("--quick", action="store_true", help="a few subjects, one round, short")
    return made


def selection() -> argparse.ArgumentParser:
    """The part of a command line that says what of the benchmark is meant."""
    made = argparse.ArgumentParser(add_help=False, parents=[chosen()])
    made.add_argument("--subjects", type=names, default=[], metavar="NAME,…", help='such as "wireguard-go,ours" or "ztnode x 4"')
    return made


def place_and_time() -> argparse.ArgumentParser:
    """The part of a command line that says where a run is kept, and how long it measures."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--directory", type=Path, default=Path("build/bench"))
    made.add_argument("--name", help="of the run; one that is there goes on where it was")
    made.add_argument("--rounds", type=positive)
    made.add_argument("--seconds", type=float, help="of one measurement, where its scenario has no time of its own")
    return made


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="bench.run", description=__doc__, parents=[selection(), place_and_time()])
    made.add_argument("debs", type=Path, nargs="+", help="our packages")
    made.add_argument("--zerotier-one", type=executable, help="path of zerotier-one, where it is not on PATH")
    return made


def positive(text: str) -> int:
    """A number of rounds."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is no number of rounds; give 1 or more")
    return number


def executable(text: str) -> str:
    """The path of a program that is there."""
    if not (os.path.isfile(text) and os.access(text, os.X_OK)):
        raise argparse.ArgumentTypeError(f"{text} is no program; give the path of a zerotier-one")
    return text


class Log:
    """Lines for the terminal and the file ``log`` of the run."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def __call__(self, line: str) -> None:
        stamp = datetime.datetime.now().strftime("%H:%M:%S")
        print(line, flush=True)
        print(f"{stamp} {line}", file=self._file, flush=True)


def progress(number: int, count: int, step: Step, remaining: float) -> str:
    """What is done, by now, and the time left."""
    minutes, seconds = divmod(round(remaining), 60)
    return f"[{number}/{count}, {minutes}:{seconds:02d} left] {step.plan.name}, round {step.round + 1}: {step.subject.name}"


def take(site: Site, step: Step, seconds: float) -> list[Reading]:
    """All readings of one step. Raises :class:`Unavailable`, and :class:`LabError` when it fails."""
    context = Context(site, step.plan, step.subject, step.plan.seconds or seconds, step.round)
    with context.parts:
        return list(MEASURES[step.plan.name](context))


def attempt(take: Take, step: Step, seconds: float, log: Log) -> list[Reading]:
    """All readings of a step, again when it fails; what keeps failing is a reading that says why. Raises :class:`Unavailable`.

    Whatever goes wrong with one subject, the run of hours goes on.
    """
    why = ""
    for _ in range(TRIES):
        try:
            return [_finite(reading) for reading in take(step, seconds)]
        except Unavailable:
            raise
        except (LabError, OSError, subprocess.SubprocessError) as error:
            why = f"it failed: {error}"
        except Exception as error:  # a fault of a measurement
            why = f"it failed: {type(error).__name__}: {error}"
            log(traceback.format_exc())
        log(f"  {why}")
    return [unavailable(step.plan, why)]


def _finite(reading: Reading) -> Reading:
    """The reading; one that is no number has failed."""
    return reading if math.isfinite(reading.value) else replace(reading, value=0.0, failed=f"{reading.metric} is not a number")


def shown(readings: Sequence[Reading], metric: str) -> str:
    """The scenario's metric, in a few words, for the progress display."""
    words = [r.failed or f"{r.value:.4g} {r.unit}" for r in readings if r.metric == metric]
    return "; ".join(words) or "; ".join(f"{r.metric} {r.value:.4g} {r.unit}" for r in readings[:6])


def carry_out(todo: Sequence[Step], run: Run, take: Take, file: Path, log: Log) -> Run:
    """Do all steps, and save after each."""
    took: dict[tuple[str, str], float] = {}
    gone: list[tuple[str, Subject]] = []  # cannot be had: asked once
    for number, step in enumerate(todo, start=1):
        if (step.plan.name, step.subject) in gone:
            continue
        log(progress(number, len(todo), step, time_left(todo[number - 1 :], took, GUESS)))
        begin = time.monotonic()
        try:
            readings = attempt(take, step, run.settings.seconds, log)
        except Unavailable as reason:
            readings = [unavailable(step.plan, str(reason))]
            gone.append((step.plan.name, step.subject))
        took[step.plan.name, step.subject.kind] = time.monotonic() - begin
        log(f"  {shown(readings, step.plan.metric)}")
        run = add(run, step, readings)
        save(run, file)
    return run


def begin(arguments: argparse.Namespace, file: Path, here: Machine, programs: Mapping[str, str]) -> Run:
    """The run that goes on, or a new one, on ``here`` with these versions; ``arguments`` are those of :func:`place_and_time`.

    Raises :class:`ResultsError` when what is there cannot be gone on with: samples of one row must compare.
    """
    rounds, seconds = DEFAULTS[arguments.quick]
    settings = Settings(arguments.rounds or rounds, arguments.seconds or seconds, arguments.quick)
    if not file.exists():
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Run(here, started, programs, settings)
    run = load_run(file)
    if run.machine != here:
        raise ResultsError(f"{file} is of another machine or kernel; choose another NAME")
    if run.settings.quick != settings.quick:
        raise ResultsError(f"{file} is {'a quick run' if run.settings.quick else 'no quick run'}; choose another NAME")
    if arguments.seconds and arguments.seconds != run.settings.seconds:
        raise ResultsError(f"{file} has measurements of {run.settings.seconds:g} s; choose another NAME, or leave SECONDS out")
    for name, version in programs.items():
        if run.versions.get(name, version) != version:
            raise ResultsError(f"{file} was measured with {name} {run.versions[name]}, and {version} is here; choose another NAME")
    return replace(run, versions={**run.versions, **programs}, settings=replace(run.settings, rounds=settings.rounds))


def missing(plans: Sequence[Plan], site_programs: Path, stock: str | None) -> Iterator[str]:
    """What will not be measured for want of a program, before hours are spent on the rest: a sentence for each."""
    kinds = dict.fromkeys(subject.kind for plan in plans for subject in plan.subjects)
    engines = {subject.parameters.get("engine") for plan in plans for subject in plan.subjects}
    if not stock and ({"zerotier", "zerotier-multicore"} & {*kinds} or "zerotier-one" in engines):
        yield "zerotier-one is not on PATH, so nothing is compared with ZeroTier; name it: make bench ZEROTIER_ONE=/path/zerotier-one"
    for kind in kinds:
        try:
            for name in PROGRAMS.get(kind, ()):
                program(site_programs, name)
        except Unavailable as reason:
            yield f"{kind} is not measured: {reason}"


def main(words: Sequence[str]) -> int:
    """Measure; 0 when all steps were done, whatever they came to."""
    arguments = parser().parse_args(words)
    stock = arguments.zerotier_one or shutil.which("zerotier-one")
    name = arguments.name or datetime.datetime.now().strftime("%Y-%m-%d-%H%M")
    directory: Path = arguments.directory / name
    directory.mkdir(parents=True, exist_ok=True)
    file, log = directory / "results.json", Log(directory / "log")
    try:
        peers = arguments.directory / "peers"
        run = begin(arguments, file, machine(), versions(peers, stock, arguments.debs))
        plans = selected(arguments.scenarios, arguments.quick, arguments.subjects)
        if arguments.rounds:  # a number that is asked for counts for all
            plans = [replace(plan, rounds=0) for plan in plans]
        run = with_plans(run, plans)
        todo = left(steps(plans, run.settings.rounds), run)
        log(f"{len(todo)} steps into {file}")
        for sentence in missing(plans, peers, stock):
            log(sentence)
        if todo:
            programs = {"/usr/sbin/zerotier-one": Path(stock)} if stock else {}
            with Lab(arguments.debs, programs=programs) as lab:
                near, far = lab.add_routers(["R1", "R2"])
                site = Site(lab, near, far, peers.absolute(), stock and os.path.abspath(stock))
                run = carry_out(todo, run, partial(take, site), file, log)
        save(run, file)
    except (ResultsError, LabError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit):  # the lab makes the second of the first
        print(f"\nto go on: make bench NAME={name}{' QUICK=1' if arguments.quick else ''}", file=sys.stderr)
        return 130
    log(f"results: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
