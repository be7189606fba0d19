"""Git checkouts with Debian packaging: which packages each makes, and what it needs for that, by its own debian/."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from builder.control import Clause, Stanza, clauses, stanzas

_DEPTH = 3  # of a checkout below the directory that is searched: HOST/OWNER/NAME
_BUILD_DEPENDS = ("Build-Depends", "Build-Depends-Arch", "Build-Depends-Indep")


@dataclass(frozen=True)
class Source:
    """A checkout, the packages that it says it makes, and its build dependencies."""

    name: str
    tree: Path
    packages: tuple[Stanza, ...]
    build_depends: tuple[Clause, ...]

    @property
    def provides(self) -> set[str]:
        """Every name that its packages answer to."""
        virtual = (clause[0].name for stanza in self.packages for clause in clauses(stanza.get("Provides", "")))
        return {stanza["Package"] for stanza in self.packages} | set(virtual)


def find(directory: Path) -> tuple[list[Source], dict[Path, str]]:
    """The checkouts below a directory that have Debian packaging; and those that cannot be used, with the reason."""
    found: list[Source] = []
    unusable: dict[Path, str] = {}
    for tree in _checkouts(directory.resolve(), _DEPTH):
        if not (tree / ".git").is_dir():
            unusable[tree] = "it is a linked work tree or a submodule of git; give a clone"
            continue
        try:
            found.append(read(tree))
        except (OSError, ValueError, KeyError) as error:
            unusable[tree] = f"its debian/ cannot be read ({error})"
    return found, unusable


def _checkouts(directory: Path, depth: int) -> Iterator[Path]:
    if (directory / ".git").exists():
        if (directory / "debian/control").exists():
            yield directory
    elif depth:
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir() and not entry.name.startswith("."):
                yield from _checkouts(Path(entry.path), depth - 1)


def read(tree: Path) -> Source:
    """What a tree's debian/control says; raises ValueError, KeyError or OSError where it says nothing of use."""
    heading = re.match(r"\s*\S+ \(([^\s()]+)\)", (tree / "debian/changelog").read_text())
    if not heading:
        raise ValueError("debian/changelog does not begin with a version")
    said = _filled((tree / "debian/control").read_text(), heading[1])
    head, *rest = stanzas(said)
    packages = tuple({**stanza, "Version": heading[1]} for stanza in rest if _made_here(stanza))
    if not packages:
        raise ValueError("debian/control has no package for amd64")
    needs = tuple(clause for field in _BUILD_DEPENDS for clause in clauses(head.get(field, "")))
    return Source(head["Source"], tree, packages, needs)


def _filled(control: str, version: str) -> str:
    """The text with the variables for its own version filled in; what asks for another computed version asks for any."""
    own = re.sub(r"\$\{(?:binary:Version|source:Version|Source-Version)\}", version, control)
    own = own.replace("${source:Upstream-Version}", version.rpartition("-")[0] or version)
    return re.sub(r"\([^()]*\$\{[^()]*\)", "", own)


def _made_here(stanza: Stanza) -> bool:
    architectures = stanza.get("Architecture", "").split()
    return bool({"all", "any", "amd64", "linux-any", "any-amd64", "linux-amd64"}.intersection(architectures))
