"""What conf scripts read: the configuration that a commit proposes, and the one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ztsh import places
from ztsh.configuration import running
from ztsh.schema import Node, load_schema
from ztsh.tree import Tree


@dataclass(frozen=True)
class Proposal:
    """Two configurations under one set of definitions."""

    schema: Node
    running: Tree
    proposed: Tree


_current: ContextVar[Proposal | None] = ContextVar("proposal", default=None)


@contextmanager
def proposing(proposal: Proposal) -> Iterator[None]:
    """Make a commit's proposal the one that scripts read inside."""
    token = _current.set(proposal)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Proposal:
    """The commit's proposal; outside a commit both configurations are the running one."""
    inside = _current.get()
    if inside is not None:
        return inside
    schema = load_schema(places.definitions())
    tree = running(schema).tree
    return Proposal(schema, tree, tree)
