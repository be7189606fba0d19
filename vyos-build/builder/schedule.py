"""Which sources an image needs, and in which order they are built. Decided from what is declared alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from builder.checkouts import Source
from builder.control import Clause, Relation, Stanza, Stock, demands
from builder.errors import BuildError


@dataclass(frozen=True)
class Step:
    """A source, the sources that are built before it because it needs them, and what nobody has for it."""

    source: Source
    after: tuple[str, ...]
    missing: tuple[Clause, ...] = ()
    circle: bool = False  # it cannot be built before itself


class _Makers:
    """Who makes a package: a source, or somebody who has built it already."""

    def __init__(self, sources: Sequence[Source], given: Iterable[Stanza]) -> None:
        self._by_name: dict[str, list[Source]] = {}
        for source in sources:
            for name in source.provides:
                self._by_name.setdefault(name, []).append(source)
        self.stanzas: dict[str, Stanza] = {stanza["Package"]: stanza for stanza in given}
        for source in sources:
            self.stanzas.update({stanza["Package"]: stanza for stanza in source.packages})

    def source_of(self, name: str) -> Source | None:
        """The source that makes a package; raises :class:`BuildError` where there are two."""
        makers = self._by_name.get(name, [])
        if len(makers) > 1:
            trees = " and ".join(str(maker.tree) for maker in makers)
            raise BuildError(f"{trees} both build {name}; remove one of them from SOURCES")
        return makers[0] if makers else None

    def demands(self, name: str) -> list[Clause]:
        """What a package needs at run time, and the packages that provide a virtual one."""
        if name in self.stanzas:
            return demands(self.stanzas[name])
        maker = self.source_of(name)
        return [(Relation(stanza["Package"]),) for stanza in maker.packages] if maker else []


def schedule(wanted: Iterable[str], sources: Sequence[Source], given: Sequence[Stanza], debian: Stock) -> list[Step]:
    """The sources that make something wanted, or what that needs to run or to be built, each after those it needs.

    Of a dependency that Debian meets as well, the source is taken at run time (somebody brought it for that), and
    Debian's package while building. Raises :class:`BuildError`.
    """
    makers = _Makers(sources, given)
    everything = Stock()
    everything.add([*given, *(stanza for source in sources for stanza in source.packages)])
    needed: dict[str, Source] = {}
    waiting = list(_closure([(Relation(name),) for name in wanted], makers, debian))
    while waiting:
        source = waiting.pop()
        if source.name not in needed:
            needed[source.name] = source
            open_clauses = [clause for clause in source.build_depends if not debian.meets(clause)]
            waiting += _closure(open_clauses, makers, debian)
    steps = {}
    for name, source in needed.items():
        before = {other.name for other in _closure(source.build_depends, makers, debian)} & set(needed)
        missing = [c for c in source.build_depends if not debian.meets(c) and not everything.meets(c)]
        steps[name] = Step(source, tuple(sorted(before - {name})), tuple(missing))
    return _ordered(steps)


def _closure(open_clauses: Iterable[Clause], makers: _Makers, debian: Stock) -> list[Source]:
    """The sources of everything that these dependencies lead to at run time."""
    found: dict[str, Source] = {}
    waiting, seen = list(open_clauses), set[str]()
    while waiting:
        name = _chosen(waiting.pop(), makers, debian)
        if name is None or name in seen:
            continue
        seen.add(name)
        source = makers.source_of(name)
        if source:
            found[source.name] = source
        waiting += makers.demands(name)
    return list(found.values())


def _chosen(clause: Clause, makers: _Makers, debian: Stock) -> str | None:
    """The alternative that apt would take, where it is not Debian's."""
    for relation in clause:
        if relation.name in makers.stanzas or makers.source_of(relation.name):
            return relation.name
        if debian.meets((relation,)):
            return None
    return None


def _ordered(steps: Mapping[str, Step]) -> list[Step]:
    done: dict[str, Step] = {}
    while len(done) < len(steps):
        ready = sorted(name for name, step in steps.items() if name not in done and done.keys() >= set(step.after))
        if not ready:
            left = sorted(steps.keys() - done.keys())
            return [*done.values(), *(Step(steps[n].source, steps[n].after, steps[n].missing, circle=True) for n in left)]
        done.update({name: steps[name] for name in ready})
    return list(done.values())
