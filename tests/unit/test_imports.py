"""Imports have no circles, and those inside functions and for type checkers count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TREES = {
    "zerotier_multi": "python/zerotier_multi", "ztsh": "packages/ztsh/ztsh", "vyos": "packages/ztsh/vyos",
    "builder": "vyos-build/builder", "imagebuild": "debian-image/imagebuild", "lab": "lab", "bench": "bench",
}  # fmt: skip


def modules() -> dict[str, Path]:
    """All modules of ours by their names."""
    found = {}
    for name, place in TREES.items():
        for path in (ROOT / place).rglob("*.py"):
            parts = [name, *path.relative_to(ROOT / place).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements of a module."""
    left = [tree]
    while left:
        node = left.pop()
        if not isinstance(node, ast.expr):
            yield node
            left += ast.iter_child_nodes(node)


def imported(text: str, known: dict[str, Path]) -> set[str]:
    """Which of the known modules a text imports."""
    found = set()
    for node in nodes(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {full if (full := f"{node.module}.{alias.name}") in known else node.module for alias in node.names}
    return found & known.keys()


def test_imports_have_no_circles() -> None:
    known = modules()
    assert len(known) > 200
    graph = {name: imported(path.read_text(), known) - {name} for name, path in known.items()}
    assert sum(map(len, graph.values())) > 500
    tuple(TopologicalSorter(graph).static_order())  # CycleError names the circle


@pytest.mark.parametrize("late", ["def f():\n    from lab import b\n", "if TYPE_CHECKING:\n    import lab.b\n"])
def test_a_circle_is_found_in_functions_and_types_too(late: str) -> None:
    known = {"lab.a": Path(), "lab.b": Path()}
    graph = {"lab.a": imported(late, known), "lab.b": imported("import lab.a", known)}
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(graph).static_order())
