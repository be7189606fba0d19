"""A share of a core for each of some processes, by the control groups of this machine, version 1 or 2."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.process import LabError, wait

ROOT = Path("/sys/fs/cgroup")
PERIOD = 10_000  # microseconds; a long one would be a stall of its own for TCP
LEAST = 1_000  # microseconds: the kernel takes no smaller quota


def words(share: float) -> str:
    """What ``cpu.max`` takes for a share of one core."""
    period = max(PERIOD, round(LEAST / share))
    return f"{round(share * period)} {period}"


@contextmanager
def limited(pids: Iterable[int], share: float, root: Path = ROOT) -> Iterator[None]:
    """Give every process so much of one core, each on its own, while the block runs."""
    made: list[tuple[Path, int, Path]] = []
    try:
        for pid in pids:
            home = _home(pid, root)
            group = home / f"ztm-bench-{os.getpid()}-{pid}"
            group.mkdir()
            made.append((group, pid, home))
            _limit(group, share)
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group, pid, home in made:
            with suppress(OSError):  # the process may have ended
                (home / "cgroup.procs").write_text(str(pid))
            wait(lambda g=group: _removed(g), timeout=10, what=f"an empty control group {group}")


def _limit(group: Path, share: float) -> None:
    quota, period = words(share).split()
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{quota} {period}")
    else:
        (group / "cpu.cfs_period_us").write_text(period)
        (group / "cpu.cfs_quota_us").write_text(quota)


def _home(pid: int, root: Path) -> Path:
    """Where groups with the CPU controller are made for a process: beside its own. Raises :class:`LabError` without one."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return root / controllers / path.lstrip("/")
    if not (root / "cgroup.controllers").exists():
        raise LabError("this machine has no control groups for CPU time (neither the cpu controller of v1 nor v2)")
    (root / "cgroup.subtree_control").write_text("+cpu")
    return root


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
