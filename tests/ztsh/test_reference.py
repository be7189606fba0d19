"""The CLI reference is written from the definitions, and is current."""

from __future__ import annotations

from tests.configuration import ROOT
from ztsh.reference import reference
from ztsh.schema import load_schema


def test_the_reference_is_current() -> None:
    written = reference(ROOT / "interface-definitions", ROOT / "op-mode-definitions")
    assert (ROOT / "docs/cli-reference.rst").read_text() == written, "run: make reference"


def test_every_leaf_is_in_the_reference() -> None:
    text = (ROOT / "docs/cli-reference.rst").read_text()
    for path, node in load_schema(ROOT / "interface-definitions").walk():
        if node.kind == "leaf":
            assert node.help in " ".join(text.split()), " ".join(path)
