"""Op mode definitions as VyOS writes them: which words are a command, what helps with them, what they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ztsh.schema import Completion, completion_of
from ztsh.words import fitting
from ztsh.xmlfile import SchemaError, elements

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass
class OpNode:
    """A word of a command. ``value`` is what follows when the next word may be any value (a tag node)."""

    name: str = ""
    help: str = ""
    described: bool = False  # it has properties of its own; others are only the way to what is below
    command: str | None = None
    completion: Completion = Completion()
    children: dict[str, OpNode] = field(default_factory=dict)
    value: OpNode | None = None

    @property
    def shown_help(self) -> str:
        """Help about the word: its own, or that of the value it leads to."""
        return self.help or (self.value.help if self.value else "")


def load_op_schema(directories: Iterable[Path]) -> OpNode:
    """The tree of all op mode definitions. Raises :class:`SchemaError`."""
    root = OpNode()
    for path, element in elements(directories):
        _add(root, element, path)
    return root


def _add(parent: OpNode, element: Element, path: Path) -> None:
    name = element.get("name")
    if element.tag not in ("node", "tagNode", "leafNode") or not name:
        raise SchemaError(f"{path}:{element.sourceline}: <{element.tag}> is not a node with a name")
    node = parent.children.setdefault(name, OpNode(name))
    if element.tag == "tagNode":
        node.value = node.value or OpNode()
        node = node.value
    properties = element.find("properties")
    if properties is not None:
        node.described = True
        node.help = node.help or properties.findtext("help", "")
        node.completion = completion_of(properties)
    node.command = element.findtext("command") or node.command
    for child in element.findall("children/*"):
        _add(node, child, path)


@dataclass
class Resolved:
    """How far words lead: the node, the words in full, and the first word that leads nowhere (or None)."""

    node: OpNode
    words: list[str]
    wrong: int | None = None
    choices: list[str] = field(default_factory=list)


def resolve(root: OpNode, words: Sequence[str]) -> Resolved:
    """Follow words, each of which may be cut short as long as only one fits."""
    node, full = root, []
    for index, word in enumerate(words):
        names = fitting(node.children, word)
        if len(names) == 1:
            node = node.children[names[0]]
            full.append(names[0])
        elif node.value is not None and word:
            node = node.value
            full.append(word)
        else:
            return Resolved(node, full, index, names)
    return Resolved(node, full)
