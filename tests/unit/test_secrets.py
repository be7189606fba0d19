"""Secrets in homes: closed to others, and a token that others can have is taken away."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest
from zerotier_multi import homes
from zerotier_multi.homes import RENEWED, keep_secrets, make_home, token_renewals
from zerotier_multi.units import LOCK


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "zt0/1"
    make_home(home)
    assert keep_secrets(home, running=False) == []
    for name in ("identity.secret", "authtoken.secret"):
        (home / name).write_text("hush")
        (home / name).chmod(0o600)
    return home


@pytest.mark.parametrize("running", [False, True])
def test_closed_secrets_are_left_alone(home: Path, running: bool) -> None:
    assert keep_secrets(home, running) == [] and (home / "authtoken.secret").read_text() == "hush"
    assert token_renewals(home) == 0


@pytest.mark.parametrize(("mode", "user", "why"), [
    (0o640, 0, "could be read by others (mode 0640)"), (0o604, 0, "could be read by others (mode 0604)"),
    (0o600, 65534, "belonged to user nobody"),
])  # fmt: skip
def test_a_token_that_others_can_have_goes(home: Path, mode: int, user: int, why: str) -> None:
    token = home / "authtoken.secret"
    token.chmod(mode)
    os.chown(token, user, -1)
    make_home(home)
    told = keep_secrets(home, running=True)
    assert told == [f"{token} {why}, so the instance gets a new token"] and not token.exists()
    assert token_renewals(home) == 1 and "hush" not in str(told)
    assert keep_secrets(home, running=True) == [] and token_renewals(home) == 1


def test_a_token_that_is_opened_again_goes_again(home: Path) -> None:
    """By the number an instance that runs is restarted, and so forgets the token that was taken away."""
    token = home / "authtoken.secret"
    for number in (1, 2, 3):
        token.write_text("hush")
        token.chmod(0o644)
        assert len(keep_secrets(home, running=True)) == 1 and token_renewals(home) == number


def test_a_token_goes_only_when_that_is_written_down(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise nothing would ask for the restart, and the process that runs would go on to accept it."""
    (home / "authtoken.secret").chmod(0o644)

    def full(path: Path, *_content: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(homes, "write_atomic", full)
        with pytest.raises(OSError, match="No space"):
            keep_secrets(home, running=True)
    assert len(keep_secrets(home, running=True)) == 1 and token_renewals(home) == 1
    assert not (home / "authtoken.secret").exists()


def test_an_identity_is_closed_and_stays(home: Path) -> None:
    secret = home / "identity.secret"
    secret.chmod(0o644)
    os.chown(secret, 65534, 65534)
    make_home(home)
    assert secret.stat().st_uid == 65534, "what it was is to be told"
    os.chown(secret, 0, 65534)
    (told,) = keep_secrets(home, running=True)
    assert (secret.stat().st_uid, secret.stat().st_gid) == (0, 0)
    assert told.startswith(f"{secret} could be read by others (mode 0644), which is now corrected") and "hush" not in told
    assert secret.read_text() == "hush" and secret.stat().st_mode & 0o777 == 0o600


def test_a_token_of_a_version_that_told_it_to_anybody_goes_when_nothing_runs(home: Path) -> None:
    (home / RENEWED).unlink()
    assert keep_secrets(home, running=True) == [] and (home / "authtoken.secret").exists()
    assert keep_secrets(home, running=False) == [] and not (home / "authtoken.secret").exists()
    assert token_renewals(home) == 0  # what runs needs no restart for it


def test_a_home_that_a_backup_has_brought_back_is_root_s(home: Path) -> None:
    (home / "local.conf").write_text("{}")
    for path in (home, *home.rglob("*")):
        os.chown(path, 65534, 65534)
        path.chmod(0o755 if path.is_dir() else 0o644)
    make_home(home)
    keep_secrets(home, running=False)
    assert {path.stat().st_uid for path in (home, *home.rglob("*"))} == {0}
    assert {path.stat().st_mode & 0o777 for path in (home, home / "networks.d", home / "moons.d")} == {0o700}
    assert (home / "identity.secret").stat().st_mode & 0o777 == 0o600


def test_what_a_link_leads_to_is_not_touched(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("")
    other.chmod(0o644)
    os.chown(other, 65534, 65534)
    (home / "metricstoken.secret").symlink_to(other)
    make_home(home)
    assert keep_secrets(home, running=True) == []
    assert (other.stat().st_uid, other.stat().st_mode & 0o777) == (65534, 0o644)


def test_the_commands_of_the_documentation_tell_no_token_to_who_lists_processes(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/vyos.md").read_text()
    (block,) = [found for found in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "authtoken.secret" in found]
    (tmp_path / "authtoken.secret").write_text("hush")
    for name, script in (("sudo", 'echo "$@" >>arguments; exec "$@"'), ("curl", 'echo "$@" >>arguments; cat >>read')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    commands = block.replace("/var/lib/zerotier-one/", f"{tmp_path}/")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, env=environment, check=True, timeout=20)
    told = (tmp_path / "arguments").read_text()
    assert (tmp_path / "read").read_text() == "X-ZT1-Auth: hush\n" * 4
    assert "hush" not in told and told.count("/member/") == 4 and "-H @-" in told


def test_an_identity_that_a_refused_commit_has_made_stays(tmp_path: Path) -> None:
    """Somebody may have been told it; the one before comes back where there was one."""
    homes_of = [tmp_path / "new", tmp_path / "old"]
    for home in homes_of:
        make_home(home)
    (homes_of[1] / "identity.secret").write_text("before")
    before = [homes.HomeBefore(home) for home in homes_of]
    for home, kept in zip(homes_of, before, strict=True):
        (home / "identity.secret").write_text("made")
        kept.restore()
    assert [(home / "identity.secret").read_text() for home in homes_of] == ["made", "before"]


def test_a_home_has_the_lock_that_its_unit_takes(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    lock = tmp_path / "home" / LOCK
    assert lock.is_file() and lock.stat().st_mode & 0o777 == 0o600
