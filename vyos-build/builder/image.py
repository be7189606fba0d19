"""Build a VyOS image with the product in it, by VyOS's own program.

    PYTHONPATH=vyos-build python3 -m builder.image [--branch NAME] [--dry-run]

By hand, in the environment: VYOS_BUILD and VYOS_1X (work trees), ZEROTIER_DEB (the pinned zerotier-one package).
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from builder import flavor, manifest, overlay, reach, sources, workshop, worktree, zerotier_one
from builder.branches import BRANCHES, Branch, Defaults, read_defaults
from builder.debs import KEEP, Deb, find, preferences
from builder.errors import BuildError
from builder.local_mirror import LocalMirror, served
from builder.log import Log
from builder.pins import Pins, read_pins
from builder.places import DEBS, HOUSE, WORK
from builder.reach import Need

GIB = 1 << 30
# live-build keeps the packages, the unpacked system, its squashfs and the ISO at once.
FREE_GIB = 20


@dataclass(frozen=True)
class Order:
    """What a person asked for."""

    branch: Branch
    dry_run: bool
    mirrors: dict[str, str]
    version: str
    keys: tuple[Path, ...] = ()  # of the repositories that vyos-build has none for

    def options(self) -> list[str]:
        """The same as options of VyOS's program."""
        words = [f"--{name}={url}" for name, url in self.mirrors.items()]
        words += ["--build-type=release", f"--version={self.version}"] if self.version else []
        words += [f"--custom-apt-key={key}" for key in self.keys]
        return words + (["--dry-run", "--debug"] if self.dry_run else [])


def build(order: Order, pins: Pins, log: Log, work: Path = WORK, debs: Path = DEBS) -> Path | None:
    """Everything from sources to the published image; None after a dry run. Raises :class:`BuildError`."""
    with served(order.mirrors.get("vyos-mirror", "")) as mirror:
        return _build(order, pins, log, work, debs, mirror)


def _build(order: Order, pins: Pins, log: Log, work: Path, debs: Path, mirror: LocalMirror | None) -> Path | None:
    check_tools()
    flavors = work / "flavors"
    flavors.mkdir(parents=True, exist_ok=True)
    if mirror:
        # Beside the flavor, so that a container finds it too.
        key = Path(shutil.copyfile(mirror.key, flavors / mirror.key.name))
        order = replace(order, mirrors={**order.mirrors, "vyos-mirror": mirror.url}, keys=(key,))
    tree = sources.vyos_build(order.branch, work, log)
    defaults = read_defaults(tree, order.branch)
    shop = workshop.choose(defaults.branch)
    shop.check()
    told: dict[str, Any] = provenance(order, pins, tree)
    if mirror:
        told["packages built here"] = mirror.manifest
    log.step(f"vyos-build {told['vyos-build']}")
    given: list[Deb] = []
    if not order.dry_run:
        given += find(debs, order.branch.packages)
        check_disk(tree)
        log.step("checking that everything is available")
        reach.check(network_needs(order, defaults, pins, shop))
        given.append(engine(pins, work, log))
    sources.vyos_1x_beside(tree, defaults, log)
    if order.branch.overlay:
        given += overlaid(order, pins, shop, work, log)
    names = [*order.branch.packages, "zerotier-one", "python3-systemd"]
    (flavors / f"{flavor.NAME}.toml").write_text(
        flavor.compose(names, flavor.default_config(tree), kernel=mirror.kernel if mirror else "")
    )
    with placed(tree, given, defaults):
        log.step("VyOS's program does its dry run" if order.dry_run else "VyOS's program builds the image")
        argv = ["./build-vyos-image", *order.options(), flavor.NAME]
        command = shop.command(argv, tree, tree, {"VYOS_BUILD_FLAVORS_DIR": flavors}, loopback=mirror is not None)
        log.run("build-vyos-image", command, everything=order.dry_run)
    if order.dry_run:
        return None
    installed = manifest.installed_packages(tree / "build")
    manifest.check_installed(installed, given)
    return manifest.publish(_newest_iso(tree / "build"), work, installed, given, told)


def check_tools() -> None:
    """Raises :class:`BuildError` when a program is missing that is used here itself."""
    programs = {"git": "git", "gpg": "gnupg", "gpgv": "gpgv", "dpkg-deb": "dpkg"}
    missing = [package for program, package in programs.items() if not shutil.which(program)]
    if missing:
        raise BuildError(f"{' '.join(missing)} must be installed first; do it with: apt install {' '.join(missing)}")


def check_disk(tree: Path) -> None:
    """Raises :class:`BuildError` when an image would not fit."""
    free = shutil.disk_usage(tree).free
    if free < FREE_GIB * GIB:
        raise BuildError(
            f"{tree} has {free / GIB:.0f} GiB free and an image takes {FREE_GIB} while it is built; "
            f"make room, or name a vyos-build tree on another disk with VYOS_BUILD"
        )


def network_needs(order: Order, defaults: Defaults, pins: Pins, shop: workshop.Workshop) -> list[Need]:
    """All that the build will fetch and that nobody has given by hand."""
    vyos = order.mirrors.get("vyos-mirror", defaults.vyos_mirror)
    debian = order.mirrors.get("debian-mirror", defaults.debian_mirror)
    security = order.mirrors.get("debian-security-mirror", defaults.security_mirror)
    needs = [
        Need("VyOS's packages", f"{vyos}/dists/{defaults.branch}/InRelease", "--vyos-mirror URL"),
        Need("Debian's packages", f"{debian}/dists/{defaults.distribution}/InRelease", "--debian-mirror URL"),
        Need(
            "Debian's security updates",
            f"{security}/dists/{defaults.distribution}-security/InRelease",
            "--debian-security-mirror URL",
        ),
        *(Need("a repository that vyos-build adds", url, "VYOS_BUILD=<dir> without such a repository") for url in defaults.others),
        *shop.needs(),
    ]
    return needs if sources.given("ZEROTIER_DEB") else needs + zerotier_one.needs(pins.zerotier_one)


def provenance(order: Order, pins: Pins, tree: Path) -> dict[str, str]:
    """What the manifest says of the sources."""
    return {
        "branch": order.branch.name,
        "vyos-build": worktree.described(tree),
        "vyos-1x": f"{pins.vyos_1x} with the overlay" if order.branch.overlay else "from the package repository",
        "product": worktree.described(HOUSE),
    }


def engine(pins: Pins, work: Path, log: Log) -> Deb:
    """The pinned zerotier-one, given by hand or from ZeroTier."""
    by_hand = sources.given("ZEROTIER_DEB")
    log.step(f"zerotier-one {pins.zerotier_one.version} {'as given' if by_hand else 'from ZeroTier'}")
    return zerotier_one.check(by_hand, pins.zerotier_one) if by_hand else zerotier_one.fetch(pins.zerotier_one, work)


def overlaid(order: Order, pins: Pins, shop: workshop.Workshop, work: Path, log: Log) -> list[Deb]:
    """vyos-1x with the overlay, built into packages; a dry run only lays the overlay."""
    place = work / "vyos-1x"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    tree = place / "vyos-1x"
    sources.vyos_1x_at(pins.vyos_1x, tree, log)
    written = overlay.lay(tree, HOUSE, pins.vyos_1x)
    log.step(f"overlay: {len(written)} files added to vyos-1x")
    if order.dry_run:
        return []
    log.step("building vyos-1x, which takes some minutes")
    command = shop.command(["dpkg-buildpackage", "-uc", "-us", "-tc", "-b"], tree, place, {})
    log.run("the build of vyos-1x", command)
    # A release has no smoketests.
    names = ("vyos-1x",) if order.version else ("vyos-1x", "vyos-1x-smoketest")
    return find(place, names)


@contextlib.contextmanager
def placed(tree: Path, debs: Sequence[Deb], defaults: Defaults) -> Iterator[None]:
    """Packages, and what apt is to know of them, where VyOS's program looks; taken away again afterwards."""
    config = tree / "data/live-build-config"
    # zerotier-one is named always: a build that is not given ours must not take VyOS's.
    names = sorted({deb.package for deb in debs} | {"zerotier-one"})
    files = [tree / "packages" / f"{d.package}_{d.version.replace(':', '%3a')}_{d.architecture}.deb" for d in debs]
    apt = config / "apt/apt.conf"  # for the time of the build; not in the image
    before = apt.read_text() if apt.exists() else ""
    said = {
        config / f"archives/{flavor.NAME}.pref.chroot": preferences(names, defaults.train),
        apt: before + KEEP,
    }
    try:
        for deb, file in zip(debs, files, strict=True):
            file.parent.mkdir(exist_ok=True)
            shutil.copyfile(deb.path, file)
        for file, text in said.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        yield
    finally:
        for file in [*files, *said]:
            file.unlink(missing_ok=True)
        if before:
            apt.write_text(before)


def _newest_iso(build_dir: Path) -> Path:
    made = sorted(build_dir.glob(f"vyos-*-{flavor.NAME}-*.iso"), key=lambda path: path.stat().st_mtime)
    if not made:
        raise BuildError(f"{build_dir} has no image although the build succeeded; see the log")
    return made[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; 0 when the image, or the dry run, is done."""
    parser = argparse.ArgumentParser(prog="builder.image", description=__doc__.partition("\n")[0])
    parser.add_argument("--branch", choices=sorted(BRANCHES), default="rolling", help="branch of VyOS")
    parser.add_argument("--dry-run", action="store_true", help="stop after VyOS's own dry run")
    parser.add_argument("--version", default="", help="version of a release build; without it a development build")
    mirrors = ("vyos-mirror", "debian-mirror", "debian-security-mirror")
    for name in mirrors:
        parser.add_argument(f"--{name}", metavar="URL", help="instead of VyOS's default; VyOS's may be file:DIR")
    chosen = vars(parser.parse_args(arguments))
    urls = {name: url for name in mirrors if (url := chosen[name.replace("-", "_")])}
    order = Order(BRANCHES[chosen["branch"]], chosen["dry_run"], urls, chosen["version"])
    try:
        log = Log(WORK / "image.log")
        image = build(order, read_pins(), log)
    except (BuildError, OSError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("image: interrupted", file=sys.stderr)
        return 130
    log.step(f"done: {image}" if image else f"dry run done; the log is {log.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
