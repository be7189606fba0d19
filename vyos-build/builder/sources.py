"""VyOS's own source trees: brought once, or given by hand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from builder.branches import Branch, Defaults
from builder.errors import BuildError
from builder.log import Log
from builder.reach import Need, check

VYOS_BUILD_URL = "https://github.com/vyos/vyos-build"
VYOS_1X_URL = "https://github.com/vyos/vyos-1x"
_NEEDS_1X = Need("the sources of vyos-1x", VYOS_1X_URL, "VYOS_1X=<dir>")


def given(variable: str) -> Path | None:
    """A file or directory that a person names in the environment; raises :class:`BuildError` if it is not there."""
    value = os.environ.get(variable)
    if not value:
        return None
    if not Path(value).exists():
        raise BuildError(f"{variable}={value} does not exist; name an existing one, or omit {variable}")
    return Path(value).resolve()


def vyos_build(branch: Branch, work: Path, log: Log) -> Path:
    """A vyos-build work tree of the branch: the one in VYOS_BUILD, else one that is cloned here."""
    tree = given("VYOS_BUILD") or work / f"vyos-build-{branch.name}"
    if not tree.exists():
        check([Need("the sources of vyos-build", VYOS_BUILD_URL, "VYOS_BUILD=<dir>")])
        log.step(f"fetching vyos-build, branch {branch.name}")
        log.run(
            "git clone of vyos-build",
            ["git", "clone", "--quiet", "--depth=1", f"--branch={branch.name}", VYOS_BUILD_URL, str(tree)],
        )
    return tree


def vyos_1x_beside(tree: Path, defaults: Defaults, log: Log) -> None:
    """The vyos-1x that VyOS's program wants inside vyos-build for its own use, where it is not there yet."""
    inside = tree / "build/vyos-1x"
    if inside.exists():
        return
    source = given("VYOS_1X")
    if not source:
        check([_NEEDS_1X])
    log.step("fetching vyos-1x, which VyOS's program uses")
    log.run(
        "git clone of vyos-1x",
        ["git", "clone", "--quiet", f"--branch={defaults.branch}", str(source or VYOS_1X_URL), str(inside)],
    )


def vyos_1x_at(revision: str, target: Path, log: Log) -> None:
    """A clean vyos-1x work tree at a revision, from VYOS_1X or from VyOS."""
    source = given("VYOS_1X")
    if not source:
        check([_NEEDS_1X])
    elif not _has(source, revision):
        raise BuildError(
            f"VYOS_1X={source} has no revision {revision}, the pinned one; fetch it there, name a work tree of vyos-1x "
            "that has it, or change the pin in vyos-build/pins.toml"
        )
    log.step(f"fetching vyos-1x {revision[:12]} for the overlay")
    for what, command in (
        ("git init", ["git", "init", "--quiet", str(target)]),
        (
            "fetching the pinned vyos-1x",
            [
                "git",
                "-C",
                str(target),
                "fetch",
                "--quiet",
                "--depth=1",
                f"file://{source}" if source else VYOS_1X_URL,
                revision,
            ],
        ),
        ("checking out the pinned vyos-1x", ["git", "-C", str(target), "checkout", "--quiet", "--detach", revision]),
    ):
        log.run(what, command)


def _has(tree: Path, revision: str) -> bool:
    command = ["git", "-c", "safe.directory=*", "-C", str(tree), "cat-file", "-e", f"{revision}^{{commit}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
