"""Make an apt repository for an image out of packages that were built from VyOS's sources, and say what lacks.

    PYTHONPATH=vyos-build python3 -m builder.packages --debs DIR [--leave-out all|NAME,NAME...]

VYOS_BUILD names the vyos-build work tree whose image the repository is for.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from builder import archive, collisions, repository, stand_in
from builder.branches import BRANCHES, read_defaults
from builder.control import Stanza
from builder.errors import BuildError
from builder.gaps import Gap, find_gaps
from builder.local_mirror import MANIFEST
from builder.log import Log
from builder.places import WORK
from builder.repository import Given, read_given
from builder.sources import given
from builder.wanted import branch_of, read_wanted, sources_of

# Without these there is no VyOS, or not one command of it runs.
_INDISPENSABLE = ("vyos-1x", "vyatta-bash", "vyatta-cfg", "vyos-utils", "libvyosconfig0", "python3-pyhumps")


def make(
    debs: Path, leave_out: Sequence[str], log: Log, into: Path, mirrors: dict[str, str], development: bool = True
) -> list[Gap]:
    """Make the repository; what is left out of it. Raises :class:`BuildError` while something is missing."""
    tree = given("VYOS_BUILD")
    if tree is None:
        raise BuildError("VYOS_BUILD must name a vyos-build work tree: it says which packages an image is made of")
    if not debs.is_dir():
        raise BuildError(f"{debs} is no directory; name one with the packages that were built: PACKAGES=<dir>")
    defaults = read_defaults(tree, BRANCHES[branch_of(tree)])
    wanted = read_wanted(tree, development)
    packages = read_given(debs)
    log.step(f"{len(packages)} packages in {debs}")
    collisions.check(packages)
    log.step("reading what Debian has")
    debian, everything = archive.read_stock(archive.indices(
        mirrors.get("debian-mirror", defaults.debian_mirror),
        mirrors.get("debian-security-mirror", defaults.security_mirror),
        defaults.distribution,
    ))
    gaps = find_gaps(wanted.packages, [package.stanza for package in packages], debian)
    left, missing = _divide(gaps, leave_out)
    left = [_held_against(gap, packages, everything) for gap in left]
    for gap in missing:
        log.step(sentence(gap, tree))
    if missing:
        raise BuildError(
            f"{len(missing)} packages are missing: build them from their sources and put them into {debs}, "
            f"or make an image without them: LEAVE_OUT=all, or names with commas between "
            f"(never without {', '.join(_INDISPENSABLE)})"
        )
    kernel = wanted.kernel if any(p.name == wanted.kernel for p in packages) else archive.newest_kernel(everything)
    if not kernel:
        raise BuildError(f"neither {debs} nor Debian has a kernel; build {wanted.kernel}")
    _write(packages, left, into, defaults.branch, {
        "branch": defaults.branch,
        "kernel": {"wanted": wanted.kernel, "taken": kernel},
        "built": {package.name: package.stanza["Version"] for package in packages},
        "left out": [{"package": str(gap.relation), "asked for by": gap.askers, "instead": gap.instead} for gap in left],
    })
    if not any(package.name == "live-boot" for package in packages):
        log.step("live-boot is Debian's, which starts no image that install image has made: build VyOS's own")
    if kernel != wanted.kernel:
        log.step(f"the kernel is Debian's {kernel}, because there is no {wanted.kernel}")
    for gap in left:
        log.step(f"left out: {gap.relation}; instead {gap.instead}")
    return left


def _divide(gaps: Sequence[Gap], leave_out: Sequence[str]) -> tuple[list[Gap], list[Gap]]:
    names = set(leave_out)
    left = [gap for gap in gaps if gap.name not in _INDISPENSABLE and ("all" in names or gap.name in names)]
    return left, [gap for gap in gaps if gap not in left]


def _held_against(gap: Gap, packages: Sequence[Given], everything: Sequence[Stanza]) -> Gap:
    """The gap without Debian's package where that has a file of one that was built: dpkg would stop half-way."""
    if not gap.debian:
        return gap
    with tempfile.TemporaryDirectory() as scratch:
        archive.bring(gap.name, gap.debian, everything, Path(scratch))
        theirs, = read_given(Path(scratch))
        found = collisions.between(theirs, packages)
    return gap if found is None else replace(gap, kept_out=f"Debian's {gap.debian} and {found[0]} both have {found[1]}")


def sentence(gap: Gap, tree: Path) -> str:
    """What is missing, who asks for it, and where it might come from."""
    has = f"Debian has {gap.debian}" if gap.debian else "Debian has none"
    known = sources_of(tree, gap.name)
    where = f"vyos-build takes it from {', '.join(known)}" if known else "look for its source at https://github.com/vyos"
    return f"missing: {gap.relation} for {', '.join(gap.askers)}; {has}; {where}"


def _write(packages: Sequence[Given], left: Sequence[Gap], into: Path, suite: str, manifest: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        everything = [package for package in packages if package.name != stand_in.NAME]
        if left:
            stand_in.make(left, Path(scratch))
            everything += read_given(Path(scratch))
        repository.write(everything, into, suite)
    (into / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 0 when the repository is made."""
    parser = argparse.ArgumentParser(prog="builder.packages", description=__doc__.partition("\n")[0])
    parser.add_argument("--debs", type=Path, required=True, help="directory with the packages")
    parser.add_argument("--leave-out", default="", help="what the image is to do without: all, or names with commas")
    parser.add_argument("--release", action="store_true", help="for a release build, which has no smoketests")
    mirrors = ("debian-mirror", "debian-security-mirror")
    for name in mirrors:
        parser.add_argument(f"--{name}", metavar="URL", help="instead of vyos-build's default")
    chosen = vars(parser.parse_args(arguments))
    urls = {name: url for name in mirrors if (url := chosen[name.replace("-", "_")])}
    into = WORK / "repository"
    try:
        log = Log(WORK / "packages.log")
        make(chosen["debs"], chosen["leave_out"].split(","), log, into, urls, not chosen["release"])
    except (BuildError, OSError) as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("packages: interrupted", file=sys.stderr)
        return 130
    log.step(f'done: {into}; make an image of it with: make iso-vyos IMAGE_ARGS="--vyos-mirror file:{into}"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
