"""The file system of the image, made by live-build from the configuration in ``debian-image/live``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imagebuild.mirror import AREAS, SOURCES, SUITE, Mirror
from imagebuild.steps import BuildError, Steps

# What installing leaves behind. Directories stay, with nothing in them.
EMPTIED = ("var/lib/apt/lists", "var/cache/apt", "var/cache/debconf", "var/log", "tmp", "var/tmp", "run")
REMOVED = (
    "etc/apt/apt.conf.d/00secure", "etc/.resolv.conf.systemd-resolved.bak", "etc/.pwd.lock", "etc/hosts.orig",
    "etc/machine-id.orig",
    "var/lib/dbus/machine-id", "var/lib/systemd/random-seed", "var/lib/systemd/credential.secret",
    "root/.bash_history", "root/.ssh", "root/packages", "var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend",
    "var/cache/ldconfig/aux-cache",
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """What an image calls itself."""

    version: str  # of the product
    commit: str
    epoch: int

    @property
    def name(self) -> str:
        """Version and commit in one word, as ``show system image`` lists it."""
        return f"{self.version}-{self.commit}"


def configure(steps: Steps, work: Path, configuration: Path, debs: Sequence[Path], mirror: Mirror) -> None:
    """Lay out live-build's directory."""
    shutil.copytree(configuration, work / "config", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (work / "config/packages.chroot").mkdir(parents=True, exist_ok=True)
    for deb in debs:
        shutil.copy(deb, work / "config/packages.chroot")
    # systemd-resolved takes over /etc/resolv.conf as soon as it is installed, long before it runs.
    resolved = work / "config/includes.chroot_before_packages/run/systemd/resolve"
    resolved.mkdir(parents=True)
    shutil.copy("/etc/resolv.conf", resolved / "stub-resolv.conf")
    options = "--yes -o Acquire::Retries=5"
    if mirror.ignores_expiry:
        options += " -o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false"
    steps.run(
        [
            "lb", "config", "--distribution", SUITE, "--archive-areas", AREAS, "--architecture", "amd64",
            "--mirror-bootstrap", mirror.main, "--mirror-binary", mirror.main,
            "--mirror-chroot-security", mirror.security, "--mirror-binary-security", mirror.security,
            "--debootstrap-options", "--variant=minbase", "--apt-recommends", "false", "--apt-options", options,
            "--apt-source-archives", "false", "--apt-indices", "false", "--firmware-chroot", "false",
            "--linux-flavours", "amd64", "--initsystem", "systemd", "--memtest", "none", "--checksums", "none",
            "--zsync", "false", "--cache", "false", "--color", "--verbose",
        ],
        cwd=work,
    )  # fmt: skip


def finish(root: Path, identity: Identity) -> None:
    """Take out what is left of this machine and put in what the image is called."""
    for name in EMPTIED:
        _empty(root / name)
    for name in REMOVED:
        path = root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in [*root.glob("etc/ssh/ssh_host_*"), *root.glob("var/lib/dpkg/*-old"), *root.glob("etc/*-")]:
        path.unlink()
    for name in ("partial", "archives/partial"):
        (root / "var/cache/apt" / name).mkdir(parents=True, exist_ok=True)
    (root / "var/lib/apt/lists/partial").mkdir(parents=True, exist_ok=True)
    for extra in (root / "etc/apt/sources.list.d").glob("*"):
        extra.unlink()
    for name, text in {
        "etc/apt/sources.list": SOURCES,
        # An empty one means: make one at boot, and this is no first boot that would apply presets.
        "etc/machine-id": "",
        "etc/hostname": "router\n",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 router\n::1 localhost ip6-localhost\n",
        "etc/router-image": f"NAME={identity.name}\nEPOCH={identity.epoch}\n",
    }.items():
        (root / name).write_text(text)
        (root / name).chmod(0o644)  # live-build leaves some of them executable
    resolv = root / "etc/resolv.conf"
    resolv.unlink(missing_ok=True)
    resolv.symlink_to("../run/systemd/resolve/stub-resolv.conf")
    # Whether a mount point has the time of its last use or of its package depends on the machine that builds.
    for name in ("dev", "proc", "run", "sys", "tmp"):
        os.utime(root / name, (identity.epoch, identity.epoch))


def _empty(path: Path) -> None:
    for entry in path.iterdir() if path.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            # Programs look for their log directories; only what is in them goes.
            if path.name == "log":
                _empty(entry)
            else:
                shutil.rmtree(entry)
        else:
            entry.unlink()


def leftovers(root: Path, words: Sequence[str]) -> list[str]:
    """Files of the image below /etc, /var and /root in which one of the words stands. Binaries are looked at too."""
    found = []
    wanted = [word.encode() for word in words if word]
    for top in ("etc", "var", "root"):
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 64 << 20:
                content = path.read_bytes()
                if any(word in content for word in wanted):
                    found.append(str(path.relative_to(root)))
    return found


def check(root: Path, words: Sequence[str]) -> None:
    """Raises :class:`BuildError` when something of this machine is still in the image."""
    found = leftovers(root, words)
    if found:
        raise BuildError(f"the image still names the package mirror of this machine in {', '.join(found)}; report this as a bug")
