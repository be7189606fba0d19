"""A control group of its own for every container.

On a machine that systemd runs, nspawn gets a scope by itself. Elsewhere two containers would share the group
of the shell that starts them, and each would kill and count the other's processes.
"""

from __future__ import annotations

from pathlib import Path

from lab.process import wait

ROOT = Path("/sys/fs/cgroup")


def host_has_systemd() -> bool:
    """Whether systemd is the init of this machine."""
    return Path("/run/systemd/system").is_dir()


def _hierarchies() -> list[Path]:
    """Where groups are made: systemd's own hierarchy and the unified one, or the one that there is."""
    named = [path for path in (ROOT / "systemd", ROOT / "unified") if (path / "cgroup.procs").exists()]
    return named or ([ROOT] if (ROOT / "cgroup.procs").exists() else [])


def enter(name: str) -> list[str]:
    """Words to put before a command so that it runs in the group ``name``; none where systemd sees to it."""
    if host_has_systemd():
        return []
    places = [str(path / name) for path in _hierarchies()]
    script = 'while [ "$1" != -- ]; do mkdir -p "$1" && echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
    return ["sh", "-c", script, "sh", *places, "--"]


def remove(name: str) -> None:
    """Take a group away with all below it, as soon as its processes have ended. Raises LabError when they do not."""
    wait(lambda: _removed(name), timeout=10, what=f"end of the processes in control group {name}")


def _removed(name: str) -> bool:
    for hierarchy in _hierarchies():
        top = hierarchy / name
        groups = [path for path in top.rglob("*") if path.is_dir()] if top.is_dir() else []
        for path in [*sorted(groups, key=lambda p: len(p.parts), reverse=True), top]:
            try:
                path.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False  # a process that is just ending holds it
    return True
