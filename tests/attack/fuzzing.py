"""Inputs that nobody has thought of, out of good ones; and what is told when a parser does not stand them.

A target takes an input and calls a parser with it. It may raise nothing: what the parser declares it catches itself. Every
input is a function of the seed, the target's name and a number, so that a finding can be had again by these three.
"""

from __future__ import annotations

import json
import random
import resource
import time
import traceback
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Input = TypeVar("Input")

SLOW = 2.0  # seconds of CPU that no input may take
MOST = 1 << 17  # bytes or characters of an input
LARGE = 96 << 20  # bytes that the process may grow by in one target
_AS_IT_IS = 0.03  # share of the inputs that are good ones, to see that these are
_BYTES = (b"\0", b"\xff", b"\x80", b"\n", b"\r\n", b"\xc3\x28", b"\xf0\x9f\x92\xa9", b"\x7f", b"\x1b[2J")
_WORDS = (
    "\0", "\n", "\t", "\r", "\x1b[31m", "\x7f", " ", "  ", '"', "'", "\\", "{", "}", "[", "]", "/*", "*/", "//", "#", ";", ":", ",",
    "|", "=", "-", "--", "..", "../../etc/passwd", "/", "%s", "%n", "{0}", "$(id)", "`id`", "&&", "²", "٣", "０", "𝟘", "ß", "İ",
    "\u202e", "\ufeff", "\ud800", "\u2028", "é", "e\u0301", "0", "-0", "-1", "+1", "1e308", "1e999", "nan", "Infinity", "0x10", "1_0",
    "4294967296", "18446744073709551616", "9" * 400, "9" * 5000, "0" * 300, "::", "::1", "255.255.255.255", "256.0.0.1", "1.2.3.4/33",
    "fe80::1%eth0", "fe80::1%", "[::1]:1", "zt0", "zt999", "zt00", "x" * 300, "null", "true", "lease {", "interface", "remote",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 255, 256, 65535, 65536, 2**31, 2**32, 2**63, 2**64, -(2**63), 10**30, 0.0, -0.0, 0.5, 1e308, float("inf"),
    float("-inf"), float("nan"), "", " ", [], {}, [[]], [{}], {"": ""}, [None], ["", 1], {"a": {"b": []}},
)  # fmt: skip


def mutated_bytes(source: random.Random, samples: Sequence[bytes]) -> bytes:
    """A sample with something done to it, or no sample at all."""
    if source.random() < 0.03:
        return source.randbytes(source.choice((0, 1, 7, 32, 300, 5000)))
    data = bytearray(source.choice(samples))
    if source.random() < _AS_IT_IS:
        return bytes(data)
    for _ in range(source.choice((1, 1, 2, 3, 8, 30))):
        at = source.randrange(len(data) + 1)
        match source.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << source.randrange(8)
            case 1 if data:
                data[at % len(data)] = source.choice((0, 1, 4, 6, 127, 128, 254, 255))
            case 2:
                data[at:at] = source.choice(_BYTES)
            case 3:
                del data[at : at + source.choice((1, 2, 8, 64))]
            case 4:
                data[at:at] = data[at : at + source.choice((1, 4, 16, 256))] * source.choice((1, 2, 50))
            case 5:
                del data[at:]
            case 6:
                other = source.choice(samples)
                data[at:] = other[source.randrange(len(other) + 1) :]
            case _:
                data[at : at + 4] = source.randbytes(4)
        if len(data) > MOST:
            break
    return bytes(data[:MOST])


def mutated_text(source: random.Random, samples: Sequence[str]) -> str:
    """The same with text, in pieces that mean something."""
    if source.random() < 0.03:
        return "".join(source.choice(_WORDS) for _ in range(source.randrange(12)))
    if source.random() < 0.01:
        word = source.choice((*_WORDS, *source.choice(samples).split()))
        return word * (source.choice((300, 100_000)) // len(word))
    text = source.choice(samples)
    if source.random() < _AS_IT_IS:
        return text
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        at, size = source.randrange(len(text) + 1), source.choice((1, 1, 2, 8, 64))
        match source.randrange(7):
            case 0:
                text = text[:at] + source.choice(_WORDS) + text[at:]
            case 1:
                text = text[:at] + source.choice(_WORDS) + text[at + size :]
            case 2:
                text = text[:at] + text[at + size :]
            case 3:
                text = text[:at] + text[at : at + size] * source.choice((2, 3, 300)) + text[at + size :]
            case 4:
                words = text.split(" ")
                source.shuffle(words)
                text = " ".join(words)
            case 5:
                other = source.choice(samples)
                text = text[:at] + other[source.randrange(len(other) + 1) :]
            case _:
                text = text[:at] + chr(source.choice((source.randrange(128), source.randrange(0xD7FF)))) + text[at + 1 :]
        if len(text) > MOST:
            break
    return text[:MOST]


def mutated_json(source: random.Random, samples: Sequence[Any]) -> Any:
    """A value as JSON has them, with other kinds of values in it, and keys more or less."""
    value = json.loads(json.dumps(source.choice(samples)))
    if source.random() < _AS_IT_IS:
        return value
    for _ in range(source.choice((1, 1, 2, 4))):
        value = _bent(source, value, samples)
    return value


def _bent(source: random.Random, value: Any, samples: Sequence[Any]) -> Any:
    if isinstance(value, (dict, list)) and value and source.random() < 0.85:
        key = source.choice(list(value)) if isinstance(value, dict) else source.randrange(len(value))
        match source.randrange(8):
            case 0:
                del value[key]
            case 1 if isinstance(value, dict):
                value[source.choice(_WORDS)] = deepcopy(value[key])
            case 2 if isinstance(value, list):
                value.append(deepcopy(value[key]))
            case _:
                value[key] = _bent(source, value[key], samples)
        return value
    if isinstance(value, str) and source.random() < 0.5:
        return mutated_text(source, [value])
    if source.random() < 0.01:
        for _ in range(source.choice((5, 200))):
            value = [value] if source.random() < 0.5 else {"x": value}
        return value
    return deepcopy(source.choice((*_ODD, *_WORDS)))


def as_text(source: random.Random, samples: Sequence[Any]) -> str:
    """JSON text: of a bent value, or text that is none any more."""
    if source.random() < 0.01:
        return source.choice(("[", '{"a":', "[[", '[{"x":')) * source.choice((10, 5000, 100_000))
    text = json.dumps(mutated_json(source, samples), ensure_ascii=source.random() < 0.5)
    return mutated_text(source, [text]) if source.random() < 0.4 else text


def encoded(text: str) -> bytes:
    """Text as bytes, whatever is in it."""
    return text.encode("utf-8", "surrogatepass")


@dataclass
class Target(Generic[Input]):
    """A parser with good inputs: ``make`` bends one of them, ``call`` stands all that comes out, and says whether it was good."""

    name: str
    samples: Sequence[Any]
    make: Callable[[random.Random, Sequence[Any]], Input]
    call: Callable[[Input], object]
    known: Sequence[Input] = ()  # inputs that a parser did not stand once


@dataclass
class Finding:
    """An input that a parser did not stand."""

    target: str
    seed: int
    number: int
    input: str
    what: str

    def __str__(self) -> str:
        return f"{self.target} SEED={self.seed} input {self.number}: {self.what}\n  {self.input}"


@dataclass
class Tally:
    """What a run came to."""

    inputs: int = 0
    good: int = 0  # inputs that the parser took
    findings: dict[str, Finding] = field(default_factory=dict)  # by place in the code


def run(target: Target[Any], seed: int, seconds: float, least: int, most: int | None = None) -> Tally:
    """Give a target inputs for so long, but so many at least and at most; those that are known come first, without a number."""
    tally, end = Tally(), time.monotonic() + seconds
    grown = _memory()
    number = -len(target.known)
    while number < least or (time.monotonic() < end and (most is None or number < most)):
        if number < 0:
            given = target.known[number]
        else:
            given = target.make(random.Random(f"{seed} {target.name} {number}"), target.samples)
        begin = time.process_time()
        try:
            tally.good += bool(target.call(given))
            where, what = "", ""
        except Exception as error:  # whatever it is, it is a finding
            where = "".join(traceback.format_tb(error.__traceback__)[-2:])
            what = f"{type(error).__name__}: {str(error)[:200]}\n{where}"
        if not what and (took := time.process_time() - begin) > SLOW:
            where, what = "slow", f"{took:.1f} s"
        if not what and _memory() - grown > LARGE:
            where, what = "large", f"the process grew by {(_memory() - grown) >> 20} MB"
            grown = _memory()
        if what and where not in tally.findings:
            tally.findings[where] = Finding(target.name, seed, number, repr(given)[:1500], what)
        number += 1
    tally.inputs = number
    return tally


def _memory() -> int:
    """Bytes that this process has had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
