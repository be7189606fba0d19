"""SVG for a page that may be light or dark: colours are CSS variables, text is text, ids are unique in the page."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# What plots are drawn with: colours that occur nowhere else, each of which becomes a variable of style.css.
NAMES = (
    "ink", "muted", "line", "card", "raw", "peer", "stock", "ours", "field", "field2", "good", "bad",
)  # fmt: skip
COLOURS = {name: f"#1234{number:02x}" for number, name in enumerate(NAMES, start=16)}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "zerotier-multi",  # the same plot gives the same bytes
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": COLOURS["line"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.6,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "text.color": COLOURS["ink"],
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def figure(width: float, height: float) -> Figure:
    """An empty figure; sizes in inches at 72 units each, which is what a phone shows one to one at 5 inches."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    drawn.patch.set_visible(False)
    FigureCanvasSVG(drawn)
    return drawn


def inline(drawn: Figure, prefix: str, title: str, description: str) -> str:
    """The figure as an ``<svg>`` for HTML, without a size of its own; ``prefix`` is unique in the page."""
    buffer = io.StringIO()
    with matplotlib.rc_context(SETTINGS):
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return themed(buffer.getvalue(), prefix, title, description)


def themed(text: str, prefix: str, title: str, description: str) -> str:
    """What matplotlib has written, made part of a page: see the module's first line."""
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{prefix}-", text)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    text = re.sub(r"font: ((?:\w+ )*?[\d.]+px) [^;\"]+", rf"font: \1 {FONT}", text)
    text = re.sub(r'<style type="text/css">\*\{[^}]*\}</style>', "", text)  # it would hold for the whole page
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box, "matplotlib writes a viewBox"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box[1]}" '
        f'stroke-linejoin="round" role="img" aria-labelledby="{prefix}-title {prefix}-desc">'
        f'<title id="{prefix}-title">{html.escape(title)}</title><desc id="{prefix}-desc">{html.escape(description)}</desc>'
    )
    return re.sub(r"^<svg[^>]*>", lambda _: head, text, count=1).strip()


def standalone(text: str) -> str:
    """An inline SVG as a file of its own that brings the colours of style.css with it; it has a background."""
    style = Path(__file__).with_name("style.css").read_text()
    box = re.search(r'viewBox="([\d.-]+) ([\d.-]+) ([\d.]+) ([\d.]+)"', text)
    assert box, "an inline SVG has a viewBox"
    opening = text[: text.index(">") + 1]
    sized = opening.replace("<svg ", f'<svg width="{float(box[3]) * 1.6:.0f}" height="{float(box[4]) * 1.6:.0f}" ', 1)
    background = f'<style>{style}</style><rect width="{box[3]}" height="{box[4]}" style="fill: var(--card)"/>'
    return sized + background + text[len(opening) :] + "\n"
