"""How the shell is built: its modules import each other one way, and its commands stand in one table."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.configuration import ROOT
from ztsh.verbs.table import ALIASES, VERBS

PACKAGES = ("ztsh", "vyos")


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in (ROOT / "packages/ztsh" / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT / "packages/ztsh").with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that one imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return (names & known.keys()) - set(PACKAGES)


def test_no_imports_go_in_a_circle() -> None:
    known = modules()
    rest = {name: imports(path, known) for name, path in known.items()}
    assert len(rest["ztsh.session"]) > 5 and "ztsh.proposal" in rest["vyos.config"]
    while free := {name for name, needed in rest.items() if not needed & rest.keys()}:
        rest = {name: needed for name, needed in rest.items() if name not in free}
    assert not rest, f"in circles, or behind one: {sorted(rest)}"


def test_commands_are_in_order_and_aliases_lead_to_them() -> None:
    """Lists of commands are printed in the order of the table."""
    assert list(VERBS) == sorted(VERBS)
    assert set(ALIASES.values()) <= set(VERBS)


def test_a_usage_names_all_forms() -> None:
    assert VERBS["compare"].usage == "compare, compare saved, compare N or compare N M"
    assert VERBS["merge"].usage == "merge FILE"
