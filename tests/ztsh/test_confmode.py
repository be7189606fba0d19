"""Conf mode as a user types it: every command, VyOS's words for what is wrong, and what a commit does."""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.configuration import ROOT, SCHEMA
from ztsh import archive, authority, confirm, places as at
from ztsh.authority import Request
from ztsh.boot import boot
from ztsh.bootreport import boot_warning
from ztsh.complete import Choices
from ztsh.confmode import ConfMode
from ztsh.errors import Leave, SessionError
from ztsh.session import Session

ZT = "interfaces zerotier zt0"


def mode() -> ConfMode:
    return ConfMode(Session(SCHEMA), lambda words: f"ran {' '.join(words)}\n")


def do(conf: ConfMode, *lines: str) -> str:
    return "".join(conf.line(line) for line in lines)


def refused(conf: ConfMode, line: str) -> str:
    before = (conf.session.wanted, conf.level)
    with pytest.raises(SessionError) as error:
        conf.line(line)
    assert (conf.session.wanted, conf.level) == before
    return str(error.value)


def log(places: Path) -> list[str]:
    return (places / "log").read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("set interfaces foo", "Configuration path: interfaces [foo] is not valid\nSet failed"),
        (f"set {ZT} disable now", f"Configuration path: {ZT} disable [now] is not valid\nSet failed"),
        (f"set {ZT} mtu 1500 9", f"Configuration path: {ZT} mtu 1500 [9] is not valid\nSet failed"),
        (f"set {ZT} mtu", f"Configuration path: [{ZT} mtu] requires a value\nSet failed"),
        ("set interfaces zerotier", "Configuration path: [interfaces zerotier] requires a value\nSet failed"),
        ("set interfaces zerotier eth0", "ZeroTier interface must be named zt0 to zt255\nValue validation failed\nSet failed"),
        (f"delete {ZT} foo", f"Configuration path: {ZT} [foo] is not valid\nDelete failed"),
        ("delete", "Need to specify the config node to delete\nDelete failed"),
        (f"show {ZT} foo", f"Configuration path: {ZT} [foo] is not valid\nShow failed"),
        ("edit interfaces zerotier", 'The "edit" command cannot be issued at the specified level'),
        (f"edit {ZT} mtu", 'The "edit" command cannot be issued at the specified level'),
        ("up", "Already at the top level"),
        ("set", "Need to specify the config node to set\nSet failed"),
        ("frob", "Invalid command: [frob]"),
        (f"comment {ZT} 'x'", "The specified config node does not exist\nComment failed"),
        ("copy zerotier zt0 to zerotier zt1", "Configuration path: [zerotier] is not valid\nCopy failed"),
        ("commit nonsense", "Invalid command: use commit [comment 'text']"),
        ("commit-confirm 0", "commit-confirm 0 is not possible; give 1 to 1440 minutes"),
        ("commit comment", "Invalid command: use commit [comment 'text']"),
        ("commit x y", "Invalid command: use commit [comment 'text']"),
        ("commit-confirm 1441", "commit-confirm 1441 is not possible; give 1 to 1440 minutes"),
        ("rollback", "Error: must include a revision # to rollback to"),
        ("rollback 0", "Invalid revision number 0: must be 0 <= rev < 0"),
        ("rollback 7", "Invalid revision number 7: must be 0 <= rev < 0"),
        ("compare x", "Invalid command: use compare, compare saved, compare N or compare N M"),
        ("compare 0 x", "Invalid command: use compare, compare saved, compare N or compare N M"),
        ("compare 0 0 0", "Invalid command: use compare, compare saved, compare N or compare N M"),
        ("save /a /b", "Invalid command: use save [FILE]"),
        ("load /a /b", "Invalid command: use load [FILE]"),
        ("merge", "Invalid command: use merge FILE"),
        ("load /nowhere", "/nowhere cannot be read (No such file or directory)"),
        ("load /proc/self/exe", "/proc/self/exe cannot be read (not a text)"),
        ("exit now", "Invalid argument \"now\" for 'exit'"),
        ("exit discard now", "Invalid argument \"discard now\" for 'exit'"),
        ("run", "Incomplete command: run"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_vyos_words_and_changes_nothing(places: Path, line: str, words: str) -> None:
    assert refused(mode(), line) == words


def test_words_may_be_cut_short_but_not_so_that_two_fit(places: Path) -> None:
    conf = mode()
    do(conf, "se inter zer zt0 desc 'a b'", "set int zer zt0 network-i 8056c2e21c000001")
    assert do(conf, "show").splitlines()[2] == "+        description \"a b\""
    assert refused(conf, f"set {ZT} inst 1").startswith(f"Configuration path: {ZT} [inst] is ambiguous")
    assert refused(conf, "co").startswith("Ambiguous command: [co]")


def test_show_marks_what_a_commit_would_do(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", f"set {ZT} address 10.0.55.1/32", f"set {ZT} disable", "commit")
    do(conf, f"set {ZT} mtu 1600", f"delete {ZT} disable", f"set {ZT} address 10.0.55.9/32", "set interfaces zerotier zt1")
    assert do(conf, "show") == (
        " interfaces {\n"
        "     zerotier zt0 {\n"
        "         address 10.0.55.1/32\n"
        "+        address 10.0.55.9/32\n"
        "-        disable\n"
        ">        mtu 1600\n"
        "     }\n"
        "+    zerotier zt1 {\n"
        "+    }\n"
        " }\n"
    )
    assert do(conf, f"show {ZT} mtu") == ">mtu 1600\n"
    assert do(conf, f"show {ZT} remote") == "Configuration under specified path is empty\n"
    assert "\n         instances 1\n" in do(conf, "show -all") and "instances 1" not in do(conf, "show")


def test_compare_in_vyos_form(places: Path) -> None:
    conf = mode()
    assert do(conf, "compare") == "No changes between working and active configurations.\n"
    do(conf, f"set {ZT} mtu 1500", f"set {ZT} address 10.0.55.1/32", "commit", "save")
    do(conf, f"set {ZT} mtu 1600", f"set {ZT} address 10.0.55.2/32", "set interfaces zerotier zt1 disable")
    expected = (
        "[interfaces zerotier zt0]\n"
        '+ address "10.0.55.2/32"\n'
        '- mtu "1500"\n'
        '+ mtu "1600"\n'
        "[interfaces zerotier]\n"
        "+ zt1 {\n"
        "+     disable\n"
        "+ }\n"
    )
    assert do(conf, "compare") == do(conf, "compare saved") == do(conf, "compare 0") == expected
    assert do(conf, "compare commands") == (
        f"set {ZT} address '10.0.55.2/32'\nset {ZT} mtu '1600'\nset interfaces zerotier zt1 disable\n"
    )
    do(conf, "commit")
    assert do(conf, "compare 0 1") == expected
    assert do(conf, f"edit {ZT}", "compare 0 1").startswith("[interfaces zerotier zt0]")


def test_nothing_to_delete_is_told_of_the_value_or_the_node(places: Path) -> None:
    conf = mode()
    assert "(the specified node does not exist)" in do(conf, f"delete {ZT}")
    assert "(the specified node does not exist)" in do(conf, f"delete {ZT} description")
    assert "(the specified value does not exist)" in do(conf, f"delete {ZT} description description")


@pytest.mark.parametrize("line", ["load /nowhere", "merge /nowhere", "save /proc/nowhere"])
def test_a_refused_command_leaves_the_edit_level(places: Path, line: str) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit", f"edit {ZT}")
    refused(conf, line)
    assert conf.level == ("interfaces", "zerotier", "zt0")


def test_editing_below_a_level(places: Path) -> None:
    conf = mode()
    do(conf, f"edit {ZT}", "set mtu 1500", "edit remote R2", "set prefix 192.0.2.0/24")
    assert conf.level == ("interfaces", "zerotier", "zt0", "remote", "R2")
    do(conf, "up")
    assert conf.level == ("interfaces", "zerotier", "zt0")
    do(conf, "copy remote R2 to remote R3", "rename remote R2 to remote R4")
    assert sorted(conf.session.candidate["interfaces"]["zerotier"]["zt0"]["remote"]) == ["R3", "R4"]
    assert refused(conf, "copy remote R3 to remote R4") == 'Configuration "remote R4" already exists\nCopy failed'
    assert refused(conf, "rename remote R9 to remote R5") == 'Configuration "remote R9" does not exist\nRename failed'
    assert refused(conf, "copy remote R3 to remote _").startswith("Name must be")
    assert do(conf, "exit") == "" and conf.level == ()
    assert "Cannot exit: configuration modified." in do(conf, "exit")
    with pytest.raises(Leave):
        do(conf, "exit discard")


def test_who_leaves_without_saving_is_told(places: Path) -> None:
    conf = mode()
    told = []
    for lines in ((), (f"set {ZT} mtu 1500", "commit"), (f"save {places}/other",), ("save",), ("top",)):
        do(conf, *lines)
        with pytest.raises(Leave) as left:
            do(conf, "exit")
        told.append(str(left.value))
    warning = "Warning: configuration changes have not been saved.\n"
    assert told == ["", warning, warning, "", ""]


def test_another_configuration_is_looked_at_from_the_top(places: Path) -> None:
    conf, file = mode(), places / "other.boot"
    do(conf, f"set {ZT} mtu 1500", "commit", f"set {ZT} mtu 1600", "commit", f"save {file}")
    for line in (f"load {file}", f"merge {file}", "save", "rollback 1", "top"):
        do(conf, "discard", f"edit {ZT}")
        assert conf.level == ("interfaces", "zerotier", "zt0")
        do(conf, line)
        assert conf.level == (), line
    assert do(conf, "top") == "Already at the top level\n"


def test_a_rollback_leaves_nothing_of_what_was_not_committed(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit", f"set {ZT} mtu 1600", "commit", f"set {ZT} description new")
    do(conf, "rollback 1")
    assert do(conf, "compare commands") == f"set {ZT} mtu '1500'\n"
    assert do(conf, "save").startswith("Warning: you have uncommitted changes that will not be saved.\n")
    assert do(conf, "discard", "save").count("Warning") == 0


def test_comments_go_with_what_they_are_about(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", f"comment {ZT} 'to the branch'", f"comment {ZT} mtu \"as small as theirs\"")
    assert " /* to the branch */\n" in do(conf, "show").replace("+", " ")
    assert refused(conf, f"comment {ZT} mtu 1500 x").startswith("Cannot comment on config values")
    assert refused(conf, "comment interfaces zerotier x") == "Cannot add comment at this level\nComment failed"
    assert refused(conf, f"comment {ZT} 'a */ b'") == "Cannot use the '*' character in a comment\nComment failed"
    do(conf, "commit", "save")
    again = mode()
    assert again.session.wanted == conf.session.wanted and len(again.session.comments) == 2
    do(again, f"delete {ZT} mtu")
    assert list(again.session.comments) == [("interfaces", "zerotier", "zt0")]
    assert do(again, "compare").startswith("[interfaces zerotier zt0]\n")


def test_a_commit_runs_the_script_once_for_what_changed(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "set interfaces zerotier zt1", "commit")
    assert sorted(log(places)) == ["zt0 set None", "zt1 set None"]
    do(conf, "delete interfaces zerotier zt1", f"set {ZT} description x", "commit")
    assert log(places)[2:] == ["zt1 gone None", "zt0 set x"]
    assert do(conf, "commit") == "No configuration changes to commit\n"


@pytest.mark.parametrize(("text", "ran"), [("refuse me", []), ("break me", ["zt0 set one"])])
def test_a_commit_that_fails_leaves_everything_as_it_was(places: Path, text: str, ran: list[str]) -> None:
    conf = mode()
    do(conf, f"set {ZT} description one", "commit")
    before = Session(SCHEMA).running
    count = len(log(places))
    do(conf, f"set {ZT} description two", f"set interfaces zerotier zt1 description '{text}'")
    with pytest.raises(SessionError) as error:
        do(conf, "commit")
    assert str(error.value).startswith("[ interfaces zerotier zt1 ]\nthis description ")
    assert str(error.value).endswith("[[interfaces zerotier zt1]] failed\nCommit failed")
    assert Session(SCHEMA).running == before and conf.session.modified()
    assert len(archive.revisions()) == 1
    undone = log(places)[count:]
    assert undone == (["zt0 set two", "zt1 gone None", "zt0 set one"] if text == "break me" else [])
    do(conf, "set interfaces zerotier zt1 description fine", "commit")
    assert "fine" in Session(SCHEMA).text()


def killed(text: str) -> None:
    """A commit of a description for zt0 that is killed while its script runs."""
    child = os.fork()
    if child == 0:
        try:
            do(mode(), f"set {ZT} description '{text}'", "commit")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9


def test_the_next_commit_repairs_what_a_killed_one_has_left(places: Path) -> None:
    """Whatever it changes itself; and only once."""
    do(mode(), f"set {ZT} description one", "commit")
    killed("kill me")
    assert "one" in do(mode(), f"show {ZT}")
    count = len(log(places))
    do(mode(), "set interfaces zerotier zt1", "commit")
    assert log(places)[count:] == ["zt0 set one", "zt1 set None"]
    do(mode(), "delete interfaces zerotier zt1", "commit")
    assert log(places)[count + 2 :] == ["zt1 gone None"]
    assert sorted(path.name for path in (places / "run").iterdir()) == ["active.boot", "active.public", "commit.lock"]


def test_a_refused_commit_does_not_forget_what_was_killed(places: Path) -> None:
    do(mode(), f"set {ZT} description one", "commit")
    killed("kill me")
    with pytest.raises(SessionError):
        do(mode(), "set interfaces zerotier zt1 description 'refuse me'", "commit")
    count = len(log(places))
    do(mode(), "set interfaces zerotier zt2", "commit")
    assert log(places)[count:] == ["zt0 set one", "zt2 set None"]


def test_two_sessions_have_candidates_of_their_own(places: Path) -> None:
    first, second = mode(), mode()
    do(first, f"set {ZT} mtu 1500", "commit")
    do(second, f"set {ZT} description mine")
    assert do(second, "compare") == '[interfaces zerotier zt0]\n+ description "mine"\n'
    do(first, f"set {ZT} address 10.0.55.1/32", "commit")
    do(second, "commit")
    assert do(first, f"show {ZT}") == " address 10.0.55.1/32\n description mine\n mtu 1500\n"


def test_a_commit_waits_for_no_other(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500")
    (places / "run").mkdir(exist_ok=True)
    with (places / "run/commit.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SessionError, match="temporarily locked due to another commit in progress\nCommit failed"):
            do(conf, "commit")
    do(conf, "commit")


def test_rollback_through_the_archive(places: Path) -> None:
    conf = mode()
    for mtu in (1500, 1600, 1700):
        do(conf, f"set {ZT} mtu {mtu}", f"commit comment 'mtu {mtu}'")
    assert [r.comment for r in archive.revisions()] == ["mtu 1700", "mtu 1600", "mtu 1500"]
    assert "Rollback diff has been applied." in do(conf, "rollback 2")
    assert do(conf, "compare") == '[interfaces zerotier zt0]\n- mtu "1700"\n+ mtu "1500"\n'
    do(conf, "commit")
    assert do(conf, f"show {ZT} mtu") == " mtu 1500\n"
    assert "no changes to commit" in do(conf, "rollback 0")


def test_a_damaged_archive_is_not_in_the_way(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit", f"set {ZT} mtu 1600", "commit")
    newest = archive.revisions()[0].file
    newest.write_bytes(newest.read_bytes()[:20])
    assert len(archive.revisions()) == 1
    do(conf, f"set {ZT} mtu 1700", "commit")
    assert len(archive.revisions()) == 2 and archive.revisions()[0].file > newest
    shutil.rmtree(places / "config/archive")
    do(conf, f"set {ZT} mtu 1800", "commit")
    assert len(archive.revisions()) == 1


HEADERS = ["{", "[]", '{"time": 1}', "[" * 100_000]
HEADERS += ['{"user": "", "via": "", "comment": "", "time": %s}' % time for time in ("-1", "1e300")]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b"x")[:10] + b"\xff" * 50, id="broken gzip"),
        pytest.param(gzip.compress(b"\xff"), id="no text"),
        *(pytest.param(gzip.compress(f"// commit: {header}\n".encode()), id=header[:70]) for header in HEADERS),
        pytest.param(
            gzip.compress(b'// commit: {"user": "", "via": "", "comment": "", "time": 1}\n' + b" " * 300_000), id="too long"
        ),
    ],
)
def test_what_is_no_commit_hides_no_other(places: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(archive, "_LIMIT", 200_000)
    archive.add("", 0, "root", "cli", "good")
    kept = places / "config/archive"
    (kept / "commit-00000001.gz").write_bytes(content)
    (kept / "notes.txt").touch()
    archive.add("", 2, "root", "cli", "later")
    assert [(r.comment, r.file.name) for r in archive.revisions()] == [
        ("later", "commit-00000002.gz"),
        ("good", "commit-00000000.gz"),
    ]
    assert len(archive.log(archive.revisions()).splitlines()) == 4
    assert kept.stat().st_mode & 0o777 == 0o750, "it has secrets"


def test_the_archive_keeps_the_newest(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "KEEP", 3)
    for number in range(6):
        archive.add(f"// {number}\n", number, "root", "cli", str(number))
    assert [r.comment for r in archive.revisions()] == ["5", "4", "3"]


def test_save_load_and_merge(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit")
    assert "Done" in do(conf, "save", f"save {places}/other.boot")
    assert (places / "other.boot").read_text() == (places / "config/config.boot").read_text()
    assert (places / "config/config.boot").read_text().endswith('// vyos-config-version: "zerotier@1"\n')
    (places / "more.boot").write_text('interfaces {\n    zerotier zt0 {\n        description "more"\n    }\n}\n')
    assert do(conf, f"merge {places}/more.boot") == "Merge complete. Use 'commit' to make changes effective.\n"
    assert "Cannot load: configuration modified." in do(conf, "load")
    do(conf, "discard", f"load {places}/more.boot")
    assert do(conf, f"show {ZT}") == '+description more\n-mtu 1500\n'
    do(conf, "discard")
    assert do(conf, "load").endswith("No configuration changes to commit.\n")
    offered = conf.choices(["load"], lambda _rest: Choices()).starting(f"{places}/config/c").words
    assert offered == [f"{places}/config/config.boot"]


def test_boot_takes_what_it_can(places: Path) -> None:
    (places / "config/config.boot").write_text(
        "interfaces {\n    zerotier zt0 {\n        mtu 9\n        description ok\n    }\n"
        "    zerotier zt1 {\n        description 'refuse me'\n    }\n}\n"
    )
    left = boot(SCHEMA)
    assert left[0] == f"line 3: set {ZT} mtu '9': MTU must be auto or 1280 to 9890 bytes"
    assert left[1].startswith("interfaces zerotier zt1: [ interfaces zerotier zt1 ]\nthis description is refused")
    assert log(places) == ["zt0 set ok"]
    assert Session(SCHEMA).text() == 'interfaces {\n    zerotier zt0 {\n        description "ok"\n    }\n}\n'
    assert archive.revisions()[0].via == "boot-config-loader"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"interfaces {\n    zerotier zt0 {\n        mtu 1500\n", "line 3"),
        (b"\x00\xff\xfe" * 40, "codec can't decode"),
        (b"\n", "it is empty"),
    ],
)
def test_a_saved_configuration_that_cannot_be_read_gives_way_to_the_newest_commit(places: Path, content: bytes, why: str) -> None:
    do(mode(), f"set {ZT} mtu 1500", "commit", "save", f"set {ZT} mtu 1600", "commit")
    shutil.rmtree(places / "run")
    (places / "config/config.boot").write_bytes(content)
    (told,) = boot(SCHEMA)
    assert told.startswith(f"{places}/config/config.boot cannot be read (") and why in told
    assert "the commit of 20" in told and told.endswith(f"the file is kept as {places}/config/config.boot.unreadable")
    assert (places / "config/config.boot.unreadable").read_bytes() == content
    conf = mode()
    assert do(conf, f"show {ZT}") == " mtu 1600\n"
    assert "Revision 0 is the running configuration" in do(conf, "rollback 0")
    assert boot_warning() == f"Warning: at boot: {told}\n"
    shutil.rmtree(places / "run")
    assert boot(SCHEMA) == [] and boot_warning() == ""
    assert do(mode(), f"show {ZT}") == " mtu 1600\n"


def test_an_unreadable_configuration_without_any_commit_is_left_where_it_is(places: Path) -> None:
    (places / "config/config.boot").write_text("interfaces {")
    (told,) = boot(SCHEMA)
    assert "the archive has no commit, so nothing is configured" in told
    assert (places / "config/config.boot").read_text() == "interfaces {"


def test_only_root_can_hold_the_lock_of_commits(places: Path) -> None:
    (places / "run").mkdir()
    (places / "run/commit.lock").touch(0o666)
    do(mode(), f"set {ZT} mtu 1500", "commit")
    assert (places / "run/commit.lock").stat().st_mode & 0o777 == 0o600


def test_only_the_group_reads_what_has_secrets(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ztsh.store.group_id", lambda: 4242)
    (places / f"config/.config.boot.{os.getpid()}").symlink_to(places / "elsewhere")  # of a process before this one, or of somebody
    before = os.umask(0o077)
    try:
        do(mode(), f"set {ZT} mtu 1500", "commit", "save")
    finally:
        os.umask(before)
    assert not (places / "elsewhere").exists()
    for name in ("run/active.boot", "config/config.boot", "config/archive/commit-00000000.gz"):
        found = (places / name).stat()
        assert (found.st_mode & 0o777, found.st_gid) == (0o640, 4242), name
    assert (places / "run/active.public").stat().st_mode & 0o777 == 0o644


def test_what_killed_commits_left_goes_with_the_next_one(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit")
    left = [places / "run" / f".active.{name}.{n}" for name in ("boot", "public") for n in (7, 4000000)]
    for path in left:
        path.write_text("half")
    do(conf, f"set {ZT} mtu 1600", "commit")
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize("text", ["a\nforged line", "\x1b[2J", "a\tb", "\u202e"])
def test_a_commit_from_outside_puts_nothing_on_terminals(places: Path, text: str) -> None:
    for request in (Request(via=text), Request(comment=text), Request(user=text)):
        request.changes.added.append(("interfaces", "zerotier", "zt0", "mtu", "1500"))
        with pytest.raises(SessionError, match="of a commit must be one line of printable characters"):
            authority.commit(SCHEMA, request)
    assert log(places) == []


def test_what_another_has_committed_meanwhile_is_no_second_commit(places: Path) -> None:
    request = Request()
    request.changes.added.append(("interfaces", "zerotier", "zt0", "mtu", "1500"))
    authority.commit(SCHEMA, request)
    assert authority.commit(SCHEMA, request) == "No configuration changes to commit\n"
    assert len(log(places)) == len(archive.revisions()) == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"operation": "commit", "changes": {"gone": [], "added": [], "comments": []}, "details": {"confirm": Infinity}}',
        '{"operation": "commit", "changes": {"gone": [], "added": [], "comments": []}, "details": []}',
        "[" * 100_000,
        '{"operation": 1}',
        "not JSON",
    ],
)
def test_a_request_that_is_none_is_refused_in_a_line(places: Path, text: str) -> None:
    program = "from ztsh.server import serve; raise SystemExit(serve())"
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("invalid request (") and done.stderr.count("\n") == 1


def test_the_way_back_waits_for_another_commit_as_long_as_it_takes(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit")
    (places / "run/confirm.boot").write_text("")
    said: list[str] = []
    monkeypatch.setattr(confirm, "_wall", said.append)
    waited: list[float] = []
    lock = (places / "run/commit.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1000:  # two hundred seconds of it
            lock.close()

    monkeypatch.setattr(confirm.time, "sleep", pause)
    assert "rolling back" in confirm.revert(SCHEMA)
    assert len(waited) == 1000
    assert [line for line in said if "another commit is in progress" in line] == said[:1] and len(said) == 2
    assert Session(SCHEMA).text() == ""


def test_the_way_back_is_tried_again_until_nothing_refuses_it(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less and less often, and each reason is told once."""
    do(mode(), f"set {ZT} description now", "commit")
    before = places / "run/confirm.boot"
    before.mkdir()
    said: list[str] = []
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            before.rmdir()
            before.write_text('interfaces {\n    zerotier zt0 {\n        description "refuse me"\n    }\n}\n')
        if len(waited) == 9:
            before.write_text("")

    monkeypatch.setattr(confirm, "_wall", said.append)
    monkeypatch.setattr(confirm.time, "sleep", pause)
    assert confirm.revert(SCHEMA).endswith("rolling back to the previous configuration now\n")
    assert waited == pytest.approx([0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    waits = [line for line in said if "has to wait" in line]
    assert len(waits) == 2 and "Is a directory" in waits[0] and "this description is refused" in waits[1]
    assert Session(SCHEMA).text() == "" and not before.exists()


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[list[str]]]:
    """Has systemd say that the timer is in a state, and end the start of one so; what it is told."""

    def says(state: str, ends: int = 0) -> list[list[str]]:
        told: list[list[str]] = []

        def run(words: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
            told.append(words)
            return subprocess.CompletedProcess(words, ends if words[0] == "systemd-run" else 0, f"inactive\n{state}\n", "no bus\n")

        monkeypatch.setattr(confirm.subprocess, "run", run)
        return told

    return says


def test_a_timer_that_does_not_start_and_one_that_runs_refuse_a_commit_confirm(
    places: Path, systemd: Callable[[str, int], list[list[str]]]
) -> None:
    conf = mode()
    for state, ends, why in [
        ("failed", 1, "commit-confirm cannot start its timer: no bus\nCommit failed"),
        ("active", 0, "Another confirm is pending\nCommit failed"),
        ("activating", 0, "Another confirm is pending\nCommit failed"),
    ]:
        systemd(state, ends)
        do(conf, f"set {ZT} mtu 1500")
        with pytest.raises(SessionError) as error:
            do(conf, "commit-confirm 1")
        assert str(error.value) == why and Session(SCHEMA).text() == ""


def test_what_is_confirmed_has_no_timer_and_no_way_back(places: Path, systemd: Callable[[str], list[list[str]]]) -> None:
    conf, before = mode(), places / "run/confirm.boot"
    do(conf, f"set {ZT} mtu 1500", "commit")
    told = systemd("inactive")
    do(conf, f"set {ZT} mtu 1600", "commit-confirm 7")
    assert 'mtu "1500"' in before.read_text() and "--on-active=7m" in told[-1] and told[-1][-2:] == ["/usr/bin/ztsh", "revert"]
    told = systemd("active")
    do(conf, "confirm")
    assert ["systemctl", "stop", "ztsh-commit-confirm.timer", "ztsh-commit-confirm.service"] in told and not before.exists()


def test_boot_clears_what_a_power_cut_left_of_a_save(places: Path) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit", "save")
    kept = [places / "config" / name for name in ("config.boot", ".config.boot.old", ".notes.txt.7")]
    for path in kept[1:]:
        path.write_text("mine")
    left = [places / "config/.config.boot.417", places / "config/archive/.commit-00000003.gz.9"]
    for path in left:
        path.write_text("half")
    assert boot(SCHEMA) == []
    assert all(path.exists() for path in kept) and not any(path.exists() for path in left)


def test_a_configuration_that_cannot_be_put_in_place_is_undone(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit")

    def broken(_from: Path, _to: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ztsh.store.os.replace", broken)
    with pytest.raises(SessionError, match=r"cannot be written \(Input/output error\); repair the file system\nCommit failed"):
        do(conf, f"set {ZT} description new", "commit")
    assert log(places)[1:] == ["zt0 set new", "zt0 set None"] and "description" not in Session(SCHEMA).text()
    assert not list((places / "run").glob(".*"))


def test_everybody_sees_what_runs_where_a_commit_fails_half_way(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text without secrets is in place before the other one."""
    conf = mode()
    do(conf, f"set {ZT} description old", "commit")
    replace, calls = os.replace, list[str]()

    def second_fails(source: str, target: str) -> None:
        calls.append(str(target))
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr("ztsh.store.os.replace", second_fails)
    with pytest.raises(SessionError, match="cannot be written"):
        do(conf, f"set {ZT} description new", "commit")
    assert "old" in at.public_file().read_text() and "old" in at.active_file().read_text()


def test_a_full_disk_stops_a_commit_before_it_does_anything(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = mode()
    do(conf, f"set {ZT} mtu 1500", "commit")
    before = log(places)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ztsh.store.os.fsync", full)
    do(conf, f"set {ZT} mtu 1600")
    with pytest.raises(SessionError) as error:
        do(conf, "commit")
    assert "cannot be written (No space left on device); free some space" in str(error.value)
    with pytest.raises(SessionError, match="Save failed"):
        do(conf, "save")
    monkeypatch.undo()
    assert log(places) == before
    assert not [p for p in (places / "run").iterdir() if p.name.startswith(".")]


def test_secrets_are_masked_for_others() -> None:
    from dataclasses import replace

    from ztsh.schema import load_schema
    from ztsh.tree import masked

    schema = load_schema(ROOT / "interface-definitions")
    tag = schema.children["interfaces"].children["zerotier"]
    tag.children["description"] = replace(tag.children["description"], secret=True)
    tree = {"interfaces": {"zerotier": {"zt0": {"description": ["hidden"], "mtu": ["1500"]}}}}
    assert masked(tree, schema)["interfaces"]["zerotier"]["zt0"] == {"description": ["*" * 16], "mtu": ["1500"]}
