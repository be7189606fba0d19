"""VyOS interface definitions as types: one loader for checking, completion, documentation and templates.

The grammar is that of vyos-1x's schema/interface_definition.rng; ``#include`` lines are not part of it, so
definitions have to be self-contained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ztsh.xmlfile import SchemaError, elements

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass(frozen=True)
class Constraint:
    """What a value must fulfil: a regular expression, or a validator by name with its argument."""

    kind: str  # "regex" or "validator"
    name: str
    argument: str = ""


@dataclass(frozen=True)
class ValueHelp:
    """One line of help about values."""

    format: str
    description: str


@dataclass(frozen=True)
class Completion:
    """Where values for completion come from; each list is words with spaces between them."""

    lists: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """All words of the lists."""
        return [word for text in self.lists for word in text.split()]


@dataclass
class Node:
    """A node, a tag node (``kind`` "tag") or a leaf of the configuration tree.

    A value passes when it fulfils one of ``constraints``, or all of one of the ``groups``.
    """

    name: str
    kind: str
    help: str = ""
    owner: str | None = None
    priority: int | None = None
    value_help: tuple[ValueHelp, ...] = ()
    completion: Completion = Completion()
    described: bool = False  # it has properties of its own; others are only the way to what is below
    constraints: tuple[Constraint, ...] = ()
    groups: tuple[tuple[Constraint, ...], ...] = ()
    error: str = ""
    valueless: bool = False
    multi: bool = False
    secret: bool = False
    default: str | None = None
    children: dict[str, Node] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # of the root: component -> version of its syntax

    @property
    def takes_value(self) -> bool:
        """Whether the word after this node's name is a value."""
        return self.kind == "tag" or (self.kind == "leaf" and not self.valueless)

    def child(self, name: str) -> Node | None:
        """The child of that name, or None."""
        return self.children.get(name)

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
        """All nodes below with their paths, in the order of their names."""
        for name in sorted(self.children):
            node = self.children[name]
            yield (*path, name), node
            yield from node.walk((*path, name))


_KINDS = {"node": "node", "tagNode": "tag", "leafNode": "leaf"}


def load_schema(directory: Path) -> Node:
    """The tree of all definitions in a directory. Raises :class:`SchemaError`."""
    root = Node("", "node")
    for path, element in elements([directory]):
        if element.tag == "syntaxVersion":
            root.versions[element.get("component", "")] = element.get("version", "")
        else:
            _merge(root, _node(element, path))
    if not root.children:
        raise SchemaError(f"{directory} has no interface definitions; install the package zerotier-multi")
    return root


def _merge(parent: Node, node: Node) -> None:
    known = parent.children.get(node.name)
    if known is None:
        parent.children[node.name] = node
        return
    known.owner, known.priority = known.owner or node.owner, known.priority or node.priority
    known.help, known.described = known.help or node.help, known.described or node.described
    for child in node.children.values():
        _merge(known, child)


def _node(element: Element, path: Path) -> Node:
    kind = _KINDS.get(str(element.tag))
    name = element.get("name")
    if kind is None or not name:
        raise SchemaError(f"{path}:{element.sourceline}: <{element.tag}> is not a node with a name")
    node = Node(name, kind, owner=element.get("owner"))
    properties = element.find("properties")
    if properties is not None:
        node.described = True
        _properties(node, properties)
    default = element.find("defaultValue")
    node.default = default.text if default is not None else None
    for child in element.findall("children/*"):
        made = _node(child, path)
        node.children[made.name] = made
    return node


def _properties(node: Node, element: Element) -> None:
    node.help = element.findtext("help", "")
    priority = element.findtext("priority")
    node.priority = int(priority) if priority else None
    node.value_help = tuple(
        ValueHelp(item.findtext("format", ""), item.findtext("description", "")) for item in element.findall("valueHelp")
    )
    node.completion = completion_of(element)
    node.constraints = tuple(c for item in element.findall("constraint") for c in _constraints(item))
    node.groups = tuple(tuple(_constraints(item)) for item in element.findall("constraintGroup"))
    node.error = element.findtext("constraintErrorMessage", "")
    for flag in ("valueless", "multi", "secret"):
        setattr(node, flag, element.find(flag) is not None)


def completion_of(properties: Element) -> Completion:
    """What ``completionHelp`` in a node's properties says; where there are several the last counts, as in VyOS."""
    helps = properties.findall("completionHelp")
    if not helps:
        return Completion()
    return Completion(*(tuple(e.text or "" for e in helps[-1].findall(kind)) for kind in ("list", "path", "script")))


def _constraints(element: Element) -> Iterable[Constraint]:
    for item in element:
        if item.tag == "regex":
            yield Constraint("regex", item.text or "")
        elif item.tag == "validator":
            yield Constraint("validator", item.get("name", ""), item.get("argument", ""))


def only(child: Node) -> Node:
    """A root that has this child alone."""
    return Node("", "node", children={child.name: child})


class Step(NamedTuple):
    """One word of a path: the node that it names or is a value of."""

    word: str
    node: Node
    is_value: bool = False


def steps(root: Node, path: Iterable[str], choose: Callable[[Node, str], Node | None] = Node.child) -> Iterator[Step]:
    """Follow a path, word by word; ends before the first word that leads nowhere.

    A word after a tag node is a tag value, one after a leaf its value. ``choose`` picks the child for a name.
    """
    here = Step("", root)
    for word in path:
        if here.node.takes_value and not here.is_value:
            here = Step(word, here.node, is_value=True)
        else:
            child = choose(here.node, word)
            if child is None:
                return
            here = Step(child.name, child)
        yield here


def find(root: Node, path: Sequence[str]) -> Step | None:
    """The last step of a path, the root for an empty one, or None when the path is not valid."""
    found = list(steps(root, path))
    if len(found) < len(path):
        return None
    return found[-1] if found else Step("", root)
