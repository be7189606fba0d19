"""Text for people: tables that fit the screen, and values with their units."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence

from zerotier_multi.states import WORKING, BundleState, LinkState, NetworkState, PathState

WIDTH = 80
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_GREEN, _YELLOW, _RED = 32, 33, 31
_COLOURS: dict[str, int] = {
    **dict.fromkeys((*WORKING, "direct"), _GREEN),
    **dict.fromkeys((BundleState.DEGRADED, BundleState.DISABLED, "relayed", "Warning:"), _YELLOW),
    **dict.fromkeys((PathState.WAITING, PathState.DRAINED, PathState.UNKNOWN, PathState.HELD, PathState.NARROW), _YELLOW),
    **dict.fromkeys((NetworkState.UNAUTHORIZED, NetworkState.REQUESTING, NetworkState.NO_PATH), _YELLOW),
    **dict.fromkeys(
        (NetworkState.NO_ROOT, NetworkState.NOT_FOUND, NetworkState.SIGN_IN, NetworkState.TOO_OLD, NetworkState.PORT_ERROR), _RED
    ),
    **dict.fromkeys((PathState.DOWN, PathState.REMOTE_DOWN, PathState.NO_ROUTE, PathState.NO_DEVICE), _RED),
    **dict.fromkeys((LinkState.LINK_DOWN, LinkState.ADMIN_DOWN, "none", "missing", "failed"), _RED),
}


def use_colour() -> bool:
    """Whether the reader is a terminal that wants colours (see no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def state(word: str, colour: bool) -> str:
    """A state word, green, yellow or red where colours are wanted."""
    number = _COLOURS.get("relayed" if word.startswith("via ") else word)
    return f"\x1b[{number}m{word}\x1b[0m" if colour and number else word


def visible(text: str) -> int:
    """Columns that a text takes; colours take none."""
    return len(_ESCAPE.sub("", text))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: str = "", width: int = WIDTH) -> str:
    """A table of at most ``width`` columns, without a newline at its end.

    A header may have two lines. ``right`` names the columns that are aligned to the right, by one letter each:
    ``l`` or ``r``. What does not fit becomes one block of "Key: value" lines per row, without
    the cells that are empty.
    """
    heads = [header.split("\n") for header in headers]
    deep = max(len(head) for head in heads)
    heads = [[""] * (deep - len(head)) + head for head in heads]
    lines = [[head[at] for head in heads] for at in range(deep)]
    widths = [max(visible(line[at]) for line in [*lines, *rows]) for at in range(len(headers))]
    gap = next((g for g in (2, 1) if sum(widths) + g * (len(widths) - 1) <= width), None)
    if gap is None:
        titles = [_one_line(header) for header in headers]
        blocks = ([(title, cell) for title, cell in zip(titles, row, strict=True) if cell] for row in rows)
        return "\n\n".join(pairs(block, width) for block in blocks)
    aligned = right.ljust(len(headers), "l")
    rule = ["-" * w for w in widths]
    return "\n".join(
        (" " * gap).join(_pad(cell, w, a) for cell, w, a in zip(line, widths, aligned, strict=True)).rstrip()
        for line in [*lines, rule, *rows]
    )


def _one_line(header: str) -> str:
    first, _, second = header.partition("\n")
    return f"{first} ({second})" if second and not first.endswith("-") else first.removesuffix("-") + second


def _pad(cell: str, width: int, align: str) -> str:
    space = " " * (width - visible(cell))
    return space + cell if align == "r" else cell + space


def pairs(entries: Sequence[tuple[str, str]], width: int = WIDTH) -> str:
    """Lines "Key: value", the values below each other; a long value goes on in the next line."""
    indent = max((len(key) for key, _ in entries), default=0) + 2
    return "\n".join(_pair(key, value, indent, width) for key, value in entries)


def _pair(key: str, value: str, indent: int, width: int) -> str:
    head = f"{key}:".ljust(indent)
    if indent + visible(value) <= width:
        return head + value
    return "\n".join(wrap(value, width, head, " " * indent))


def wrap(text: str, width: int = WIDTH, first: str = "", rest: str = "") -> list[str]:
    """A sentence in lines; a word that is too long is broken."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def clean(text: str) -> str:
    """A text from outside without control characters, which a terminal would obey."""
    return _CONTROL.sub("?", text)


# -- values


def dash(value: object) -> str:
    """A value, or ``-`` for what is not known."""
    return "-" if value is None else clean(str(value))


def mbit(bits: int | None) -> str:
    """Bits per second as Mbit/s."""
    return "-" if bits is None else f"{bits / 1e6:.2f}"


def mebibytes(count: int | None) -> str:
    """Bytes as MiB."""
    return "-" if count is None else f"{count / (1 << 20):.1f}"


def milliseconds(value: float | None) -> str:
    """Milliseconds, with one digit behind the point below 10."""
    return "-" if value is None else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def percent(share: float | None) -> str:
    """A share from 0 to 1 as per cent."""
    return "-" if share is None else f"{share * 100:.1f}"


def duration(seconds: float | None) -> str:
    """A time span in its two largest units: ``42s``, ``3m05s``, ``2h07m``, ``5d03h``."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    for size, unit, small, under in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02}{under}"
    raise AssertionError("sixty seconds are a minute")
