"""What an image would lack: the dependencies that neither the given packages nor Debian's meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from builder.control import Clause, Relation, Stanza, Stock, demands


@dataclass(frozen=True)
class Gap:
    """A dependency that nothing meets, who asks for it, and the version that Debian has of it.

    ``kept_out`` says why Debian's version cannot be in the image; "" when it can, or when there is none.
    """

    clause: Clause
    askers: tuple[str, ...]
    debian: str = ""
    kept_out: str = ""

    @property
    def name(self) -> str:
        """The package that is asked for first."""
        return self.clause[0].name

    @property
    def relation(self) -> Relation:
        """What would meet it."""
        return self.clause[0]

    @property
    def instead(self) -> str:
        """What the image has in its place."""
        if self.kept_out:
            return f"nothing, because {self.kept_out}"
        return f"Debian's {self.debian}" if self.debian else "nothing"


def find_gaps(wanted: Mapping[str, str], given: Iterable[Stanza], debian: Stock) -> list[Gap]:
    """Gaps of an image with the wanted packages, sorted by name.

    Debian's packages have all that they ask for in Debian. So only the given ones are looked into, and of these those
    that the image would have.
    """
    local = {stanza["Package"]: stanza for stanza in given}
    both = Stock(_copy(debian.versions), _copy(debian.provided))
    both.add(local.values())
    open_clauses: list[tuple[Clause, str]] = [((Relation(name),), asker) for name, asker in wanted.items()]
    seen: set[str] = set()
    unmet: dict[Clause, list[str]] = {}
    while open_clauses:
        clause, asker = open_clauses.pop()
        if not both.meets(clause):
            unmet.setdefault(clause, []).append(asker)
        for relation in clause:
            if relation.name in local and relation.name not in seen:
                seen.add(relation.name)
                open_clauses += [(demand, relation.name) for demand in demands(local[relation.name])]
    gaps = [Gap(clause, tuple(sorted(set(askers))), _newest(debian, clause)) for clause, askers in unmet.items()]
    return sorted(gaps, key=lambda gap: str(gap.relation))


def _newest(debian: Stock, clause: Clause) -> str:
    there = debian.versions.get(clause[0].name, [])
    return there[-1] if there else ""


def _copy(stock: Mapping[str, list[str]]) -> dict[str, list[str]]:
    copied: dict[str, list[str]] = defaultdict(list)
    copied.update({name: list(versions) for name, versions in stock.items()})
    return copied
