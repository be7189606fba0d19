"""Build the sources that an image needs, each by its own Debian packaging; what is built already is kept."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder import chroot, repository, worktree
from builder.errors import BuildError
from builder.log import Log
from builder.repository import Given, read_given
from builder.schedule import Step

STATE = "built.json"


@dataclass(frozen=True)
class Built:
    """A source that was to be built: from which state of its tree, and the packages or why there are none."""

    name: str
    revision: str
    changed: int  # files that differ from the revision
    packages: tuple[Given, ...] = ()
    failure: str = ""
    provides: frozenset[str] = frozenset()  # what its packages would have been, where it could not be built

    def told(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        outcome: dict[str, Any] = {"packages": {p.name: p.stanza["Version"] for p in self.packages}}
        return {
            "revision": self.revision, "changed files": self.changed, **({"failed": self.failure} if self.failure else outcome)
        }  # fmt: skip


def build(steps: Sequence[Step], given: Sequence[Given], place: chroot.Chroot, into: Path, log: Log) -> list[Built]:
    """Build in order. A failure is told with the end of its log, and the rest goes on without it."""
    into.mkdir(parents=True, exist_ok=True)
    for left in into.glob(".*-*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    done: dict[str, Built] = {}
    keys: dict[str, str] = {}
    for number, step in enumerate(steps, 1):
        name = step.source.name
        try:
            revision, changed = worktree.revision(step.source.tree), len(worktree.changes(step.source.tree))
        except BuildError as error:
            done[name] = Built(name, "unknown", 0, failure=str(error), provides=frozenset(step.source.provides))
            log.step(f"{number}/{len(steps)} {name}: not built: {error}")
            continue
        head = f"{number}/{len(steps)} {name} {revision[:12]}" + (f" and {changed} changed files" if changed else "")
        try:
            _check(step, done)
            keys[name] = _key(step, place, keys)
            packages = _packages(step, [*given, *_of(done, step.after)], place, into / name, keys[name], log, head)
            done[name] = Built(name, revision, changed, tuple(packages))
        except chroot.StepFailed as error:
            done[name] = Built(name, revision, changed, failure=str(error), provides=frozenset(step.source.provides))
            log.step(f"{head}: failed: {error}\n{error.tail}")
        except BuildError as error:
            done[name] = Built(name, revision, changed, failure=str(error), provides=frozenset(step.source.provides))
            log.step(f"{head}: not built: {error}")
    return list(done.values())


def _check(step: Step, done: Mapping[str, Built]) -> None:
    """Raises :class:`BuildError` where it is known before that it cannot be built."""
    if step.missing:
        names = ", ".join(" | ".join(map(str, clause)) for clause in step.missing)
        raise BuildError(f"nothing has its build dependency {names}; put its checkout into SOURCES or its package into PACKAGES")
    failed = [name for name in step.after if name in done and done[name].failure]
    if failed:
        raise BuildError(f"it needs {', '.join(failed)}, which could not be built")
    if step.circle:
        raise BuildError(
            f"it and {', '.join(step.after)} need each other; put the package of one into PACKAGES and remove its checkout"
        )


def _of(done: Mapping[str, Built], names: Sequence[str]) -> list[Given]:
    return [package for name in names if name in done for package in done[name].packages]


def _key(step: Step, place: chroot.Chroot, keys: Mapping[str, str]) -> str:
    """What the packages of a source depend on: its tree, the sources before it, and how it is built.

    Not the extra packages: they are given for the sake of a build that fails, and what was built without them stays.
    """
    parts = [worktree.fingerprint(step.source.tree), place.options, place.sources_list, *(keys[name] for name in step.after)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _packages(step: Step, given: Sequence[Given], place: chroot.Chroot, into: Path, key: str, log: Log, head: str) -> list[Given]:
    if _state(into) == key:
        packages = read_given(into)
        log.step(f"{head}: {len(packages)} packages, built before")
        return packages
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    log.step(f"{head}: building; the log is {into}/build.log")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".tree-", dir=into.parent) as scratch:
        tree = Path(scratch) / step.source.tree.name
        shutil.copytree(step.source.tree, tree, symlinks=True)
        worktree.remove_ignored(tree)
        Path(scratch).chmod(0o755)
        repository.write_flat(given, Path(scratch) / "repository")
        place.build(tree, Path(scratch) / "repository", into, into / "build.log")
    packages = read_given(into)
    (into / STATE).write_text(json.dumps({"key": key}) + "\n")
    log.step(f"{head}: {len(packages)} packages in {time.monotonic() - begin:.0f} s")
    return packages


def _state(into: Path) -> str:
    try:
        return str(json.loads((into / STATE).read_text())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
