"""``ztsh apply``: what a file changes, what it prints, how it ends, and that a refused one changes nothing."""

from __future__ import annotations

import fcntl
import io
import sys
from pathlib import Path
from threading import Timer

import pytest
from tests.configuration import SCHEMA
from ztsh import access, apply, authority, confirm, places as where
from ztsh.__main__ import main
from ztsh.authority import Request
from ztsh.changes import Changes
from ztsh.configuration import running
from ztsh.errors import Busy, Outdated, SessionError
from ztsh.text import set_commands

ZT = "interfaces zerotier zt0"
Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _schema(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "load_schema", lambda _directory: SCHEMA)
    monkeypatch.setattr(apply, "PATIENCE", 0.0)


def run(places: Path, *lines: str, check: bool = False) -> int:
    file = places / "lines"
    file.write_text("".join(f"{line}\n" for line in lines))
    return main(["apply", *(["--check"] if check else []), str(file)])


def now() -> list[str]:
    return set_commands(running(SCHEMA).tree, SCHEMA).splitlines()


def saved() -> str:
    return where.boot_file().read_text() if where.boot_file().exists() else ""


def test_a_file_is_one_commit_and_the_second_time_none(places: Path, capsys: Output) -> None:
    lines = ["# two instances", "", f"set {ZT} instances 2", f"set {ZT} description 'a | b'", "delete interfaces zerotier zt9"]
    assert run(places, *lines) == 0
    wanted = [f"set {ZT} description 'a | b'", f"set {ZT} instances '2'"]
    assert capsys.readouterr().out.splitlines() == wanted == now()
    assert saved() == running(SCHEMA).saved_text(SCHEMA)
    assert run(places, *lines) == run(places, *lines, check=True) == 0
    assert capsys.readouterr() == ("", "")
    assert (places / "log").read_text() == "zt0 set a | b\n"
    assert len(list((places / "config/archive").iterdir())) == 1


def test_check_prints_the_difference_and_changes_nothing(places: Path, capsys: Output) -> None:
    run(places, f"set {ZT} instances 2", f"set {ZT} disable")
    before, files = saved(), sorted(p for p in places.rglob("*"))
    capsys.readouterr()
    assert run(places, f"set {ZT} instances 4", f"delete {ZT} disable", check=True) == 2
    assert capsys.readouterr().out == f"delete {ZT} disable\nset {ZT} instances '4'\n"
    assert (saved(), now()) == (before, [f"set {ZT} disable", f"set {ZT} instances '2'"])
    assert sorted(p for p in places.rglob("*")) == files
    assert (places / "log").read_text().count("\n") == 1


def test_a_file_adds_and_one_that_deletes_first_says_all(places: Path, capsys: Output) -> None:
    run(places, f"set {ZT} instances 2", f"set {ZT} address 10.0.55.1/32", f"set {ZT} remote R9 site 9")
    run(places, f"set {ZT} address 10.0.55.2/32", "set interfaces zerotier zt1 disable")
    whole = [f"delete {ZT}", f"set {ZT} instances 2", f"set {ZT} address 10.0.55.2/32"]
    capsys.readouterr()
    assert run(places, *whole) == 0
    assert capsys.readouterr().out == f"delete {ZT} address '10.0.55.1/32'\ndelete {ZT} remote\n"
    assert now() == [f"set {ZT} address '10.0.55.2/32'", f"set {ZT} instances '2'", "set interfaces zerotier zt1 disable"]
    assert run(places, *whole, check=True) == 0


def test_comments_are_applied_too(places: Path, capsys: Output) -> None:
    lines = [f"set {ZT} instances 2", f"comment {ZT} 'of the fleet'"]
    assert run(places, *lines) == 0 and run(places, *lines, check=True) == 0
    assert running(SCHEMA).comments == {tuple(ZT.split()): "of the fleet"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"set {ZT} instances 99", f"set {ZT} instances '99': Instances must be auto or 1 to 32"),
        ("set interfaces foo 1", "Configuration path: interfaces [foo] is not valid"),
        (f"delete {ZT} foo", f"Configuration path: {ZT} [foo] is not valid"),
        (f"set {ZT} mtu", f"set {ZT} mtu: Configuration path: [{ZT} mtu] requires a value"),
        (f"comment {ZT} remote 'x'", "The specified config node does not exist"),
        ("commit", "only set, delete and comment are possible here; apply commits and saves by itself"),
        (f"set {ZT} description 'x", "a quote is not closed"),
        (f"set {ZT} description a | b", "a value with | or > needs quotes"),
        ("set", "set needs a path"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("check", [False, True])
def test_a_line_that_is_refused_is_named_and_nothing_changes(
    places: Path, capsys: Output, line: str, sentence: str, check: bool
) -> None:
    assert run(places, f"set {ZT} instances 2", line, check=check) == 1
    assert capsys.readouterr() == ("", f"ztsh: {places}/lines line 2: {sentence}\n")
    assert (now(), saved()) == ([], "")


@pytest.mark.parametrize("check", [False, True])
def test_a_commit_that_is_refused_says_the_sentence(places: Path, capsys: Output, check: bool) -> None:
    """Also with --check: the scripts verify."""
    assert run(places, f"set {ZT} description 'refuse me'", check=check) == 1
    assert capsys.readouterr() == ("", "ztsh: this description is refused\n")
    assert (now(), saved(), (places / "log").read_text()) == ([], "", "")


def test_what_fails_while_it_is_applied_is_undone_and_not_saved(places: Path, capsys: Output) -> None:
    run(places, f"set {ZT} instances 2")
    before = (now(), saved())
    assert run(places, f"set {ZT} description 'break me'") == 1
    assert "breaks while it is applied" in capsys.readouterr().err
    assert (now(), saved()) == before
    assert [path.name for path in (places / "config").iterdir() if path.name.startswith(".")] == []


def test_standard_input_and_wrong_usage(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"set {ZT} mtu x\n"))
    assert main(["apply", "-"]) == 1
    assert capsys.readouterr().err.startswith(f"ztsh: standard input line 1: set {ZT} mtu 'x': MTU must be")
    assert main(["apply", "/nowhere"]) == 1
    assert capsys.readouterr().err == "ztsh: /nowhere cannot be read (No such file or directory)\n"
    for wrong in ([], ["--check"], ["a", "b"], ["--dry", "a"]):
        assert main(["apply", *wrong]) == 1, "2 would read as a difference"
    assert capsys.readouterr().err == "usage: ztsh apply [--check] FILE|-\n" * 4


def test_what_runs_but_is_not_saved_is_saved(places: Path, capsys: Output) -> None:
    lines = [f"set {ZT} instances 2"]
    run(places, *lines)
    where.boot_file().unlink()
    capsys.readouterr()
    assert run(places, *lines, check=True) == 2
    assert capsys.readouterr().out == f"{apply.NOT_SAVED}\n" and saved() == ""
    assert run(places, *lines) == 0
    assert saved() == running(SCHEMA).saved_text(SCHEMA)
    # What others have not saved is none of its business while it has nothing to do.
    authority.commit(SCHEMA, Request(Changes(added=[(*ZT.split(), "disable")])))
    assert run(places, *lines) == 0 and "disable" not in saved()


def test_secrets_are_not_printed(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = SCHEMA.children["interfaces"].children["zerotier"].children["description"]
    monkeypatch.setattr(leaf, "secret", True)
    assert run(places, f"set {ZT} description hush") == 0
    assert run(places, f"set {ZT} description quiet", check=True) == 2
    assert run(places, f"set {ZT} description '{'quiet' * 60}'") == 1
    told = capsys.readouterr()
    assert told.out == f"set {ZT} description '{'*' * 16}'\n" * 2
    assert "line 1: set" in told.err and "quiet" not in told.err
    assert now() == [f"set {ZT} description 'hush'"]


def test_what_another_commits_meanwhile_stays(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The difference is made again: what the other has set is deleted by a file that says all."""
    asked, ask = [], access.ask

    def other_is_faster(schema: object, operation: str, **details: object) -> str:
        asked.append(operation)
        if len(asked) == 1:
            authority.commit(
                SCHEMA, Request(Changes(added=[(*ZT.split(), "remote", "R9", "site", "9"), (*ZT.split(), "mtu", "1500")]))
            )
        return ask(SCHEMA, operation, **details)

    monkeypatch.setattr(access, "ask", other_is_faster)
    monkeypatch.setattr(apply, "PATIENCE", 10.0)
    assert run(places, f"delete {ZT} remote", f"set {ZT} instances 2") == 0
    assert now() == [f"set {ZT} instances '2'", f"set {ZT} mtu '1500'"]
    assert asked == ["commit", "commit"]


def test_changes_for_another_configuration_are_not_committed(places: Path) -> None:
    base = running(SCHEMA).digest(SCHEMA)
    authority.commit(SCHEMA, Request(Changes(added=[(*ZT.split(), "disable")])))
    with pytest.raises(Outdated):
        authority.commit(SCHEMA, Request(Changes(added=[(*ZT.split(), "instances", "2")]), base=base))
    assert now() == [f"set {ZT} disable"]


def test_another_commit_is_waited_for(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    (places / "run").mkdir()
    with (places / "run/commit.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(places, f"set {ZT} instances 2") == 1
        assert "another commit in progress" in capsys.readouterr().err
        monkeypatch.setattr(apply, "PATIENCE", 60.0)
        Timer(0.3, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        assert run(places, f"set {ZT} instances 2") == 0
    assert now() == [f"set {ZT} instances '2'"]


@pytest.mark.parametrize("check", [False, True])
def test_what_is_not_confirmed_is_not_saved(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    monkeypatch.setattr(confirm, "pending", lambda: True)
    assert run(places, f"set {ZT} instances 2", check=check) == 1
    assert capsys.readouterr().err == "ztsh: A commit-confirm is pending; confirm it, or wait until it is rolled back\n"
    assert (now(), saved()) == ([], "")


def test_a_full_disk_is_seen_before_the_commit(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ztsh.store.os.fsync", full)
    assert run(places, f"set {ZT} instances 2") == 1
    assert "config.boot cannot be written (No space left on device)" in capsys.readouterr().err
    assert (now(), (places / "log").read_text(), list((places / "config").iterdir())) == ([], "", [])


@pytest.mark.parametrize(("status", "kind"), [(access.REFUSED, SessionError), (access.BUSY, Busy)])
def test_a_member_of_the_group_learns_that_it_may_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, kind: type[SessionError]
) -> None:
    program = tmp_path / "authority"
    program.write_text(f"#!/bin/sh\necho the sentence >&2\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setattr(access, "PROGRAM", str(program))
    with pytest.raises(SessionError, match="^the sentence$") as refused:
        access.ask(SCHEMA, "commit", isolated=True)
    assert type(refused.value) is kind


def test_a_refusal_is_one_sentence_for_members_too(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """They get the authority's text, which is what VyOS prints."""
    with pytest.raises(SessionError) as refused:
        authority.commit(SCHEMA, Request(Changes(added=[(*ZT.split(), "description", "refuse me")])))

    def answer(*_arguments: object, **_details: object) -> str:
        raise SessionError(str(refused.value))

    monkeypatch.setattr(access, "ask", answer)
    assert "\n" in str(refused.value) and run(places, f"set {ZT} disable") == 1
    assert capsys.readouterr() == ("", "ztsh: this description is refused\n")


def test_the_authority_tells_busy_from_refused(places: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    from ztsh import server

    authority.commit(SCHEMA, Request(Changes(added=[(*ZT.split(), "disable")])))
    request = '{"operation": "commit", "changes": {"gone": [], "added": [], "comments": []}, "details": {"base": "of another"}}'
    monkeypatch.setattr(sys, "stdin", io.StringIO(request))
    assert server.serve() == access.BUSY
    assert "changed by another commit" in capsys.readouterr().err
