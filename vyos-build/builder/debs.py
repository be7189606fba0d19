"""Debian packages as files."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError


@dataclass(frozen=True)
class Deb:
    """A package file and what it says of itself."""

    path: Path
    package: str
    version: str
    architecture: str
    sha256: str


def read_deb(path: Path) -> Deb:
    """Look into a package file; raises :class:`BuildError`."""
    show = "--showformat=${Package}\\n${Version}\\n${Architecture}\\n"
    try:
        said = subprocess.run(["dpkg-deb", "--show", show, str(path)], capture_output=True, text=True, check=True)
        package, version, architecture = said.stdout.splitlines()
        return Deb(path, package, version, architecture, hashlib.sha256(path.read_bytes()).hexdigest())
    except (OSError, ValueError, subprocess.CalledProcessError):
        raise BuildError(f"{path} is not a readable Debian package; give another one") from None


def find(directory: Path, names: Iterable[str]) -> list[Deb]:
    """The packages of these names in a directory, one each; raises :class:`BuildError`."""
    found = []
    for name in names:
        paths = [path for arch in ("amd64", "all") for path in sorted(directory.glob(f"{name}_*_{arch}.deb"))]
        if len(paths) != 1:
            raise BuildError(f"{directory} has {len(paths)} packages {name} instead of one; build them with: make debs")
        found.append(read_deb(paths[0]))
    return found


# live-build installs squashfs-tools for a moment, and takes it away with all that came with vyos-1x, which depends on
# it. When it is given packages as files, that is before it takes the initramfs and the signed boot loader: the
# initramfs loses its RAID and its encryption. It also removes Debian's signed boot loader, which is protected by now.
KEEP = 'APT::NeverAutoRemove { ".*"; };\nAPT::Get::allow-remove-essential "true";\n'


def preferences(packages: Iterable[str], train: str) -> str:
    """apt preferences that take these packages from the files given to live-build and never from VyOS.

    VyOS gives its own repository priority 999, which would win over packages that are given as files; its
    zerotier-one in particular is another build.
    """
    return "\n".join(
        f"Package: {name}\nPin: release o=config/packages.chroot\nPin-Priority: 1001\n\n"
        f"Package: {name}\nPin: release n={train}\nPin-Priority: -1\n"
        for name in packages
    )
