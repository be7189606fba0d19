"""Debian's control files: stanzas, what packages ask for, and whether something meets it."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Stanza = Mapping[str, str]
_RELATION = re.compile(r"([a-z0-9][a-z0-9+.-]+)(?::\w+)?(?:\s*\((<<|<=|=|>=|>>)\s*([^)\s]+)\))?")
_ARCHITECTURES = {"amd64", "any", "any-amd64", "linux-any", "linux-amd64"}  # what names this one


@dataclass(frozen=True)
class Relation:
    """One alternative of a dependency: a name, and the versions that will do."""

    name: str
    operator: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.operator} {self.version})" if self.operator else self.name


Clause = tuple[Relation, ...]  # alternatives, of which one will do


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The stanzas of a control file; what continues a field is joined to it by newlines."""
    for block in re.split(r"\n\s*\n", text.strip()):
        found: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line[:1] in " \t" and name:
                found[name] += "\n" + line.strip()
            elif ":" in line and not line.startswith("#"):
                name, _, value = line.partition(":")
                found[name] = value.strip()
        if found:
            yield found


def clauses(text: str) -> list[Clause]:
    """What a field such as Depends says for amd64 and no build profile; what cannot be read as a relation is left out."""
    found = []
    for part in text.split(","):
        relations = tuple(
            Relation(match[1], match[2] or "", match[3] or "")
            for alternative in part.split("|")
            if (match := _RELATION.match(alternative.strip())) and _applies(alternative)
        )
        if relations:
            found.append(relations)
    return found


def _applies(relation: str) -> bool:
    """Whether the architectures in brackets and the build profiles in angle brackets hold here."""
    architectures = " ".join(re.findall(r"\[([^]]*)\]", relation)).split()
    excluded = {name[1:] for name in architectures if name.startswith("!")}
    if excluded & _ARCHITECTURES or (architectures and not excluded and not _ARCHITECTURES.intersection(architectures)):
        return False
    profiles = [group.split() for group in re.findall(r"<([^<>=]+)>", relation)]
    return not profiles or any(all(term.startswith("!") for term in group) for group in profiles)


def demands(stanza: Stanza) -> list[Clause]:
    """What a package must have beside it."""
    return [clause for name in ("Pre-Depends", "Depends") for clause in clauses(stanza.get(name, ""))]


@dataclass
class Stock:
    """Packages by name, real and provided ones."""

    versions: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    provided: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # "" for no version

    def add(self, packages: Iterable[Stanza]) -> None:
        """Put packages into stock."""
        for stanza in packages:
            self.versions[stanza["Package"]].append(stanza["Version"])
            for clause in clauses(stanza.get("Provides", "")):
                self.provided[clause[0].name].append(clause[0].version)

    def has(self, name: str) -> bool:
        """Whether there is anything of a name, whatever its version."""
        return name in self.versions or name in self.provided

    def meets(self, clause: Clause) -> bool:
        """Whether something in stock satisfies a dependency, by Debian's rules."""
        return any(self._meets(relation) for relation in clause)

    def _meets(self, wanted: Relation) -> bool:
        if not wanted.operator:
            return self.has(wanted.name)
        # A provided name without a version satisfies no dependency that asks for one.
        there = self.versions.get(wanted.name, []) + [v for v in self.provided.get(wanted.name, []) if v]
        return any(holds(version, wanted.operator, wanted.version) for version in there)


def holds(version: str, operator: str, other: str) -> bool:
    """Whether a comparison of two versions is true; dpkg decides."""
    command = ["dpkg", "--compare-versions", version, operator, other]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
