"""What we take from VyOS: the scripts call nothing that the oldest VyOS lacks, and the stand-in offers no more."""

from __future__ import annotations

import ast
import importlib

import pytest
from tests.configuration import ROOT

SCRIPTS = sorted([*(ROOT / "src/conf_mode").glob("*.py"), *(ROOT / "src/op_mode").glob("*.py")])


def test_the_errors_of_op_mode_are_those_of_1_4() -> None:
    import vyos.opmode

    offered = {n for n, v in vars(vyos.opmode).items() if isinstance(v, type) and issubclass(v, Exception)}
    assert offered == {
        "Error", "UnconfiguredSubsystem", "DataUnavailable", "PermissionDenied", "InsufficientResources",
        "UnsupportedOperation", "IncorrectValue", "CommitInProgress", "InternalError",
    }  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_scripts_use_what_the_stand_in_offers(script) -> None:  # type: ignore[no-untyped-def]
    for node in ast.walk(ast.parse(script.read_text())):
        dotted = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if dotted.startswith("vyos.opmode."):
            assert hasattr(importlib.import_module("vyos.opmode"), dotted.split(".")[2]), f"{script}: {dotted}"
