"""How figures and parameters are said: numbers with their units, names of traffic. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.results import Parameter, Row

TRAFFIC = {
    "tcp-1": "TCP, 1 stream",
    "tcp-8": "TCP, 8 streams",
    "tcp-8 per instance": "TCP, 8 streams per instance",
    "tcp-16": "TCP, 16 streams",
    "tcp-64": "TCP, 64 streams",
    "tcp-bidir": "TCP, both ways at once",
    "udp-1200": "UDP flood, 1200 bytes",
    "udp-64": "UDP flood, 64 bytes",
    "udp-1200 lossless": "UDP, 1200 bytes, at most 0.5 % lost",
    "tcp-16 iperf2": "TCP, 16 streams by iperf 2",
}
GROUPS = {"raw": "raw link", "peer": "other VPNs", "stock": "ZeroTier", "ours": "zerotier-multi"}
ABBREVIATIONS = {"cpu": "CPU", "lan": "LAN", "ip": "IP", "pss": "PSS"}
NARROW = "\u202f"  # a space that groups digits and does not break


def number(value: float) -> str:
    """Three significant digits, thousands grouped: ``6 140``, ``0.284``; zero is ``0``."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    text = f"{rounded:,.{max(0, min(digits, 6))}f}".replace(",", NARROW)
    return text.rstrip("0").rstrip(".") if "." in text and abs(rounded) < 0.001 else text


def times(ratio: float) -> str:
    """A ratio: ``3.48×``."""
    return f"{ratio:.2f}×" if math.isfinite(ratio) else "–"


def percent(share: float) -> str:
    """A share: ``4.2 %``, ``10 %``."""
    return f"{share * 100:.1f}".removesuffix(".0") + f"{NARROW}%" if math.isfinite(share) else "–"


def tick(value: float) -> str:
    """A figure at an axis: ``40 000``, ``0.5``, without needless zeros."""
    text = f"{value:,.6f}".replace(",", NARROW)
    return text.rstrip("0").rstrip(".")


def median(row: Row) -> float:
    """Median over the rounds; not a number where the row is unavailable."""
    return statistics.median(row.samples) if row.samples else math.nan


def spread(samples: Sequence[float]) -> str:
    """Smallest to largest of the rounds; empty for one round."""
    return f"{number(min(samples))}–{number(max(samples))}" if len(samples) > 1 else ""


def capital(text: str) -> str:
    """With a capital at the start, the rest as it is but for abbreviations."""
    text = " ".join(ABBREVIATIONS.get(word, word) for word in text.split(" "))
    return text[:1].upper() + text[1:]


def condition(name: str, value: Parameter) -> str:
    """A parameter for people: ``TCP, 16 streams``, ``load idle``, ``8 instances``."""
    if name == "traffic":
        return TRAFFIC.get(str(value), str(value))
    if name == "load" and value in TRAFFIC:
        return f"under {TRAFFIC[str(value)]}"
    label = " ".join(ABBREVIATIONS.get(word, word) for word in name.replace("-", "_").split("_"))
    if isinstance(value, bool):
        return label if value else f"no {label}"
    if isinstance(value, str):
        if name == "event":
            return value.replace("-", " ")
        return value if name in ("load", "engine", "commit") else f"{label} {value}"
    if isinstance(value, float):
        return f"{label} {number(value)}"
    return f"{value} {label.removesuffix('s') if value == 1 else label}"
