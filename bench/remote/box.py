"""A box that is measured: where its programs run, by ssh or here, and what it says about itself and its instances.

All that a box needs is our package, Python and iperf3, and iperf 2 for its cross-check; what is read there, one program reads.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.ends import Cost, Place, stop
from bench.machine import described
from bench.results import Machine
from lab.process import LabError

PYTHON = "/usr/bin/python3"
DAEMON = 0  # the number of zerotier-pathd among the instances

# Runs a program until it ends or the connection does: without it a server would outlive the run that it was started for.
_WATCH = """
import os, select, subprocess, sys
child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *sys.argv[1:]], stdin=subprocess.DEVNULL)
ended = os.pidfd_open(child.pid)
while True:
    ready, _, _ = select.select([0, ended], [], [])
    if ended in ready:
        sys.exit(child.wait() & 255)
    if not os.read(0, 4096):
        child.kill()
        sys.exit(1)
"""

# The box and a bundle as data: "facts" as the first line, then what was used so far for every line that it reads, in milliseconds.
_LOOK = """
import json, os, socket, subprocess, sys
from pathlib import Path
from zerotier_multi.op.benchmark.serve import pids_of
from zerotier_multi.op.benchmark.usage import look
from zerotier_multi.plans import published_plans
bundle = sys.argv[1]
def out(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
plan = next((p for p in published_plans() if p.bundle == bundle), None)
if plan is None:
    sys.exit(f"interfaces zerotier {bundle} is not configured")
pids = pids_of(plan)
daemon = int(out("systemctl", "show", "--property=MainPID", "--value", "zerotier-pathd") or 0)
processes = pids | ({0: daemon} if daemon else {})
def say(data):
    print(json.dumps(data), flush=True)
def facts():
    paths = out("/usr/libexec/vyos/op_mode/zerotier.py", "show_paths", "--bundle", bundle, "--raw")
    packages = out("dpkg-query", "-Wf", "${Package} ${Version}" + chr(10), "zerotier-multi", "ztnode", "ztsh", "zerotier-one")
    say({
        "name": socket.gethostname(), "cpuinfo": Path("/proc/cpuinfo").read_text(), "cores": os.cpu_count(),
        "kernel": os.uname().release, "meminfo": Path("/proc/meminfo").read_text(), "virtual": out("systemd-detect-virt"),
        "packages": dict(line.split(" ", 1) for line in packages.splitlines() if not line.endswith(" ")),
        "iperf3": out("iperf3", "--version").split(chr(10))[0],
        "engine": os.path.basename(plan.instances[0].engine) if plan.instances else "",
        "instances": sorted(pids), "addresses": [a.partition("/")[0] for a in plan.addresses],
        "transit": {i.number: [a.partition("/")[0] for a in i.transit] for i in plan.instances},
        "paths": json.loads(paths)["paths"],
    })
facts()
for _ in sys.stdin:
    seen = look(processes)
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in processes.values()]
    say({
        "machine": sum(seen.busy.values()),
        "instances": {k: sum(threads.values()) for k, threads in seen.instances.items()},
        "pss": sum(int(text.partition(chr(10) + "Pss:")[2].split()[0]) for text in rollups) / 1000,
    })
"""


@dataclass(frozen=True)
class Shell(Place):
    """A place behind a program that takes a host and one command line for a shell there, as ssh does."""

    def command(self, command: Sequence[str]) -> list[str]:
        """The command of this machine that runs ``command`` there."""
        return [*self.prefix, shlex.join(command)]

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program there; it ends with the connection, and that with this process."""
        line, held = os.pipe()  # not Popen's own: communicate() would close that at once
        try:
            process = super().popen([PYTHON, "-c", _WATCH, *command], **{"stdin": line, **options})
        except BaseException:
            os.close(held)
            raise
        finally:
            os.close(line)
        weakref.finalize(process, os.close, held)
        return process


def place(host: str, shell: str = "ssh -o BatchMode=yes", controls: Path | None = None) -> Place:
    """The place of a host; "localhost" is this machine. ``controls`` is where connections of ssh are kept, so that one is enough."""
    if host == "localhost":
        return Place(host, ())
    words = shlex.split(shell)
    if controls and Path(words[0]).name == "ssh":
        words += ["-o", "ControlMaster=auto", "-o", f"ControlPath={controls}/%C", "-o", "ControlPersist=60"]
    return Shell(host, (*words, host))


@dataclass(frozen=True)
class Spent:
    """CPU seconds so far, of the machine and of each instance, with zerotier-pathd as number 0, and the memory of these, MB."""

    machine: float
    instances: Mapping[int, float]
    pss: float


class Box:
    """One of the two; :meth:`close` ends the program that looks at it."""

    def __init__(self, where: Place, bundle: str) -> None:
        self.place, self.bundle = where, bundle
        self._looker: subprocess.Popen[str] | None = None

    def _look(self) -> dict[str, Any]:
        """The next answer of the program that looks. Raises :class:`LabError`."""
        if self._looker is None:
            rise = [] if self._is_root else ["sudo", "-n"]
            command = self.place.command([*rise, PYTHON, "-c", _LOOK, self.bundle])
            pipe = subprocess.PIPE
            self._looker = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        else:
            self._ask(self._looker)
        assert self._looker.stdout
        answer = self._looker.stdout.readline()
        if not answer:
            why = (self._looker.communicate()[1].strip().splitlines() or ["no reason given"])[-1]
            raise LabError(f"{self.place.name}: {self.bundle} cannot be looked at: {why}")
        return dict(json.loads(answer))

    @staticmethod
    def _ask(looker: subprocess.Popen[str]) -> None:
        assert looker.stdin
        with suppress(BrokenPipeError):  # it has ended, and its answer says why
            looker.stdin.write("\n")
            looker.stdin.flush()

    def close(self) -> None:
        """End what looks at it."""
        if self._looker:
            stop(self._looker)
            self._looker = None

    @cached_property
    def _is_root(self) -> bool:
        done = self.place.run(["id", "-u"], check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            raise LabError(f"{self.place.name} is not reached: {why}; log in there once by hand: ssh {self.place.name}")
        return done.stdout.strip() == "0"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What does not change in a run. Raises :class:`LabError`."""
        found = self._look()
        if not found["iperf3"]:
            raise LabError(f"{self.place.name} has no iperf3; install it there: apt install iperf3")
        return found

    def spent(self) -> Spent:
        """What was used so far."""
        assert self.facts, "they are the first answer"
        found = self._look()
        return Spent(found["machine"], {int(k): v for k, v in found["instances"].items()}, found["pss"])

    @property
    def machine(self) -> Machine:
        """The box as a report has it."""
        facts = self.facts
        memory = int(facts["meminfo"].split()[1]) * 1024
        return described(facts["cpuinfo"], facts["cores"], facts["kernel"], memory, facts["virtual"])

    def transit(self, number: int) -> list[str]:
        """Its addresses in the transit subnets of an instance."""
        return [str(address) for address in self.facts["transit"].get(str(number), [])]


def cost(boxes: Sequence[Box], instances: Sequence[int]) -> Cost:
    """CPU seconds of both machines, and of some of their instances."""
    found = [box.spent() for box in boxes]
    return Cost(sum(one.machine for one in found), sum(one.instances.get(k, 0.0) for one in found for k in instances))
