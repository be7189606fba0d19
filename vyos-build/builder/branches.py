"""The branches of VyOS that images are made of."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from builder.errors import BuildError


@dataclass(frozen=True)
class Branch:
    """One branch: its names in ``defaults.toml`` over the years, and how the product gets into it."""

    name: str
    known_as: tuple[str, ...]
    overlay: bool  # vyos-1x is built with the product in it; otherwise the add-on package is installed

    @property
    def packages(self) -> tuple[str, ...]:
        """Our packages that go into an image."""
        return ("ztnode",) if self.overlay else ("zerotier-multi", "ztnode")


BRANCHES = {
    branch.name: branch
    for branch in (
        Branch("sagitta", ("sagitta",), overlay=False),
        Branch("circinus", ("circinus",), overlay=False),
        Branch("rolling", ("rolling", "current"), overlay=True),
    )
}


@dataclass(frozen=True)
class Defaults:
    """What a vyos-build tree builds from, as it says itself for amd64."""

    branch: str
    train: str
    distribution: str
    vyos_mirror: str
    debian_mirror: str
    security_mirror: str
    others: tuple[str, ...]  # release files of further repositories


def read_defaults(tree: Path, branch: Branch) -> Defaults:
    """Defaults of a vyos-build tree; raises :class:`BuildError` unless the tree is of that branch."""
    try:
        path = tree / "data/defaults.toml"
        found = tomllib.loads(path.read_text())
        path = tree / "data/architectures/amd64.toml"
        machine = tomllib.loads(path.read_text())
        more = found.get("additional_repositories", []) + machine.get("additional_repositories", [])
        defaults = Defaults(
            branch=found["vyos_branch"],
            train=found["release_train"],
            distribution=found["debian_distribution"],
            vyos_mirror=found["vyos_mirror"],
            debian_mirror=found["debian_mirror"],
            security_mirror=found["debian_security_mirror"],
            others=tuple(map(_release_file, more)),
        )
    except (OSError, KeyError, ValueError) as error:
        raise BuildError(f"{path} cannot be used ({error}); give a vyos-build work tree in VYOS_BUILD") from None
    if defaults.branch not in branch.known_as:
        raise BuildError(
            f"{tree} is vyos-build for {defaults.branch}, not for {branch.name}; "
            f"check out that branch or name another one with BRANCH"
        )
    return defaults


def _release_file(entry: str) -> str:
    """Where the release file of a line of sources.list is."""
    found = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", entry)
    if not found:
        raise ValueError(f"additional repository {entry!r}")
    return f"{found[1].rstrip('/')}/dists/{found[2]}/InRelease"
