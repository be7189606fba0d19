"""The one door to systemd: ``systemctl``, a few calls, several units each."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerotier_multi import names
from zerotier_multi.files import write_atomic
from zerotier_multi.units import DIGEST_VARIABLE


class SystemdError(RuntimeError):
    """systemctl refused; the text is its own first line."""


_PROPERTIES = "Id,NeedDaemonReload,ActiveState,MainPID,NRestarts,ActiveEnterTimestampMonotonic,MemoryCurrent,Result,ExecMainStatus"


@dataclass(frozen=True)
class UnitState:
    """State of a unit; ``pid`` 0 means that no process runs."""

    active: str  # ActiveState: active, activating, inactive, failed …
    pid: int = 0
    restarts: int = 0
    uptime: float | None = None  # seconds; None while it does not run
    cgroup_memory: int | None = None  # bytes
    result: str = ""  # systemd's word for how it ended last: success, exit-code, signal, oom-kill …
    exit_status: int = 0  # exit code, or the signal's number
    outdated: bool = False  # its files have changed since systemd read them

    @property
    def running(self) -> bool:
        """Whether it runs or systemd is about to run it."""
        return self.active in ("active", "activating", "reloading")

    @property
    def end(self) -> str:
        """How it ended last, in words; empty when there is nothing to say."""
        match self.result:
            case "exit-code":
                return f"exit code {self.exit_status}"
            case "signal" | "core-dump":
                return f"signal {self.exit_status}"
            case "oom-kill":
                return "out of memory"
            case "start-limit-hit":
                return "failed too often in a row"
            case "" | "success":
                return ""
        return self.result


def systemctl(*arguments: str, check: bool = True) -> str:
    """Run systemctl and return what it printed. Raises :class:`SystemdError` when it fails."""
    done = subprocess.run(
        ["systemctl", "--no-ask-password", *arguments],
        # systemd would take a word of it for one of the service that runs it, and say that it is not.
        env={name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode != 0:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise SystemdError(f"systemctl {' '.join(arguments[:2])}: {reason[0]}")
    return done.stdout


VYOS_ROUTER = "vyos-router.service"


def is_booting() -> bool:
    """Whether the system starts yet: what the configuration is carried out for by itself, on VyOS and Debian."""
    return systemctl("is-system-running", check=False).strip() in ("initializing", "starting") or vyos_is_booting()


def vyos_is_booting() -> bool:
    """Whether VyOS loads its configuration. Its service counts as started at once (``Type=simple``) and ends with that."""
    return systemctl("show", "--property=SubState", "--value", VYOS_ROUTER, check=False).strip() in ("start", "running")


def unit_states(units: Sequence[str]) -> dict[str, UnitState]:
    """State of each unit, in one call; a unit that does not exist is inactive."""
    if not units:
        return {}
    told = systemctl("show", "--all", f"--property={_PROPERTIES}", *map(_where_loaded, units))
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    known = {match[1]: parse_unit(block, now) for block in told.split("\n\n") if (match := re.search(r"(?m)^Id=(.+)$", block))}
    return {unit: known.get(unit, UnitState("inactive")) for unit in units}


def _where_loaded(unit: str) -> str:
    """A pattern that is this unit alone. A name would have systemd load it, which for an instance without its drop-in is an error."""
    return f"{unit[:-1]}[{unit[-1]}]"


def parse_unit(block: str, now: float) -> UnitState:
    """What ``systemctl show`` printed about one unit; ``now`` in seconds of the monotonic clock."""
    values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    pid = _number(values.get("MainPID"))
    entered = _number(values.get("ActiveEnterTimestampMonotonic")) / 1e6
    memory = _number(values.get("MemoryCurrent"))
    return UnitState(
        active=values.get("ActiveState", "unknown"),
        pid=pid,
        restarts=_number(values.get("NRestarts")),
        uptime=max(0.0, now - entered) if pid and entered else None,
        cgroup_memory=memory if 0 < memory < 1 << 60 else None,
        result=values.get("Result", ""),
        exit_status=_number(values.get("ExecMainStatus")),
        outdated=values.get("NeedDaemonReload") == "yes",
    )


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch("[0-9]{1,20}", text) else 0


def start_again(units: Sequence[str], *, wait: bool = False) -> None:
    """Restart units, also those that systemd has given up; ``wait`` for systemd to have done it. Raises :class:`SystemdError`."""
    systemctl("reset-failed", *units, check=False)  # otherwise systemd refuses too many starts in a row
    systemctl("restart", *([] if wait else ["--no-block"]), *units)


def stop(*units: str) -> None:
    """Stop units. One that systemd cannot load does not run, so it is stopped. Raises :class:`SystemdError`."""
    try:
        systemctl("stop", *units)
    except SystemdError:
        if any(state.running or state.active == "deactivating" for state in unit_states(units).values()):
            raise


def failed(units: Sequence[str]) -> set[str]:
    """Those of some units that systemd has given up; none when it does not tell."""
    try:
        return {unit for unit, state in unit_states(units).items() if state.active == "failed"}
    except SystemdError:
        return set()


def loaded_instances(bundle: str) -> list[str]:
    """Units of instances of a bundle that systemd has loaded or that have a drop-in, sorted."""
    units = _loaded([f"zerotier-multi@{bundle}-*.service"])
    dropins = names.UNIT_DROPIN_ROOT.glob(f"zerotier-multi@{bundle}-*.service.d/{names.DROPIN_NAME}")
    units |= {path.parent.name[: -len(".d")] for path in dropins}
    return sorted(units)


def _loaded(patterns: Sequence[str]) -> set[str]:
    answer = systemctl("list-units", "--all", "--plain", "--no-legend", "--full", *patterns)
    return {line.split()[0] for line in answer.splitlines() if line.split()}


def running_ports(proc: Path = Path("/proc")) -> set[int]:
    """Ports that running instances of all bundles were started with."""
    answer = systemctl("show", "--property=MainPID", "--value", "zerotier-multi@*.service")
    found = set()
    for pid in {word for word in answer.split() if word != "0"}:
        try:
            words = (proc / pid / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {int(word[2:]) for word in words if word.startswith(b"-p") and word[2:].isdigit()}
    return found


def started_digest(pid: int, proc: Path = Path("/proc")) -> str | None:
    """Digest of the settings a process was started under, or None when it is gone or has none."""
    try:
        environment = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{DIGEST_VARIABLE}=".encode()
    return next((item[len(prefix) :].decode() for item in environment if item.startswith(prefix)), None)


def repin(pid: int, cpus: Sequence[int], everywhere: Sequence[int], proc: Path = Path("/proc")) -> bool:
    """Move all threads of a running process to ``cpus`` (none: to ``everywhere``); True when that changed something.

    A thread that ends meanwhile is no error.
    """
    wanted, changed = set(cpus or everywhere), False
    for task in sorted((proc / str(pid) / "task").glob("*")):
        try:
            if os.sched_getaffinity(int(task.name)) != wanted:
                os.sched_setaffinity(int(task.name), wanted)
                changed = True
        except OSError:
            continue
    return changed


def dropin_path(unit: str) -> Path:
    """Our drop-in of a unit."""
    return names.UNIT_DROPIN_ROOT / f"{unit}.d" / names.DROPIN_NAME


def apply_dropins(wanted: Mapping[str, str], gone: Sequence[str], outdated: bool = False) -> bool:
    """Write and remove drop-ins; returns True only when one changed. Raises OSError and :class:`SystemdError`.

    ``outdated``: systemd has not read what was written before, as after a commit that was killed, or a reload that failed.

    A drop-in of somebody else (``systemctl edit --runtime``) stays. A reload takes systemd a quarter of a second and more,
    so it is done only for a unit that is loaded: of any other, systemd reads the drop-ins when it loads it (systemd 252:
    ``unit_load_fragment`` looks for new ones, ``unit_load_dropin`` reads them).
    """
    changed = []
    for unit, text in wanted.items():
        path = dropin_path(unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        if write_atomic(path, text.encode()):
            changed.append(unit)
    for unit in gone:
        path = dropin_path(unit)
        if path.exists():
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
            changed.append(unit)
    if outdated or (changed and _loaded(changed)):
        systemctl("daemon-reload")
    return bool(changed)


def start(units: Sequence[str]) -> None:
    """Start units, also those that systemd has given up. Raises :class:`SystemdError`."""
    systemctl("reset-failed", *units, check=False)
    try:
        systemctl("start", *units)
    except SystemdError:
        # systemd remembers which drop-ins there are, by the directory's time: one of the same tick may have escaped it.
        systemctl("daemon-reload")
        systemctl("reset-failed", *units, check=False)
        systemctl("start", *units)
