"""Make an apt repository for an image out of VyOS's sources, or of packages that were built from them; say what lacks.

    PYTHONPATH=vyos-build python3 -m builder.packages [--sources DIR] [--debs DIR] [--leave-out all|NAME,NAME...]

VYOS_BUILD names the vyos-build work tree whose image the repository is for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from builder import archive, checkouts, chroot, collisions, repository, source_builds, stand_in
from builder.branches import BRANCHES, Defaults, read_defaults
from builder.control import Stanza, Stock
from builder.errors import BuildError
from builder.gaps import Gap, find_gaps
from builder.local_mirror import MANIFEST
from builder.log import Log
from builder.places import WORK
from builder.repository import Given, newest, read_given
from builder.schedule import schedule
from builder.source_builds import Built
from builder.sources import given
from builder.wanted import branch_of, read_wanted, sources_of

# Without these there is no VyOS, or not one command of it runs.
_INDISPENSABLE = ("vyos-1x", "vyatta-bash", "vyatta-cfg", "vyos-utils", "libvyosconfig0", "python3-pyhumps")
# Every image has these, no dependency says which version, and VyOS does not work with Debian 12's, which ...
_NOT_DEBIAN_S = {
    "live-boot": "does not start images that install image has written; build VyOS's own",
    "bash-completion": "VyOS's bash 4.1 cannot read, so the shell has no VyOS commands; use 2.8 of Debian 10",
    "ethtool": "has no JSON for VyOS's scripts, so no Ethernet interface can be configured; use 6.10 or newer",
}


@dataclass(frozen=True)
class Order:
    """What a person asks for. At least one of ``debs`` and ``sources`` is a directory."""

    debs: Path | None = None  # packages that are built already
    sources: Path | None = None  # git checkouts to build packages from
    leave_out: Sequence[str] = ()
    mirrors: Mapping[str, str] = field(default_factory=dict)
    development: bool = True  # a release has no smoketests
    base: Path | None = None  # root file system to build in, instead of a fresh Debian
    network: bool = False  # builds may use the network
    options: str = ""  # DEB_BUILD_OPTIONS
    extra: tuple[str, ...] = ()  # Debian packages for every build, where a source's build dependencies are not complete


def make(order: Order, log: Log, into: Path, work: Path = WORK) -> list[Gap]:
    """Make the repository; what is left out of it. Raises :class:`BuildError` while something is missing."""
    tree = given("VYOS_BUILD")
    if tree is None:
        raise BuildError("VYOS_BUILD must name a vyos-build work tree, which lists the packages of an image")
    _check_directories(order)
    defaults = read_defaults(tree, BRANCHES[branch_of(tree)])
    wanted = read_wanted(tree, order.development)
    packages = read_given(order.debs) if order.debs else []
    if order.debs:
        log.step(f"{len(packages)} packages in {order.debs}")
    log.step("reading Debian's package lists")
    mirrors = (order.mirrors.get("debian-mirror", defaults.debian_mirror),
               order.mirrors.get("debian-security-mirror", defaults.security_mirror))  # fmt: skip
    debian, everything = archive.read_stock(archive.indices(*mirrors, defaults.distribution))
    built: list[Built] = []
    if order.sources:
        lines = chroot.sources_list(*mirrors, defaults.distribution)
        built = _build(order, [*wanted.packages, *_NOT_DEBIAN_S], packages, debian, lines, defaults, log, work)
        packages = newest([*packages, *(package for source in built for package in source.packages)])
    collisions.check(packages)
    gaps = find_gaps(wanted.packages, [package.stanza for package in packages], debian)
    left, missing = _divide(gaps, order.leave_out)
    left = [_held_against(gap, packages, everything) for gap in left]
    for gap in missing:
        log.step(sentence(gap, tree))
    _check_failures(built, order.leave_out)
    if missing:
        how = (
            f"put their checkouts into {order.sources}"
            if order.sources
            else f"build them from their sources and put them into {order.debs}"
        )
        raise BuildError(
            f"{len(missing)} packages are missing: {how}, or leave them out: LEAVE_OUT=all, or names separated by "
            f"commas (never {', '.join(_INDISPENSABLE)})"
        )
    kernel = wanted.kernel if any(p.name == wanted.kernel for p in packages) else archive.newest_kernel(everything)
    if not kernel:
        raise BuildError(f"there is no kernel, neither built nor in Debian; build {wanted.kernel}")
    _write(
        packages,
        left,
        into,
        defaults.branch,
        {
            "branch": defaults.branch,
            "kernel": {"wanted": wanted.kernel, "taken": kernel},
            "built": {package.name: package.stanza["Version"] for package in packages},
            "sources": {source.name: source.told() for source in built},
            "left out": [{"package": str(gap.relation), "asked for by": gap.askers, "instead": gap.instead} for gap in left],
        },
    )
    names = {package.name for package in packages}
    for name, reason in _NOT_DEBIAN_S.items():
        if name not in names:
            log.step(f"{name} is Debian's, which {reason}")
    if kernel != wanted.kernel:
        log.step(f"the kernel is Debian's {kernel}, because there is no {wanted.kernel}")
    for gap in left:
        log.step(f"left out: {gap.relation}; instead {gap.instead}")
    return left


def _check_directories(order: Order) -> None:
    if not order.debs and not order.sources:
        raise BuildError("PACKAGES must name a directory of built packages, or SOURCES one of git checkouts to build")
    for directory, what in (
        (order.debs, "name one with built packages: PACKAGES=<dir>"),
        (order.sources, "name one with git checkouts of the sources: SOURCES=<dir>"),
        (order.base, "name a root file system to build in, or omit BASE"),
    ):
        if directory and not directory.is_dir():
            raise BuildError(f"{directory} is not a directory; {what}")
    if order.sources and os.geteuid():
        raise BuildError("root is required to build packages in a chroot; use sudo")


def _build(
    order: Order, wanted: Sequence[str], packages: Sequence[Given], debian: Stock, lines: str, defaults: Defaults,
    log: Log, work: Path,
) -> list[Built]:  # fmt: skip
    """Build what the image needs of the checkouts."""
    assert order.sources
    found, unusable = checkouts.find(order.sources)
    for path, reason in unusable.items():
        log.step(f"{path} is not built: {reason}")
    steps = schedule(wanted, found, [package.stanza for package in packages], debian)
    idle = sorted({source.name for source in found} - {step.source.name for step in steps})
    log.step(f"{len(found)} checkouts in {order.sources}; the image needs {len(steps)} of them")
    if idle:
        log.step(f"not built, because the image needs none of their packages: {', '.join(idle)}")
    unknown = [name for name in _INDISPENSABLE if name in wanted and not _has(name, found, packages)]
    if unknown:
        log.step(f"no checkout builds {', '.join(unknown)}, so packages that only they depend on are not built either")
    base = order.base
    if steps and base is None:
        log.step("creating the Debian to build in (a minute the first time)")
        base = chroot.make_base(lines, defaults.distribution, work)
    place = chroot.Chroot(base or Path("/"), lines, order.options, order.network, order.extra)
    return source_builds.build(steps, packages, place, work / "built", log)


def _has(name: str, found: Sequence[checkouts.Source], packages: Sequence[Given]) -> bool:
    return any(name in source.provides for source in found) or any(package.name == name for package in packages)


def _check_failures(built: Sequence[Built], leave_out: Sequence[str]) -> None:
    """Raises :class:`BuildError` while a source cannot be built that nobody said to leave out."""
    broken = [source for source in built if source.failure]
    needed = [source.name for source in broken if source.provides.intersection(_INDISPENSABLE)]
    if needed:
        raise BuildError(f"{', '.join(needed)} could not be built, without which there is no VyOS; see its log and run it again")
    failed = [source.name for source in broken if not {"all", source.name}.intersection(leave_out)]
    if failed:
        raise BuildError(
            f"{len(failed)} of {len(built)} sources could not be built: {', '.join(failed)}; see their logs and run it again "
            "(finished builds are kept), or leave them out: LEAVE_OUT=all, or names separated by commas"
        )


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
        (theirs,) = read_given(Path(scratch))
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


def _directory(text: str) -> Path | None:
    """A directory; the empty word of a variable of make that nobody has set is none."""
    return Path(text).resolve() if text else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 0 when the repository is made."""
    parser = argparse.ArgumentParser(prog="builder.packages", description=__doc__.partition("\n")[0])
    parser.add_argument("--debs", type=_directory, metavar="DIR", help="packages that are built already")
    parser.add_argument("--sources", type=_directory, metavar="DIR", help="git checkouts with Debian packaging, to be built")
    parser.add_argument("--base", type=_directory, metavar="DIR", help="root file system to build in; else a fresh Debian")
    parser.add_argument("--with", default="", metavar="NAMES", help="build dependencies that the sources do not name")
    parser.add_argument("--network", action="store_true", help="builds may use the network")
    parser.add_argument("--leave-out", default="", help="packages to leave out: all, or names separated by commas")
    parser.add_argument("--release", action="store_true", help="for a release build, which has no smoketests")
    mirrors = ("debian-mirror", "debian-security-mirror")
    for name in mirrors:
        parser.add_argument(f"--{name}", metavar="URL", help="instead of vyos-build's default")
    chosen = vars(parser.parse_args(arguments))
    urls = {name: url for name in mirrors if (url := chosen[name.replace("-", "_")])}
    into = WORK / "repository"
    options = os.environ.get("DEB_BUILD_OPTIONS", f"parallel={len(os.sched_getaffinity(0))}")
    order = Order(
        chosen["debs"], chosen["sources"], chosen["leave_out"].split(","), urls, not chosen["release"], chosen["base"],
        chosen["network"], options, tuple(name for name in chosen["with"].split(",") if name),
    )  # fmt: skip
    try:
        log = Log(WORK / "packages.log")
        make(order, log, into)
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
