"""What the page's template shows: tables, blocks of a plot and its table, sections. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """Text, a second line in small print, a kind (``good``, ``bad``, ``why``) and the columns that it spans."""

    text: str
    small: str = ""
    kind: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """The first column names the row; ``group`` of a row is its subject's."""

    caption: str
    headers: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]  # (group, cells)


@dataclass(frozen=True)
class Block:
    """A plot with its table beside it; either may be missing. ``wide`` plots take the whole width and scroll."""

    title: str
    svg: str = ""
    table: Table | None = None
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A scenario: the question, the blocks that answer it, how it was measured, and the commands."""

    ident: str
    title: str
    question: str
    method: str
    blocks: Sequence[Block]
    commands: Sequence[tuple[str, Sequence[str]]] = ()  # (subject, commands)


def unavailable(label: str, group: str, why: str, columns: int) -> tuple[str, list[Cell]]:
    """A row that says why there is no figure."""
    return group, [Cell(label), Cell(f"not available: {why}", kind="why", span=columns - 1)]
