"""Files that two packages bring, which dpkg finds out only when half of an image is installed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from builder.control import clauses
from builder.errors import BuildError
from builder.repository import Given


def check(packages: Sequence[Given]) -> None:
    """Raises :class:`BuildError` with every pair of packages that dpkg would not install together."""
    owner: dict[str, Given] = {}
    pairs: dict[tuple[str, str], str] = {}
    for package in packages:
        for path in files(package):
            other = owner.setdefault(path, package)
            if other is not package and not (_makes_way(package, other) or _makes_way(other, package)):
                pairs.setdefault((other.name, package.name), path)
    if pairs:
        told = "; ".join(f"{one} and {other} both have {path}" for (one, other), path in sorted(pairs.items()))
        raise BuildError(f"{told}: remove the package whose files the newer one has taken over")


def between(other: Given, packages: Sequence[Given]) -> tuple[str, str] | None:
    """The first of the packages with a file that a package of Debian has too, and that file; None for no such.

    What a package diverts is not counted: dpkg then puts Debian's file elsewhere.
    """
    theirs = set(files(other))
    for package in packages:
        shared = sorted(theirs.intersection(files(package)).difference(_diverted(package)))
        if shared and not (_makes_way(package, other) or _makes_way(other, package)):
            return package.name, shared[0]
    return None


def files(package: Given) -> list[str]:
    """Everything in a package that is not a directory; raises :class:`BuildError`."""
    said = subprocess.run(["dpkg-deb", "--contents", str(package.path)], capture_output=True, text=True, check=False)
    if said.returncode:
        raise BuildError(f"{package.path} cannot be unpacked ({said.stderr.strip()}); build it again")
    # drwxr-xr-x root/root 0 2024-10-21 00:00 ./usr/ -- a link has its target behind an arrow.
    rows = (line.split(maxsplit=5) for line in said.stdout.splitlines())
    return [row[5].partition(" -> ")[0].removeprefix(".") for row in rows if not row[0].startswith("d")]


def _diverted(package: Given) -> list[str]:
    """What the package's preinst says to dpkg-divert: vyos-1x has one plain line for each file."""
    said = subprocess.run(["dpkg-deb", "--info", str(package.path), "preinst"], capture_output=True, text=True, check=False)
    return [word for line in said.stdout.splitlines() if "dpkg-divert" in line for word in line.split() if word[0] == "/"]


def _makes_way(one: Given, other: Given) -> bool:
    said = ", ".join(one.stanza.get(name, "") for name in ("Replaces", "Conflicts"))
    return any(relation.name == other.name for clause in clauses(said) for relation in clause)
