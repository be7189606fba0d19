"""A configuration as plain nested data, and what is done with it.

A node or a tag node is a dict, a leaf is the list of its values (empty for one without values). Everything
here learns from a schema which is which; paths are sequences of words.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ztsh.schema import Node, find, steps

Tree = dict[str, Any]
Path = tuple[str, ...]


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts zt2 before zt10."""
    return [(0, int(part), "") if part[0] in "0123456789" else (1, 0, part) for part in re.split(r"([0-9]+)", text) if part]


def copy_tree(tree: Tree) -> Tree:
    """An independent copy."""
    return copy.deepcopy(tree)


def get(tree: Tree, path: Sequence[str]) -> Any:
    """What is at a path: a dict, the list of a leaf, or None. A leaf's value is not part of a path here."""
    here: Any = tree
    for word in path:
        if not isinstance(here, dict) or word not in here:
            return None
        here = here[word]
    return here


def exists(tree: Tree, path: Sequence[str]) -> bool:
    """Whether a path, which may end in a value of a leaf, is in the tree."""
    if get(tree, path) is not None:
        return True
    values = get(tree, path[:-1]) if path else None
    return isinstance(values, list) and path[-1] in values


def set_path(tree: Tree, schema: Node, path: Sequence[str]) -> bool:
    """Put a valid path into the tree; False when it is there already. A leaf that is not multi is replaced."""
    if exists(tree, path):
        return False
    here = tree
    for word, node, is_value in steps(schema, path):
        if node.kind != "leaf":
            here = here.setdefault(word, {})
        elif not is_value:
            here.setdefault(word, [])
        else:
            here[node.name] = [*here[node.name], word] if node.multi else [word]
    return True


def delete_path(tree: Tree, schema: Node, path: Sequence[str]) -> bool:
    """Take a path, which may end in a value of a leaf, out of the tree, with parents that it leaves empty.

    False when it is not there. A tag value stays when its last child goes, as in VyOS.
    """
    if not path or not exists(tree, path):
        return False
    parent = get(tree, path[:-1])
    if isinstance(parent, list):
        rest = [value for value in parent if value != path[-1]]
        if rest:
            get(tree, path[:-2])[path[-2]] = rest
            return True
        return delete_path(tree, schema, path[:-1])
    del parent[path[-1]]
    if not parent and len(path) > 1 and not _is_tag_value(schema, path[:-1]):
        delete_path(tree, schema, path[:-1])
    return True


def _is_tag_value(schema: Node, path: Sequence[str]) -> bool:
    step = find(schema, path)
    return step is not None and step.node.kind == "tag" and step.is_value


def commands(tree: Tree, schema: Node, path: Path = ()) -> Iterator[Path]:
    """The paths that, set one after the other, make the tree."""
    if not tree and path:
        yield path
    for name in sorted(tree, key=natural):
        node, below = schema.child(name), tree[name]
        if node is None:
            continue
        if node.kind == "leaf":
            yield from ((*path, name, value) for value in below) if below else [(*path, name)]
        elif node.kind == "tag":
            for tag in sorted(below, key=natural):
                yield from commands(below[tag], node, (*path, name, tag))
        else:
            yield from commands(below, node, (*path, name))


def difference(old: Tree, new: Tree, schema: Node) -> tuple[list[Path], list[Path]]:
    """Paths to delete from ``old`` and then paths to set so that it becomes ``new``."""
    gone = list(_gone(old, new, schema))
    left = apply(old, schema, gone, [])  # deleting takes empty parents along, and all values of a leaf whose order changes
    return gone, [path for path in commands(new, schema) if not exists(left, path)]


def _gone(old: Tree, new: Tree, schema: Node, path: Path = ()) -> Iterator[Path]:
    """The shortest paths of ``old`` that ``new`` has not."""
    for name in sorted(old, key=natural):
        node = schema.child(name)
        if node is None:
            continue
        here = (*path, name)
        if name not in new:
            yield here
        elif node.kind == "leaf":
            if node.multi:
                in_order = not _moved(old[name], new[name])
                yield from ((*here, value) for value in old[name] if value not in new[name]) if in_order else [here]
        elif node.kind == "tag":
            yield from ((*here, tag) for tag in sorted(old[name], key=natural) if tag not in new[name])
            for tag in sorted(set(old[name]) & set(new[name]), key=natural):
                yield from _gone(old[name][tag], new[name][tag], node, (*here, tag))
        else:
            yield from _gone(old[name], new[name], node, here)


def _moved(old: list[str], new: list[str]) -> bool:
    """Whether values that stay change their places, which takes setting all of them again."""
    kept = [value for value in old if value in new]
    return kept != new[: len(kept)]


def with_defaults(tree: Tree, schema: Node) -> Tree:
    """A copy with the defaults of every node that exists and of plain nodes below it that do not.

    Tag nodes that are not there stay away: semantics of vyos-1x's ``with_recursive_defaults``.
    """
    result = copy_tree(tree)
    _fill(result, schema)
    return result


def _fill(tree: Tree, schema: Node) -> None:
    for name, node in schema.children.items():
        if node.kind == "leaf":
            if node.default is not None and name not in tree:
                tree[name] = node.default.split() if node.multi else [node.default]
        elif node.kind == "tag":
            for below in tree.get(name, {}).values():
                _fill(below, node)
        else:
            below = tree.get(name, {})
            _fill(below, node)
            if below:
                tree[name] = below


def apply(tree: Tree, schema: Node, gone: Iterable[Path], added: Iterable[Path]) -> Tree:
    """A copy of the tree with paths deleted, then others set."""
    result = copy_tree(tree)
    for path in gone:
        delete_path(result, schema, path)
    for path in added:
        set_path(result, schema, path)
    return result


MASK = "*" * 16


def masked(tree: Tree, schema: Node) -> Tree:
    """A copy in which asterisks replace the values of secret leaves."""
    result: Tree = {}
    for name, below in tree.items():
        node = schema.children[name]
        if node.kind == "leaf":
            result[name] = [MASK] * len(below) if node.secret else list(below)
        elif node.kind == "tag":
            result[name] = {tag: masked(part, node) for tag, part in below.items()}
        else:
            result[name] = masked(below, node)
    return result
