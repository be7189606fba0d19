"""Ctrl-C: a commit goes on to its end, and one that ends otherwise is undone and remembered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configuration import SCHEMA
from ztsh import access
from ztsh.__main__ import main
from ztsh.confmode import ConfMode
from ztsh.errors import SessionError
from ztsh.session import Session
from ztsh.text import set_commands

ZT = "interfaces zerotier zt0"
# "press" is Ctrl-C at the terminal; "stop" is an end without a refusal, however it comes.
SCRIPT = '''
import os
import signal
import subprocess
from pathlib import Path
from vyos.config import Config

LOG = Path(os.environ["ZTSH_TEST_LOG"])

def get_config(config=None):
    conf = config or Config()
    name = os.environ["VYOS_TAGNODE_VALUE"]
    return name, conf.exists(["interfaces", "zerotier", name]), conf.return_value(["interfaces", "zerotier", name, "description"])

def verify(got):
    pass

def generate(got):
    pass

def apply(got):
    with LOG.open("a") as log:
        log.write(f"{got[0]} {'set' if got[1] else 'gone'} {got[2]}\\n")
    if got[2] == "press":
        os.kill(os.getpid(), signal.SIGINT)
        subprocess.run(["sh", "-c", "kill -INT $$; echo the program went on >> $ZTSH_TEST_LOG"], check=True)
    if got[2] == "stop" or LOG.with_name("stop").exists():
        raise KeyboardInterrupt
'''
CLEAN = ["active.boot", "active.public", "commit.lock"]


@pytest.fixture(autouse=True)
def _listening() -> Iterator[None]:
    """As at a terminal; what runs in the background of a shell, as these tests may, is started deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _script(places: Path) -> None:
    (places / "conf_mode/interfaces_zerotier.py").write_text(SCRIPT)


def do(*lines: str, isolated: bool = False) -> str:
    conf = ConfMode(Session(SCHEMA), lambda _words: "", isolated=isolated)
    return "".join(conf.line(line) for line in lines)


def now() -> list[str]:
    return set_commands(Session(SCHEMA).running.tree, SCHEMA).splitlines()


def log(places: Path) -> list[str]:
    return (places / "log").read_text().splitlines()


def run_dir(places: Path) -> list[str]:
    return sorted(path.name for path in (places / "run").iterdir())


def program(places: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In the place of the authority."""
    file = places / "authority"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    monkeypatch.setattr(access, "PROGRAM", str(file))


def test_a_commit_goes_on_to_its_end_and_ctrl_c_comes_behind_it(places: Path) -> None:
    """Its scripts, the programs they start, the running configuration and the archive."""
    with pytest.raises(KeyboardInterrupt):
        do(f"set {ZT} description press", "set interfaces zerotier zt1", "commit")
    assert log(places) == ["zt0 set press", "the program went on", "zt1 set None"]
    assert now() == [f"set {ZT} description 'press'", "set interfaces zerotier zt1"]
    assert run_dir(places) == CLEAN and len(list((places / "config/archive").iterdir())) == 1
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_what_is_stopped_all_the_same_is_undone_and_done_again(places: Path) -> None:
    do(f"set {ZT} description one", "commit")
    with pytest.raises(KeyboardInterrupt):
        do("set interfaces zerotier zt1", f"set {ZT} description stop", "set interfaces zerotier zt2", "commit")
    assert log(places)[1:] == ["zt0 set stop", "zt0 set one"], "zt0 goes first"
    assert now() == [f"set {ZT} description 'one'"]
    # Who knows what the script had done; so all of it is brought to the running configuration once more, and only once.
    do("set interfaces zerotier zt3", "commit")
    assert log(places)[3:] == ["zt1 gone None", "zt2 gone None", "zt0 set one", "zt3 set None"]
    assert run_dir(places) == CLEAN


def test_what_stops_the_way_back_too_is_done_again(places: Path) -> None:
    do(f"set {ZT} description one", "commit")
    (places / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        do(f"set {ZT} description stop", "commit")
    (places / "stop").unlink()
    assert log(places)[1:] == ["zt0 set stop", "zt0 set one"] and now() == [f"set {ZT} description 'one'"]
    do("set interfaces zerotier zt1", "commit")
    assert log(places)[3:] == ["zt0 set one", "zt1 set None"]


@pytest.mark.parametrize("content", [b"interfaces {", b"\xff"])
def test_a_record_that_was_cut_off_hides_no_other_one(places: Path, content: bytes) -> None:
    do(f"set {ZT} description one", "commit")
    (places / "run/.active.boot.4000000").write_text("interfaces {\n    zerotier zt1 {\n    }\n}\n")
    for name in ("interrupted.0", "interrupted.9"):
        (places / "run" / name).write_bytes(content)
    do("set interfaces zerotier zt2", "commit")
    assert log(places)[1:] == ["zt1 gone None", "zt0 set one", "zt2 set None"] and run_dir(places) == CLEAN


def test_the_shell_waits_for_the_authority_and_says_so(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(places, monkeypatch, f"kill -INT $PPID; kill -INT $$; echo $$ > {places}/pid; echo done")
    answer = access.ask(SCHEMA, "commit", isolated=True)
    assert answer == "\nCtrl-C does not stop 'commit': it is done\ndone\n"
    program(places, monkeypatch, "echo done")
    assert access.ask(SCHEMA, "commit", isolated=True) == "done\n"
    program(places, monkeypatch, f"kill -INT $PPID; echo the sentence >&2; exit {access.REFUSED}")
    with pytest.raises(SessionError, match="^the sentence$"):
        access.ask(SCHEMA, "commit", isolated=True)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_a_script_that_is_interrupted_has_no_traceback(places: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (places / "lines").write_text(f"set {ZT} description press\ncommit\nset {ZT} description later\ncommit\n")
    assert main(["script", str(places / "lines")]) == 130
    assert capfd.readouterr().err == "" and now() == [f"set {ZT} description 'press'"]


def test_the_authority_has_no_terminal_that_could_hang_up(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(places, monkeypatch, "echo $$; cut -d' ' -f6 /proc/$$/stat")
    process, session = access.ask(SCHEMA, "commit", isolated=True).split()
    assert process == session


def test_a_script_of_a_member_ends_behind_the_commit(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a shell at a prompt has forgotten Ctrl-C when the commit ends; lines that follow must not run."""
    program(places, monkeypatch, f"kill -INT $PPID; echo went on > {places}/end")
    (places / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (places / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{places}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(access, "demand_rights", lambda: None)
    with pytest.raises(KeyboardInterrupt):
        access.ask(SCHEMA, "commit")
    assert (places / "end").read_text() == "went on\n"
