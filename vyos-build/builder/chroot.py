"""A clean Debian to build packages in: a root file system made once, and a throw-away copy of it for each build.

Debian's own sbuild starts from a source package. A checkout of a non-native source has no upstream tarball and cannot
be made into one, while ``dpkg-buildpackage --build=binary`` needs none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError

_SCRIPT = Path(__file__).parent / "build-in-chroot"
_OWN = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
_TAIL = 15  # lines of a log that are shown


class StepFailed(BuildError):
    """A program ended with an error; ``tail`` is the end of what it said."""

    def __init__(self, text: str, tail: str) -> None:
        super().__init__(text)
        self.tail = tail


@dataclass(frozen=True)
class Chroot:
    """The root file system, the lines of sources.list for it, and what its builds may do."""

    base: Path
    sources_list: str
    options: str = ""  # DEB_BUILD_OPTIONS
    network: bool = False
    extra: tuple[str, ...] = ()  # packages that are there beside the build dependencies

    def build(self, tree: Path, repository: Path, out: Path, log: Path) -> None:
        """Build the packages of a tree into ``out``; the tree itself is copied. Raises :class:`StepFailed`."""
        with tempfile.TemporaryDirectory(prefix=".build-", dir=out.parent) as scratch:
            place = Path(scratch)
            (place / "list").write_text(self.sources_list)
            (place / "scratch").mkdir()
            said: dict[str, str] = {
                "BASE": str(self.base), "SCRATCH": str(place / "scratch"), "TREE": str(tree), "OUT": str(out),
                "REPOSITORY": str(repository), "LIST": str(place / "list"), "NETWORK": "yes" if self.network else "no",
                "DEB_BUILD_OPTIONS": self.options, "WITH": " ".join(self.extra),
            }  # fmt: skip
            run([*_OWN, str(_SCRIPT)], log, said)


def sources_list(mirror: str, security: str, distribution: str) -> str:
    """The lines of sources.list that an image of this distribution is made with."""
    suites = [(mirror, distribution), (mirror, f"{distribution}-updates"), (security, f"{distribution}-security")]
    return "".join(f"deb {url} {suite} main\n" for url, suite in suites)


def make_base(lines: str, distribution: str, into: Path) -> Path:
    """A Debian with compilers and nothing else, made by mmdebstrap unless it is there; raises :class:`StepFailed`."""
    command = [
        "mmdebstrap", "--mode=root", "--variant=buildd", "--include=fakeroot", "--skip=cleanup/apt/lists", distribution,
    ]  # fmt: skip
    name = hashlib.sha256("\0".join([*command, lines]).encode()).hexdigest()[:16]
    target = into / f"chroot-{name}"
    if not target.exists():
        part = into / f"chroot-{name}.part"
        shutil.rmtree(part, ignore_errors=True)
        into.mkdir(parents=True, exist_ok=True)
        (into / "sources.list").write_text(lines)
        # In a mount namespace of its own, so that nothing stays mounted when it is interrupted.
        run([*_OWN, "--mount-proc", *command, str(part), str(into / "sources.list")], into / "chroot.log", {})
        part.rename(target)
    return target


def run(command: Sequence[str], log: Path, more: Mapping[str, str]) -> None:
    """Run a program with all that it says in a file; it ends with us. Raises :class:`StepFailed`."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **more},
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    if code:
        lines = log.read_text(errors="replace").splitlines()
        raise StepFailed(f"{Path(command[-1]).name} ended with {code}; the full log is {log}", "\n".join(lines[-_TAIL:]))
