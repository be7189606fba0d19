"""The shell at a terminal: what is pasted, interrupted, or goes wrong there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from tests.configuration import ROOT
from ztsh.complete import values_of
from ztsh.opmode import is_system_command, is_whole
from ztsh.schema import Completion
from ztsh.shell import History
from ztsh.words import Line, LineError, first_command, split, split_op

PROMPT = r"\x1b\[\?2004h.*?#"  # each begins with this request to mark what is pasted
PASTE = "\x1b[200~{}\x1b[201~\r"


@pytest.fixture
def home(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(places))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/packages/ztsh:{ROOT}/python")
    monkeypatch.setenv("TERM", "xterm")
    return places


@pytest.fixture
def shell(home: Path) -> Iterator[pexpect.spawn[str]]:
    made = pexpect.spawn("/usr/bin/python3", ["-m", "ztsh"], encoding="utf-8", timeout=20, dimensions=(50, 200), cwd=str(home))
    made.expect(PROMPT)
    try:
        yield made
    finally:
        made.close(force=True)


def line(shell: pexpect.spawn[str], text: str, expected: str) -> str:
    """Type a line at the prompt and wait for the next prompt; what was written up to there, with a text that is expected."""
    shell.send(text + "\r")
    shell.expect(expected)
    found = str(shell.before) + str(shell.after)
    shell.expect(PROMPT)
    return found + str(shell.before) + str(shell.after)


def interrupted(shell: pexpect.spawn[str], text: str) -> str:
    """Type a line, press Ctrl-C once it has written ``ready``, and wait for the next prompt; what was written meanwhile."""
    shell.send(text + "\r")
    shell.expect("ready\r\n")
    shell.sendintr()
    shell.expect(PROMPT)
    return str(shell.before)


def test_lines_that_are_pasted_are_run_one_after_the_other(shell: pexpect.spawn[str], home: Path) -> None:
    lines = [
        "configure", "set interfaces zerotier zt0 instances 4", "", "# a comment that isn't closed",
        "set interfaces zerotier zt0 nonsense 1", "set interfaces zerotier zt0 description 'two words'", "show",
    ]  # fmt: skip
    shell.send(PASTE.format("\n".join(lines)))
    shell.expect(r"zt0 \[nonsense\] is not valid")
    shell.expect('description "two words"')
    shell.expect(r"\+ +instances 4")
    shell.expect(PROMPT)
    shell.send(PASTE.format("set interfaces zerotier zt1 instances 2\nexit discard\npwd\nexit\n"))
    shell.expect(f"\n{home}\r\n")
    shell.expect(pexpect.EOF)


def test_what_is_pasted_for_the_system_shell_stays_together(shell: pexpect.spawn[str], home: Path) -> None:
    text = "cat >made <<'EOF'\nconfigure\nexit\nEOF\nfor n in 1 2\ndo\n  echo \"number $n\"\ndone\nmkdir -p deep && cd deep\ncd deep && echo in"
    shell.send(PASTE.format(text))
    shell.expect("number 1\r\nnumber 2\r\n")
    shell.expect("in\r\n")
    shell.expect("~/deep#")
    assert (home / "made").read_text() == "configure\nexit\n"


def test_a_full_disk_takes_no_history_and_stops_nobody(tmp_path: Path) -> None:
    History("/dev/full").store_string("show zerotier")
    assert list(History(str(tmp_path)).load_history_strings()) == []


def test_a_directory_that_is_gone_is_no_end(home: Path) -> None:
    with pexpect.spawn("/usr/bin/python3", ["-m", "ztsh"], encoding="utf-8", timeout=20, cwd=str(home)) as shell:
        shell.expect(PROMPT)
        line(shell, "mkdir gone && echo made", "made\r\n")
        left = int(line(shell, "cd . && { sleep 1000 & echo pid $!; }", "pid [0-9]+\r\n").rpartition("pid ")[2].split()[0])
        os.kill(left, signal.SIGKILL)  # it was not waited for
        line(shell, "cd gone", "\r\n")
        assert ":?#" in line(shell, "rmdir ../gone", "\r\n")
        assert "Traceback" not in line(shell, "cd", "\r\n")


def test_ctrl_c_is_for_the_program_that_has_the_terminal(shell: pexpect.spawn[str]) -> None:
    program = "sh -c 'trap \"echo caught; exit 3\" INT; echo ready; while :; do read x; done'"
    assert "caught\r\n" in interrupted(shell, program)  # it was not killed before it could say so
    interrupted(shell, "stty -echo; echo ready; sleep 60")
    assert " -echo " not in line(shell, "stty -a", "cs8")  # as it was before


def test_ctrl_c_behind_a_pipe_leaves_nobody_at_the_keyboard(shell: pexpect.spawn[str]) -> None:
    # A shell that has just started a pipe dies of Ctrl-C until it waits for it: only then is it for the programs alone.
    waited = "until grep -qsx do_wait /proc/$$/wchan; do :; done"
    assert "gone on\r\n" in interrupted(
        shell,
        f"show configuration commands | {{ trap 'echo gone on; exit' INT; {waited}; echo ready; while :; do sleep 0.1; done; }}",
    )
    assert Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text() == ""


def test_what_is_typed_ahead_of_show_is_the_next_line(words: Path, shell: pexpect.spawn[str]) -> None:
    shell.send("show input\recho typed $((40 + 2))\r")
    shell.expect(r"read \[\]")
    shell.expect("typed 42")
    shell.send("show input | match read\recho typed $((40 + 3))\r")
    shell.expect(r"read \[\]")
    shell.expect("typed 43")


def test_run_in_configuration_mode(words: Path, shell: pexpect.spawn[str]) -> None:
    line(shell, "configure", "\r\n")
    line(shell, "run echo hello $((40 + 2))", "hello 42\r\n")
    line(shell, "run show word a|match a; show word b", "word a\r\nword b\r\n")
    line(shell, "run nonsense", r"\n  Invalid command: \[nonsense\]\r\n")
    line(shell, "set interfaces zerotier zt0 description foo | match x", r"a value with \| or > needs quotes")
    line(shell, "compare", "No changes between working and active")
    line(shell, "set interfaces zerotier zt0 mtu 1500", "\r\n")
    line(shell, "show | count", "Count: 5 lines")


def test_nothing_stops_the_shell(shell: pexpect.spawn[str]) -> None:
    assert "^Z" not in line(shell, "echo a\x1ab", "ab\r\n")


def test_a_saved_configuration_that_is_no_text(shell: pexpect.spawn[str], home: Path) -> None:
    (home / "config/config.boot").write_bytes(b'interfaces {\n    description "\xe9"\n}\n')
    line(shell, "configure", "\r\n")
    line(shell, "set interfaces zerotier zt0 instances 4", "\r\n")
    line(shell, "compare saved", r"config.boot cannot be read \(not a text\)")
    line(shell, "show", r"\+ +instances 4")


def test_definitions_that_are_gone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZTSH_DEFINITIONS", str(home / "none"))
    with pexpect.spawn("/usr/bin/python3", ["-m", "ztsh"], encoding="utf-8", timeout=20, cwd=str(home)) as shell:
        shell.expect(PROMPT)
        assert "Traceback" not in line(shell, "configure", "none")
        line(shell, "echo still $((1 + 1))", "still 2")


@pytest.mark.parametrize(
    "text",
    [
        "exec sh -c true", "(echo hi)", "LC_ALL=C ls", "x+=1", "a[1]=2", ". ./file", "source file", "eval echo", "command -v sh",
        "set -e; false", "unset x", "! false", "case x in x) ;; esac", "[[ a = a ]]", "[ a ]", "{ echo; }", "while false; do :; done",
        "if true; then :; fi", "./program", "sh", "export A=b",
    ],
)  # fmt: skip
def test_lines_for_the_system_shell(text: str) -> None:
    assert is_system_command(split(text).words)


@pytest.mark.parametrize("text", ["set interfaces zerotier zt0 instances 4", "set", "commit", "shw", "nonsense a=b"])
def test_lines_that_are_not(text: str) -> None:
    assert not is_system_command(text.split())


def test_where_a_command_of_op_mode_ends() -> None:
    assert split_op("show word a&&show word b") == Line(["show", "word", "a"], "&&show word b")
    assert split_op("show word a 2>file") == Line(["show", "word", "a"], "2>file")
    assert split_op("show word a2>file|cat") == Line(["show", "word", "a2"], ">file|cat")
    address = "https://router.example/image?a=1&b=2"
    assert split_op(f"add system image {address}") == Line(["add", "system", "image", address])
    assert split_op("# a comment; no command") == split("# a comment > no file") == Line([])


def test_the_first_of_several_commands() -> None:
    def is_closed(text: str) -> bool:
        try:
            return bool(split(text)) or True
        except LineError:
            return False

    assert first_command("a\nb\nc", is_closed) == ("a", "b\nc")
    assert first_command("a 'b\nc' d\ne", is_closed) == ("a 'b\nc' d", "e")
    assert first_command("don't\nset x", is_closed) == ("don't", "set x")
    assert first_command("a", is_closed) == ("a", "")
    assert is_whole("for n in 1; do :; done") and not is_whole("for n in 1; do") and not is_whole("cat <<END\nx")


def test_a_completion_script_sees_the_words_before() -> None:
    words = ["zerotier", "benchmark", "zt7", "remote"]
    assert values_of(Completion(scripts=('echo "${COMP_WORDS[2]} $COMP_CWORD"',)), {}, words) == ["zt7", "3"]


def test_an_interrupted_program_has_the_status_of_a_shell(home: Path) -> None:
    from ztsh.opmode import run_system

    assert run_system(f"kill -{int(signal.SIGTERM)} $$") == 128 + signal.SIGTERM
    assert run_system("exit 7") == 7
    assert os.getcwd()
