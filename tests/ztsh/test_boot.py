"""What boot has refused, or has not come to, is not lost with the next save."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.configuration import ROOT, SCHEMA
from zerotier_multi import engine
from ztsh import apply, archive, boot as at_boot
from ztsh.__main__ import main
from ztsh.boot import boot
from ztsh.bootreport import boot_warning
from ztsh.confmode import ConfMode
from ztsh.errors import SessionError
from ztsh.session import Session

ZT = "interfaces zerotier zt0"
SAVED = """interfaces {
    zerotier zt0 {
        description "good"
    }
    zerotier zt1 {
        description "refuse me"
    }
}
"""


@pytest.fixture(autouse=True)
def _schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "load_schema", lambda _directory: SCHEMA)


@pytest.fixture
def saved(places: Path) -> Path:
    file = places / "config/config.boot"
    file.write_text(SAVED)
    file.chmod(0o600)
    return file


def do(*lines: str) -> str:
    conf = ConfMode(Session(SCHEMA), lambda _words: "")
    return "".join(conf.line(line) for line in lines)


def applied(places: Path, *lines: str) -> int:
    (places / "lines").write_text("".join(f"{line}\n" for line in lines))
    return main(["apply", str(places / "lines")])


def reboot(places: Path) -> list[str]:
    shutil.rmtree(places / "run", ignore_errors=True)
    return boot(SCHEMA)


def test_what_was_refused_is_kept_and_the_warning_names_it(places: Path, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = saved.with_name("config.boot.at-boot")
    told = reboot(places)
    assert told[0].startswith("interfaces zerotier zt1: ")
    assert told[1] == f"the next save replaces {saved}; as it was at boot it is kept as {kept}"
    assert kept.read_text() == SAVED and kept.stat().st_mode & 0o777 == 0o600
    assert applied(places, f"set {ZT} description other") == 0
    assert "zt1" not in saved.read_text() and kept.read_text() == SAVED
    assert f"Warning: at boot: {told[1]}\n" in capsys.readouterr().err and str(kept) in boot_warning()


def test_no_copy_replaces_another_one(places: Path, saved: Path) -> None:
    reboot(places)
    reboot(places)
    copies = sorted(path.name for path in (places / "config").glob("config.boot.*"))
    assert copies == ["config.boot.at-boot"], "the same is kept once"
    other = SAVED.replace("zt1", "zt2")
    saved.write_text(other)
    assert reboot(places)[-1].endswith(f"kept as {saved}.at-boot.2")
    assert Path(f"{saved}.at-boot").read_text() == SAVED and Path(f"{saved}.at-boot.2").read_text() == other
    saved.write_text(SAVED.replace("refuse me", "fine"))
    assert reboot(places) == [] and len(list((places / "config").glob("config.boot.*"))) == 2


def test_lines_that_do_not_fit_are_kept_too(places: Path, saved: Path) -> None:
    saved.write_text(SAVED.replace('"refuse me"', '"fine"\n        mtu "9"'))
    reboot(places)
    do("save")
    assert "mtu" not in saved.read_text() and 'mtu "9"' in Path(f"{saved}.at-boot").read_text()


def test_a_file_that_cannot_be_read_is_kept_also_without_an_archive(places: Path, saved: Path) -> None:
    saved.write_text(SAVED[:-4])
    (told,) = reboot(places)
    do(f"set {ZT} description new", "commit", "save")
    assert told.endswith(f"kept as {saved}.at-boot") and Path(f"{saved}.at-boot").read_text() == SAVED[:-4]


def test_a_disk_without_room_for_the_copy_is_told(places: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(at_boot, "Replacement", full)
    assert reboot(places)[-1] == f"{saved} could not be copied (No space left on device); copy it before the next save replaces it"


def test_a_boot_that_refuses_all_has_ended_all_the_same(places: Path, saved: Path) -> None:
    saved.write_text(SAVED.replace("good", "refuse me"))
    assert len(reboot(places)) == 3
    do("save")
    assert "zerotier" not in saved.read_text().partition("//")[0]


def lost(places: Path, saved: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a save and an apply say when they are refused."""
    before = saved.read_text()
    with pytest.raises(SessionError) as refused:
        do("save")
    assert applied(places, f"set {ZT} description other") == 1
    assert saved.read_text() == before and "description other" not in Session(SCHEMA).text()
    assert capsys.readouterr().err == f"ztsh: {refused.value.reason}\n"
    return str(refused.value)


def test_nothing_is_saved_while_boot_was_not_there(places: Path, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why = f"{saved} is not applied yet and would be lost; wait, or run: systemctl restart ztsh-boot"
    assert lost(places, saved, capsys) == f"{why}\nSave failed"


def test_nothing_is_saved_after_a_boot_that_was_killed(
    places: Path, saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even what has been committed meanwhile; the next boot puts it right."""

    class Killed(BaseException):
        pass

    def killed(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(at_boot, "activate", killed)
        with pytest.raises(Killed):
            reboot(places)
    assert boot_warning() == f"Warning: at boot: {at_boot.BOOTING}\n"
    lost(places, saved, capsys)
    do("set interfaces zerotier zt5", "commit")
    assert "would be lost" in lost(places, saved, capsys)
    boot(SCHEMA)
    do("save")
    assert "good" in saved.read_text()


BROKEN = "interfaces {"  # a text that nobody can read


def test_a_commit_that_cannot_be_read_gives_way_to_the_one_before(places: Path, saved: Path) -> None:
    reboot(places)
    archive.add(BROKEN, 2e9, "root", "cli", "broken")
    saved.write_text(BROKEN)
    (told,) = reboot(places)
    assert archive.when(archive.revisions()[-1]) in told and saved.read_text().count('description "good"') == 1
    assert "good" in Session(SCHEMA).text() and [r.comment for r in archive.revisions()] == ["", "broken", ""]


def test_a_line_that_an_archived_commit_loses_is_told_and_kept(places: Path, saved: Path) -> None:
    """As one of the saved configuration is."""
    archive.add(
        SAVED.replace('description "good"', 'description "good"\n        mtu "9"'), 2e9, "root", "cli", "of another version"
    )
    saved.write_text(BROKEN)
    told = "\n".join(reboot(places))
    assert "was applied instead" in told and 'mtu' in told, told
    assert 'mtu "9"' in saved.with_name("config.boot.at-boot").read_text()


def test_boot_adds_to_the_archive_what_is_new_to_it(places: Path, saved: Path) -> None:
    """Somebody may have put another file there."""
    reboot(places)
    reboot(places)
    assert len(archive.revisions()) == 1
    saved.write_text(SAVED.replace("good", "other"))
    reboot(places)
    assert ["other" in r.text() for r in archive.revisions()] == [True, False]
    archive.add(BROKEN, 2e9, "root", "cli", "broken")
    reboot(places)
    assert ["other" in r.text() for r in archive.revisions()] == [True, False, True, False]


def test_sessions_of_shells_lie_where_only_the_group_may_look(places: Path, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_boot, "group_id", lambda: 4242)
    reboot(places)
    found = {path: path.stat() for path in (places / "run", places / "run/sessions")}
    assert [(s.st_mode & 0o7777, s.st_uid, s.st_gid) for s in found.values()] == [(0o755, 0, 4242), (0o1770, 0, 4242)]


def test_boot_has_more_time_than_a_search_for_an_identity() -> None:
    unit = (ROOT / "packages/ztsh/systemd/ztsh-boot.service").read_text()
    (limit,) = re.findall(r"^TimeoutStartSec=(\d+)$", unit, re.MULTILINE)
    assert float(limit) > 2 * engine.LIMIT
