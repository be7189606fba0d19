"""The command ztsh from outside: what it says to wrong input, and how it ends."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ztsh.__main__ import main
from ztsh.opmode import OpMode
from ztsh.opschema import OpNode
from ztsh.words import Line


def lines(places: Path, *text: str) -> list[str]:
    file = places / "lines"
    file.write_text("\n".join(text))
    return ["script", str(file)]


def test_a_wrong_op_command_in_a_script_is_refused_with_its_line(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(lines(places, "run show nonsense")) == 1
    assert capsys.readouterr() == ("", "line 1: run show nonsense\n  Invalid command: show [nonsense]\n")


def test_a_script_that_cannot_be_read_is_named_once(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["script", "/nowhere"]) == 1
    assert capsys.readouterr().err == "ztsh: /nowhere cannot be read (No such file or directory)\n"


@pytest.mark.parametrize("target", ["/", "/proc"])
def test_a_directory_is_no_place_for_a_configuration(places: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    assert main(lines(places, f"save {target}")) == 1
    assert f"{target} cannot be written (" in capsys.readouterr().err


def test_an_unknown_filter_is_refused(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "bogus"]) == 2
    assert capsys.readouterr().err == "usage: ztsh filter commands | json | strip-private\n"


def test_lines_from_a_pipe_end_with_exit(places: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("echo one\nexit\necho two\n"))
    assert main([]) == 0
    assert capfd.readouterr().out == "one\n"


def test_a_word_cut_short_is_op_mode_s_where_no_system_command_can_be_meant(capfd: pytest.CaptureFixture[str]) -> None:
    """As for ``run sh`` in conf mode, though there is a program sh."""
    op = OpMode(OpNode(children={"show": OpNode("show", command="echo shown")}))
    assert op.line("", Line(["sh"])) == 0
    assert op.line("sh -c 'echo system'", Line(["sh", "-c", "echo system"])) == 0
    assert capfd.readouterr().out == "shown\nsystem\n"


def test_a_reader_that_has_gone_is_no_news() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "ztsh", "--help"], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "")
