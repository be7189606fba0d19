"""Where VyOS's programs run: in the container that VyOS documents for it, or on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from builder.errors import BuildError
from builder.reach import Need

# What VyOS's program and the build of vyos-1x want to find installed.
IMAGE_PACKAGES = (
    "sudo",
    "make",
    "live-build",
    "pbuilder",
    "devscripts",
    "python3-pystache",
    "python3-git",
    "python3-tomli",
    "python3-jinja2",
    "python3-psutil",
    "python3-requests",
    "qemu-utils",
    "gdisk",
    "kpartx",
    "dosfstools",
)
# VyOS's programs are started with whatever python3 comes first; the modules above are for Debian's.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Workshop(ABC):
    """A place where commands of VyOS run."""

    @abstractmethod
    def needs(self) -> list[Need]:
        """What it still has to bring over the network."""

    @abstractmethod
    def check(self) -> None:
        """Raises :class:`BuildError` when something is missing that no network brings."""

    @abstractmethod
    def command(
        self, argv: Sequence[str], inside: Path, writes: Path, env: Mapping[str, Path], loopback: bool = False
    ) -> list[str]:
        """The command that runs ``argv`` as root inside a directory.

        It may write below ``writes``, finds the directories that ``env`` names, and with ``loopback`` what is served on
        this machine's loopback.
        """


class Container(Workshop):
    """VyOS's build container under Docker."""

    def __init__(self, tag: str) -> None:
        self._image = f"vyos/vyos-build:{tag}"

    def needs(self) -> list[Need]:
        if subprocess.run(["docker", "image", "inspect", self._image], capture_output=True).returncode == 0:
            return []
        by_hand = f"docker load of an image {self._image}"
        return [Need(f"the image {self._image}", "https://registry-1.docker.io/v2/", by_hand, demands_login=True)]

    def check(self) -> None:
        return

    def command(
        self, argv: Sequence[str], inside: Path, writes: Path, env: Mapping[str, Path], loopback: bool = False
    ) -> list[str]:
        reads = [f"--volume={path}:{path}:ro" for path in env.values()]
        # Docker sets no sysctl in the network of its host.
        network = "--network=host" if loopback else "--sysctl=net.ipv6.conf.lo.disable_ipv6=0"
        return [
            "docker",
            "run",
            "--rm",
            "--privileged",
            network,
            f"--volume={writes}:{writes}",
            *reads,
            f"--workdir={inside}",
            self._image,
            "sudo",
            "env",
            *_assignments(env),
            *argv,
        ]


class Native(Workshop):
    """This machine."""

    def needs(self) -> list[Need]:
        return []

    def check(self) -> None:
        if os.geteuid():
            raise BuildError("an image is built as root; use sudo, or install docker")
        missing = [name for name in IMAGE_PACKAGES if not _installed(name)]
        if missing:
            raise BuildError(
                f"there is no docker here, and a build on this machine lacks {' '.join(missing)}; "
                f"install them with: apt install {' '.join(missing)}"
            )

    def command(
        self, argv: Sequence[str], inside: Path, writes: Path, env: Mapping[str, Path], loopback: bool = False
    ) -> list[str]:
        return ["env", f"--chdir={inside}", f"PATH={SYSTEM_PATH}", *_assignments(env), *argv]


def choose(tag: str) -> Workshop:
    """The container where a docker daemon answers, else this machine."""
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        return Container(tag)
    return Native()


def _assignments(env: Mapping[str, Path]) -> list[str]:
    return [f"{name}={path}" for name, path in env.items()]


def _installed(package: str) -> bool:
    said = subprocess.run(["dpkg-query", "-Wf", "${db:Status-Abbrev}", package], capture_output=True, text=True)
    return said.stdout.startswith("ii")
