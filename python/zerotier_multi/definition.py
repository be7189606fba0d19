"""Ranges, choices, defaults and messages of the settings, read from the interface definition: the one place that has them.

The definition is the XML file ``interfaces_zerotier.xml.in``: beside this module where the product is installed, and in
``interface-definitions`` of a checkout. A setting is named by its CLI path below ``interfaces zerotier ztN``, without
values of tag nodes: ``balance resilient buckets``, ``instance port``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

_FILE = "interfaces_zerotier.xml.in"
_PLACES = (Path(__file__).parent, Path(__file__).parent.parent.parent / "interface-definitions")
_RANGE = re.compile(r"--range (\d+)-(\d+)")
_WORDS = re.compile(r"[a-z][a-z0-9-]*|\([a-z][a-z0-9-]*(\|[a-z][a-z0-9-]*)*\)")


@dataclass(frozen=True)
class Node:
    """One setting: a leaf node, or a tag node with what its tags may be."""

    ranges: tuple[tuple[int, int], ...] = ()  # numbers that it takes, both ends included
    words: frozenset[str] = frozenset()  # words that it takes
    default: str | None = None
    message: str = ""  # what the CLI says to any other value
    valueless: bool = False
    multi: bool = False
    tag: bool = False

    def read(self, text: str) -> str | int:
        """A value: a number within the ranges or one of the words; any text where it has neither. Raises ValueError."""
        if text in self.words or not (self.ranges or self.words):
            return text
        if self.ranges:
            number = int(text)
            if any(low <= number <= high for low, high in self.ranges):
                return number
        raise ValueError(text)

    @property
    def remedy(self) -> str:
        """The message as the second half of a sentence."""
        first = self.message[:1].lower() if self.message[1:2].islower() else self.message[:1]
        return first + self.message[1:]


Definition = Mapping[str, Node]


@cache
def definition() -> Definition:
    """Every setting below ``interfaces zerotier ztN``, by its path."""
    place = next(place for place in _PLACES if (place / _FILE).exists())
    return parse_definition((place / _FILE).read_bytes())


def parse_definition(xml: bytes) -> Definition:
    """The settings below the tag node ``zerotier`` of an interface definition."""
    top = ElementTree.fromstring(xml).find(".//tagNode[@name='zerotier']/children")
    assert top is not None, "the definition has the tag node zerotier"
    found: dict[str, Node] = {}
    _collect(top, "", found)
    return found


def _collect(children: ElementTree.Element, above: str, found: dict[str, Node]) -> None:
    for element in children:
        path = f"{above}{element.get('name')}"
        if element.tag in ("leafNode", "tagNode"):
            found[path] = _node(element)
        below = element.find("children")
        if below is not None:
            _collect(below, f"{path} ", found)


def _node(element: ElementTree.Element) -> Node:
    validators = element.findall("properties/constraint/validator[@name='numeric']")
    ranges = [pair for validator in validators for pair in _RANGE.findall(validator.get("argument", ""))]
    patterns = [regex.text or "" for regex in element.findall("properties/constraint/regex")]
    words = [word for text in patterns if _WORDS.fullmatch(text) for word in text.strip("()").split("|")]
    return Node(
        ranges=tuple((int(low), int(high)) for low, high in ranges),
        words=frozenset(words),
        default=element.findtext("defaultValue"),
        message=element.findtext("properties/constraintErrorMessage", ""),
        valueless=element.find("properties/valueless") is not None,
        multi=element.find("properties/multi") is not None,
        tag=element.tag == "tagNode",
    )
