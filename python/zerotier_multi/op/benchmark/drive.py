"""The end that sends: one path, then two, then more, up to all; both ends are looked at meanwhile."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from zerotier_multi import box, names
from zerotier_multi.cpu import placement_order
from zerotier_multi.op.benchmark import wire
from zerotier_multi.op.benchmark.decide import End, Step, Verdict, decide, full, numbers
from zerotier_multi.op.benchmark.serve import Say, leave_instances_alone, pids_of, tell
from zerotier_multi.op.benchmark.usage import Look, between, from_json, look, whole
from zerotier_multi.op.errors import NotConfigured, Unavailable, WrongValue
from zerotier_multi.op.gather import enabled_plan_of, require_root, silence_of_pathd
from zerotier_multi.op.table import clean
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plan import PathPlan, Plan
from zerotier_multi.restarts import paths_up
from zerotier_multi.values import shown

SECONDS, LEAST, MOST = 40, 3, 60  # of a whole run
WARMING = 0.3  # of a step: until TCP has found its rate, nothing counts
STREAMS = 16  # at once, but at least one and at most four on each path
_NOT_SO = (KeyError, TypeError, ValueError, AttributeError)  # what an answer of another kind leads to


def measure(bundle: str, remote: str, seconds: str | None = None, say: Say = tell) -> dict[str, Any]:
    """Measure, and say what is of use. Raises :class:`OpError` of many kinds, each in one sentence."""
    require_root()
    length = SECONDS if seconds is None else _length(seconds)
    plan = enabled_plan_of(bundle)
    paths = usable(plan, remote)
    with ExitStack() as stack:
        run = Run(plan, remote, paths, stack)
        counts = numbers(len(paths))
        steps = []
        for count in counts:
            steps.append(run.step(paths[:count], length / len(counts)))
            say(f"{count} of {len(paths)} instances: {steps[-1].mbit:.0f} Mbit/s")
        near, far = run.ends
    return result(plan, remote, steps, near, far, decide(bundle, len(plan.instances), steps, near, far))


def _length(seconds: str) -> int:
    """How long a run shall take, as somebody has typed it. Raises :class:`WrongValue`."""
    if not (seconds.isascii() and seconds.isdecimal() and len(seconds) < 4 and LEAST <= int(seconds) <= MOST):
        raise WrongValue(f"duration {shown(seconds)} is not a number of seconds from {LEAST} to {MOST}")
    return int(seconds)


def usable(plan: Plan, remote: str) -> list[PathPlan]:
    """A path of each instance that carries traffic to a remote. Raises :class:`NotConfigured`, :class:`Unavailable`."""
    known = dict.fromkeys(path.remote for path in plan.paths)
    if remote not in known:
        raise NotConfigured(f"{plan.bundle} has no remote {shown(remote)}; its remotes: {', '.join(known) or 'none'}")
    try:
        up = paths_up(plan.bundle)
    except PathdError as error:
        raise Unavailable(f"the benchmark was not started: {silence_of_pathd(error)}") from None
    found: dict[int, PathPlan] = {}
    for path in sorted(plan.paths, key=lambda p: (p.instance, p.family)):
        carries = (remote, path.family) in up.get(path.instance, set())
        if path.remote == remote and carries and wire.own_address(plan, path):
            found.setdefault(path.instance, path)
    if not found:
        raise Unavailable(f"no path of {plan.bundle} to {remote} is up; see: show zerotier {plan.bundle} paths")
    return list(found.values())


class Run:
    """A run that the far end has agreed to."""

    def __init__(self, plan: Plan, remote: str, paths: Sequence[PathPlan], stack: ExitStack) -> None:
        self._plan, self._remote, self._session = plan, remote, secrets.token_hex(16)
        path = paths[0]
        try:
            self._control = stack.enter_context(self._connect(path))
        except OSError:
            raise Unavailable(
                f"{remote} does not answer on TCP port {wire.PORT} of {path.via}; type there: zerotier benchmark ztN server "
                f"(ztN is its name of this link), and run this again"
            ) from None
        answer = self._ask({"role": "control", "version": wire.VERSION, "session": self._session})
        if not answer.get("ok"):
            raise Unavailable(f"{remote} does not take part: {reason(answer)}")
        self._pids = pids_of(plan)
        topology = box.read_topology()
        cores = {cpu.number: cpu.core for cpu in topology}
        near = End(socket.gethostname(), {i.number: i.cpus for i in plan.instances}, placement_order(topology), plan.bundle, cores)
        try:
            self.ends = near, far_end(remote, answer)
        except _NOT_SO:
            raise Unavailable(f"what listens on TCP port {wire.PORT} of {remote} is another program") from None
        leave_instances_alone(plan, stack)

    def _connect(self, path: PathPlan) -> socket.socket:
        source = wire.own_address(self._plan, path)
        assert source is not None, "only paths with an address are usable"
        return wire.connect(path.device, source, path.via)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            wire.say(self._control, message)
            return wire.hear(self._control)
        except wire.WireError as error:
            raise self._lost(str(error)) from None

    def _lost(self, why: str) -> Unavailable:
        return Unavailable(f"{self._remote} has left the run: {why}; type there again: zerotier benchmark ztN server")

    def step(self, paths: Sequence[PathPlan], seconds: float) -> Step:
        """Send over some paths for so long."""
        streams = min(4, max(1, STREAMS // len(paths)))
        with ExitStack() as stack:
            senders = [stack.enter_context(self._sender(path)) for path in paths for _ in range(streams)]
            threads = [threading.Thread(target=wire.send_until_closed, args=(sender,), daemon=True) for sender in senders]
            for thread in threads:
                thread.start()
            try:
                time.sleep(seconds * WARMING)
                begin = self._look(senders)
                time.sleep(seconds * (1 - WARMING))
                end = self._look(senders)
            finally:
                for sender in senders:
                    _stop(sender)
                for thread in threads:
                    thread.join()
        return made_step([path.instance for path in paths], begin, end)

    def _sender(self, path: PathPlan) -> socket.socket:
        try:
            made = self._connect(path)
            # What is still in its buffer when it is closed is of no use to anybody.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.say(made, {"role": "data", "session": self._session})
            return made
        except (OSError, wire.WireError) as error:
            raise self._lost(f"no connection over {path.device} ({error})") from None

    def _look(self, senders: Sequence[socket.socket]) -> Moment:
        sent = [wire.segments(sender) for sender in senders]
        near = look(self._pids)
        try:
            far = from_json(self._ask({"op": "look"}))
        except _NOT_SO:
            raise self._lost("its answer is not as expected") from None
        return near, far, sum(s for s, _ in sent), sum(again for _, again in sent)


def reason(answer: Mapping[str, Any]) -> str:
    """Why the other end does not take part: its own words, in one line that no terminal acts on."""
    why = answer.get("why")
    return clean(" ".join(why.split())[:200]) if isinstance(why, str) else "it does not say why"


def far_end(remote: str, answer: Mapping[str, Any]) -> End:
    """What the other end says of itself; pure. An earlier version does not say what it calls the link, or which CPUs share a core.

    Raises KeyError, TypeError, ValueError or AttributeError for what is no such answer.
    """
    bundle = answer.get("bundle", "")
    if not isinstance(bundle, str) or (bundle and not names.BUNDLE_RE.fullmatch(bundle)):
        raise ValueError("it calls the link what no bundle is called")
    cpus = {whole(k): tuple(map(whole, v)) for k, v in answer["instances"].items()}
    cores = {whole(cpu): whole(core) for cpu, core in answer.get("cores", {}).items()}
    return End(remote, cpus, tuple(map(whole, answer["order"])), bundle, cores)


Moment = tuple[Look, Look, int, int]  # both ends, segments sent, and sent again


def made_step(instances: Sequence[int], begin: Moment, end: Moment) -> Step:
    """What passed between two moments, by the clock of the end that received; pure."""
    (near, far, sent, again), (near2, far2, sent2, again2) = begin, end
    seconds = max(far2.at - far.at, 1e-6)
    size = sum(max(0, far2.received.get(k, 0) - far.received.get(k, 0)) for k in instances)
    lost = (again2 - again) / max(1, sent2 - sent)
    return Step(tuple(instances), seconds, size * 8 / seconds / 1e6, lost, between(near, near2), between(far, far2))


def _stop(sender: socket.socket) -> None:
    try:
        sender.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other end was faster


def result(plan: Plan, remote: str, steps: Sequence[Step], near: End, far: End, verdict: Verdict) -> dict[str, Any]:
    """The whole answer as data."""
    return {
        "schema": 1,
        "bundle": plan.bundle,
        "router": near.name,
        "remote": remote,
        "steps": [_row(step, near, far) for step in steps],
        "instances": verdict.instances,
        "limit": asdict(verdict.full),
        "sentences": list(verdict.sentences),
        "commands": list(verdict.near),
        "remote_commands": list(verdict.far),
    }


def _row(step: Step, near: End, far: End) -> dict[str, Any]:
    gigabits = step.mbit / 1000
    rows = []
    for end, use in ((near, step.near), (far, step.far)):
        spent = sum(use.instances.get(k, 0.0) for k in step.instances)
        cpu = max(use.busy, key=lambda c: use.busy[c], default=None)
        rows.append(
            {
                "router": end.name,
                "cpu_seconds_per_gbit": round(spent / gigabits, 3) if gigabits else None,
                "fullest_cpu": cpu,
                "fullest_cpu_percent": None if cpu is None else round(use.busy[cpu] * 100, 1),
                "cpus": [{"cpu": c, "percent": round(share * 100, 1)} for c, share in sorted(use.busy.items())],
                "instances": [
                    {"instance": k, "cpu_percent": round(use.instances.get(k, 0.0) * 100, 1)} for k in step.instances
                ],
            }
        )  # fmt: skip
    return {
        "instances": len(step.instances),
        "seconds": round(step.seconds, 2),
        "received_mbit": round(step.mbit, 1),
        "lost": round(step.lost, 5),
        "limit": full(step, near, far).limit,
        "ends": rows,
    }
