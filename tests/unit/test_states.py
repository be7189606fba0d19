"""The words for states: one enumeration, which JSON, tables and scripts see as plain text."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from zerotier_multi.states import BundleState, LinkState, NetworkState, PathState, bundle_state, link_state

SOURCES = Path(__file__).parents[2] / "python/zerotier_multi"


@pytest.mark.parametrize(
    ("paths", "unrouted", "state"),
    [
        ([], False, None),
        (["up", "up"], False, "up"),
        (["up", "up"], True, "degraded"),
        (["up", "down"], False, "degraded"),
        (["up", "no route"], False, "degraded"),
        (["up", "backup"], False, "up"),
        (["down", "backup"], False, "down"),
        (["up", "down", "backup"], False, "degraded"),
        (["down", "held down"], False, "down"),
        (["unknown", "down"], False, "unknown"),
        (["unknown", "up"], False, "degraded"),
    ],
)
def test_a_bundle_is_what_its_paths_are(paths: list[str], unrouted: bool, state: str | None) -> None:
    assert bundle_state(paths, unrouted) == state


def test_a_device_is_down_by_its_owner_or_by_its_link() -> None:
    assert [link_state(*both) for both in ((True, True), (True, False), (False, True), (False, False))] == [
        "up", "link down", "admin down", "admin down",
    ]  # fmt: skip


def test_others_see_a_plain_text() -> None:
    assert json.dumps({"state": PathState.REMOTE_DOWN}) == '{"state": "remote down"}'
    assert f"{BundleState.UP} {NetworkState.SIGN_IN!s}" == "up sign-in"


def test_nothing_else_spells_a_state_of_several_words() -> None:
    """Such a literal elsewhere would be another list of the same words."""
    words = {state.value for kind in (PathState, BundleState, LinkState, NetworkState) for state in kind if " " in state.value}
    spelled = {
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in SOURCES.rglob("*.py") if path.name != "states.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in words
    }  # fmt: skip
    assert not spelled
