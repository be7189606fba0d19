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


@pytest.mark.parametrize(
    ("line", "printed", "status"),
    [
        ("show word a; show word b", "word a\nword b\n", 0),
        ("show word a;sho word b", "word a\nword b\n", 0),
        ("show word 'a;b'&&show word c", "word a;b\nword c\n", 0),
        ("show failure && show word b", "broken\n", 1),
        ("show failure || show word b | match b", "broken\nword b\n", 0),
        ("show failure; show word b; show nonsense 2>/dev/null", "broken\nword b\n", 1),
        ("show failure 2>/dev/null", "", 1),
        ("show failure 2>&1 | count", "Count: 1 lines\n", 0),
        ("show word a|count", "Count: 1 lines\n", 0),
        ("show word a | match b|count", "Count: 0 lines\n", 0),
        ("show word a > made && cat made", "word a\n", 0),
        ("show word 'a | b' | cat", "word a | b\n", 0),
        ("echo a|cat;echo b", "a\nb\n", 0),
        ("2>/dev/null echo a", "a\n", 0),
        ("echo a; show word b", "a\nword b\n", 0),
        ("for i in 1 2; do show word $i; done | count", "Count: 2 lines\n", 0),
        ("a=b; show word $a && cd / && show failure", "broken\nword b\n", 1),
        ("# show word a; it is no command", "", 0),
        ("nonsense; show word a", "\n  Invalid command: [nonsense]\n\n", 127),
    ],
)  # fmt: skip
def test_a_shell_puts_commands_of_op_mode_together(
    words: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str, printed: str, status: int
) -> None:
    monkeypatch.chdir(words)
    assert main(["-c", line]) == status
    told = capfd.readouterr()
    assert told.err + told.out == printed


def test_run_is_op_mode_and_the_system_shell(words: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """There a word cut short is op mode's, though there is a program sh."""
    commands = ["run echo hello '|' you|cat", "run sh word a; echo b", "run show word a | match b", "run show word b|match b"]
    assert main(lines(words, *commands)) == 0
    assert capfd.readouterr().out == "hello | you\nword a\nb\nword b\n"
    assert main(lines(words, "run nonsense a")) == 1
    assert capfd.readouterr().err == "line 1: run nonsense a\n  Invalid command: [nonsense]\n"


def test_run_says_what_a_word_cut_short_could_be(places: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(lines(places, "run re zerotier zt0")) == 1
    told = capfd.readouterr().err
    assert "Ambiguous command" in told and "restart" in told and "reset" in told


ZT = "interfaces zerotier zt0"
UNCOMMITTED = "ztsh: the changes of the script were not committed; end it with commit, or with discard\n"


def test_a_script_has_filters(places: Path, capfd: pytest.CaptureFixture[str]) -> None:
    values = [f"set {ZT} mtu 1500", f"set {ZT} description 'a | b'"]
    assert main(lines(places, *values, f"show {ZT} | match mtu", f"show {ZT} | count", "compare | match zt0", "discard")) == 0
    assert capfd.readouterr().out.startswith("+mtu 1500\nCount: 2 lines\n+     zerotier zt0 {\n")
    assert main(lines(places, *values, f"show {ZT} > {places}/made", "exit discard")) == 0
    assert (places / "made").read_text() == '+description "a | b"\n+mtu 1500\n'


@pytest.mark.parametrize("line", [f"set {ZT} description a | b", f"set {ZT} description a > b", "commit | cat", "| cat"])
def test_a_pipe_behind_another_command_is_refused(places: Path, line: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(lines(places, f"set {ZT} mtu 1500", line, "commit")) == 1
    assert capfd.readouterr() == ("", f"line 2: {line}\na value with | or > needs quotes\n")
    assert not (places / "run/active.boot").exists()


def test_a_script_without_a_commit_says_so(places: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for end in ([], ["exit"]):
        assert main(lines(places, f"set {ZT} mtu 1500", *end)) == 1
        assert capsys.readouterr().err == UNCOMMITTED
    for end in (["discard"], ["exit discard"], ["commit"], ["commit", "exit"]):
        assert main(lines(places, f"set {ZT} mtu 1500", *end)) == 0
        assert capsys.readouterr().err == ""
    assert main(lines(places, f"show {ZT}")) == 0


def test_a_boot_by_somebody_else_than_root_is_refused(
    places: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["boot"]) == 1
    assert capsys.readouterr().err == "ztsh: ztsh boot is for root alone; run as root: systemctl restart ztsh-boot\n"
    assert not (places / "run").exists()


def test_a_reader_that_has_gone_is_no_news() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "ztsh", "--help"], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "")


CALLS = [
    ["show", "word", "a"],
    ["-c", "show word a; echo b | cat"],
    ["script", "-"],
    ["apply", "--check", "-"],
    ["--help"],
    ["nonsense"],
    [],
]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_what_is_closed_is_an_empty_file(words: Path, call: list[str], closed: str) -> None:
    """Some programs start others so."""

    def run(redirected: str) -> tuple[int, str, str]:
        command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "ztsh", *call]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert run(closed) == run(closed.replace("&-", "/dev/null"))


def test_a_program_gets_what_was_closed_as_an_empty_file(words: Path) -> None:
    files = words / "files"
    line = f"readlink /proc/self/fd/0 /proc/self/fd/2 >{files}"
    subprocess.run(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", sys.executable, "-m", "ztsh", "-c", line], check=True)
    assert files.read_text() == "/dev/null\n/dev/null\n"


REPORT = "line 3: set interfaces zerotier zt0 mtu '9': MTU must be auto or 1280 to 9890 bytes"
WARNING = f"Warning: at boot: {REPORT}\n"


@pytest.mark.parametrize(
    ("call", "printed", "told"),
    [
        (["show", "word", "a"], "word a\n", WARNING),
        (["-c", "show word a"], "word a\n", WARNING),
        (["-c", "show word a | match a"], "word a\n", WARNING),
        (["-c", "show word a; show word b"], "word a\nword b\n", WARNING),
        (["-c", "echo a"], "a\n", ""),
        (["-c", "# a"], "", ""),
        (["-c", "nonsense"], "", "\n  Invalid command: [nonsense]\n\n"),
        (["filter", "commands"], "", ""),
    ],
)
def test_a_command_without_a_session_says_what_boot_has_left_out(
    words: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, call: list[str], printed: str, told: str
) -> None:
    """Otherwise ``show zerotier`` would say that nothing is configured. A command for the system shell, as scp is, has no part in it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    (words / "run").mkdir()
    (words / "run/boot.report").write_text(f"{REPORT}\n")
    main(call)
    assert capfd.readouterr() == (printed, told)
    (words / "run/boot.report").write_text("")
    main(call)
    assert capfd.readouterr() == (printed, told.replace(WARNING, ""))


def test_a_session_says_it_once(words: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A command of its lines may be one of a longer one, which is another run of the program."""
    (words / "run").mkdir()
    (words / "run/boot.report").write_text(f"{REPORT}\n")
    op = OpMode()
    for text in ("show word a", "show word a; show word b"):
        assert op.text(text) == 0
    assert capfd.readouterr() == ("word a\nword a\nword b\n", "")
