"""The templates that VyOS reads: as they were looked at last, and as vyos-1x's own build makes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.configuration import ROOT
from ztsh.templates import write

GOLDEN = Path(__file__).parent / "golden"


def tree(directory: Path) -> dict[str, str]:
    return {str(p.relative_to(directory)): p.read_text() for p in directory.rglob("node.def")}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    output = tmp_path_factory.mktemp("templates")
    assert write(ROOT / "interface-definitions", ROOT / "op-mode-definitions", output) > 60
    return tree(output)


def test_they_are_as_they_were_looked_at_last(made: dict[str, str]) -> None:
    """After a wanted change: make reference."""
    assert made == tree(GOLDEN)


def test_no_node_of_vyos_itself_is_among_them(made: dict[str, str]) -> None:
    for path in made:
        assert "/zerotier/" in path, f"{path} belongs to vyos-1x"


def test_the_owner_is_called_as_vyos_calls_it(made: dict[str, str]) -> None:
    end = 'end: sudo sh -c "${vyshim} VYOS_TAGNODE_VALUE=\'$VAR(@)\' ${vyos_conf_scripts_dir}/interfaces_zerotier.py"\n'
    text = made["cfg/interfaces/zerotier/node.def"]
    assert text.startswith("tag:\ntype: txt\npriority: 461\n") and text.endswith(end)


def test_vyos_does_not_page_a_qr_code(made: dict[str, str]) -> None:
    """Its pager runs in the locale C and shows <E2><96><88> for a block; it is left out where a command begins with LESSOPEN=."""
    commands = [line for text in made.values() for line in text.splitlines() if line.startswith("run: ") and "--qr" in line]
    assert len(commands) == 2
    for command in commands:
        assert command.startswith("run: LESSOPEN= sudo ${vyos_op_scripts_dir}/zerotier.py show_invite ")


# VYOS_1X=<a checkout of vyos-1x> compares with what its own build makes.
if os.environ.get("VYOS_1X"):

    def test_vyos_makes_the_same(made: dict[str, str], tmp_path: Path) -> None:
        upstream = Path(os.environ["VYOS_1X"])
        for kind, program, schema, sources in (
            ("cfg", "build-command-templates", "interface_definition.rng", "interface-definitions"),
            ("op", "build-command-op-templates", "op-mode-definition.rng", "op-mode-definitions"),
        ):
            inputs, output = tmp_path / sources, tmp_path / "out" / kind
            inputs.mkdir()
            output.mkdir(parents=True)
            for path in (ROOT / sources).glob("*.xml.in"):
                shutil.copyfile(path, inputs / path.stem)
            if kind == "cfg":
                subprocess.run([sys.executable, upstream / "scripts/override-default", inputs], check=True)
            for path in inputs.glob("*.xml"):
                subprocess.run(
                    [sys.executable, upstream / "scripts" / program, path, upstream / "schema" / schema, output], check=True
                )
        theirs = {path: text for path, text in tree(tmp_path / "out").items() if text}
        assert theirs == made
