"""A package that stands for what an image does without."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from builder.errors import BuildError
from builder.gaps import Gap

NAME = "vyos-left-out"
# vyos-1x has these units itself and enables them: package -> unit and the program that it starts.
_UNITS = {"podman": ("podman.service", "/usr/bin/podman")}


def make(gaps: Sequence[Gap], into: Path) -> Path:
    """The package: it provides every gap, in the version that is asked for, and brings what Debian has of them.

    Its description names them all, so that ``dpkg -s`` on the router tells what is not there.
    A unit of vyos-1x whose program is missing is skipped at boot, instead of failing. Raises :class:`BuildError`.
    """
    provides = dict.fromkeys(_provided(gap) for gap in gaps)
    depends = dict.fromkeys(_debian_s(gap) for gap in gaps if gap.debian and not gap.kept_out)
    lines = [f" {_told(gap)}" for gap in gaps]
    control = [
        f"Package: {NAME}",
        "Version: 1",
        "Architecture: all",
        "Section: metapackages",
        "Priority: optional",
        "Maintainer: builder of this image <root@localhost>",
        f"Provides: {', '.join(provides)}",
        *([f"Depends: {', '.join(depends)}"] if depends else []),
        "Description: placeholder for packages that this image leaves out",
        *lines,
    ]
    path = into / f"{NAME}_1_all.deb"
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "DEBIAN").mkdir()
        (Path(scratch) / "DEBIAN/control").write_text("\n".join(control) + "\n")
        for gap in gaps:
            if gap.name in _UNITS:
                unit, program = _UNITS[gap.name]
                addition = Path(scratch) / f"usr/lib/systemd/system/{unit}.d/left-out.conf"
                addition.parent.mkdir(parents=True)
                addition.write_text(f"[Unit]\nConditionFileIsExecutable={program}\n")
        Path(scratch).chmod(0o755)
        command = ["dpkg-deb", "--build", "--root-owner-group", scratch, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"dpkg-deb cannot make {path.name} ({done.stderr.strip()}); see whether {into} has free space")
    return path


def _provided(gap: Gap) -> str:
    version = gap.relation.version
    # What is to be older or newer than a version is met by none that can be named; the version itself is near enough.
    return f"{gap.name} (= {version})" if version else gap.name


def _debian_s(gap: Gap) -> str:
    # Without a version the stand-in would meet this itself.
    operator, version = ("<<", gap.relation.version) if gap.relation.operator == ">=" else ("=", gap.debian)
    return f"{gap.name} ({operator} {version})"


def _told(gap: Gap) -> str:
    return f"{gap.relation}: {gap.instead}"
