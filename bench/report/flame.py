"""Flame graphs from folded stacks ("a;b;c 12" per line), as SVG of rectangles with their names as tooltips. Pure."""

from __future__ import annotations

import html
import zlib
from collections import Counter
from dataclasses import dataclass, field

WIDTH, ROW, LETTER = 900.0, 17, 6.6  # units: of the picture, of a row, of a letter of 11 px
SMALLEST = 0.002  # share of the samples below which a frame is not drawn
KERNEL = ("_[k]", "_[j]")  # how perf's folding marks frames of the kernel


@dataclass
class Frame:
    """A function where it was called from: samples in it and below it."""

    name: str
    total: float = 0.0
    own: float = 0.0
    callees: dict[str, Frame] = field(default_factory=dict)

    def depth(self, least: float) -> int:
        """Rows that it takes when frames of fewer than ``least`` samples are left out."""
        return 1 + max((callee.depth(least) for callee in self.callees.values() if callee.total >= least), default=0)


def plain(name: str) -> str:
    """A function's name without the mark of the kernel."""
    for mark in KERNEL:
        name = name.removesuffix(mark)
    return name


def parse(folded: str) -> Frame:
    """The tree of all stacks. Raises ValueError with the line that is none."""
    root = Frame("all")
    for line in filter(None, map(str.strip, folded.splitlines())):
        stack, _, count = line.rpartition(" ")
        try:
            samples = float(count)
        except ValueError:
            raise ValueError(f"{line!r} is no folded stack") from None
        root.total += samples
        frame = root
        for name in stack.split(";"):
            frame = frame.callees.setdefault(name, Frame(name))
            frame.total += samples
        frame.own += samples
    return root


def hottest(root: Frame, count: int) -> list[tuple[str, float, float]]:
    """(function, own share, share with what it calls) of those with the most samples of their own."""
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()

    def walk(frame: Frame, above: frozenset[str]) -> None:
        own[frame.name] += frame.own  # type: ignore[assignment]
        if frame.name not in above:  # a recursion counts once
            total[frame.name] += frame.total  # type: ignore[assignment]
        for callee in frame.callees.values():
            walk(callee, above | {frame.name})

    for callee in root.callees.values():
        walk(callee, frozenset())
    every = root.total or 1.0
    return [(name, share / every, total[name] / every) for name, share in own.most_common(count) if share]


def render(root: Frame, prefix: str, title: str) -> str:
    """An ``<svg>`` for HTML with the first callers at the bottom."""
    least = root.total * SMALLEST
    height = root.depth(least) * ROW
    parts: list[str] = []

    def draw(frame: Frame, left: float, level: int) -> None:
        width = frame.total / root.total * WIDTH
        top = height - (level + 1) * ROW
        name = plain(frame.name)
        colour = "kernel" if name != frame.name else f"flame{zlib.crc32(name.encode()) % 3 + 1}"
        letters = int((width - 6) / LETTER)
        shown = name if len(name) <= letters else f"{name[: letters - 1]}…" if letters >= 4 else ""
        text = f'<text x="{left + 3:.1f}" y="{top + 12}">{html.escape(shown)}</text>' if shown else ""
        parts.append(
            f'<g><title>{html.escape(name)}: {frame.total / root.total:.1%}</title><rect x="{left:.1f}" y="{top}" '
            f'width="{max(width - 0.5, 0.3):.1f}" height="{ROW - 1}" style="fill: var(--{colour})"/>{text}</g>'
        )
        for callee in sorted(frame.callees.values(), key=lambda one: one.name):
            if callee.total >= least:
                draw(callee, left, level + 1)
                left += callee.total / root.total * WIDTH

    if root.total:
        draw(root, 0.0, 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flame" viewBox="0 0 {WIDTH:.0f} {max(height, ROW)}" role="img" '
        f'aria-labelledby="{prefix}-title"><title id="{prefix}-title">{html.escape(title)}</title>{"".join(parts)}</svg>'
    )
