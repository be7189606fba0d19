"""The homes on disk: what is wrong with one, its identity, and bringing its files up to date."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zerotier_multi.files import Before, clear_unfinished, write_atomic
from zerotier_multi.homefiles import MOON_MARK, PLANET_MARK, HomeFiles, is_kept, is_leftover, read_mark, unsettled
from zerotier_multi.identity import PublicIdentity, secret_is_sound
from zerotier_multi.listener import user_name
from zerotier_multi.units import LOCK

RENEWED = "authtoken.renewed"  # how often the token was taken away; see keep_secrets
BEFORE = "identity.before"  # the identity.secret of a home before the configuration had one; empty: there was none
GIVEN = "identity.configured"  # public identities that it has put in its place, a line each; an earlier version wrote none
_SECRETS = ("identity.secret", BEFORE, "authtoken.secret", "metricstoken.secret")
_SECRET_LIMIT = 4096
_OF_IDENTITY = ("identity.secret", "identity.public", GIVEN, BEFORE)
_DIRECTORIES = ("networks.d", "moons.d")


def home_fault(home: Path) -> str | None:
    """Why a home cannot be used, as the second half of a sentence with its remedy; None when it can.

    Nothing is changed: a corrupt identity stays where it is until somebody decides. One that has an identity and cannot be
    written can be used: see :func:`write_fault`.
    """
    existing = _existing(home)
    if not existing.is_dir():
        return f"home {home} cannot be created because {existing} is not a directory; move that file away"
    return _identity_fault(home) or (None if (home / "identity.secret").exists() else write_fault(home))


def write_fault(home: Path) -> str | None:
    """Why a home cannot be written, as :func:`home_fault` says it; None when it can.

    An instance that has run in it runs in it all the same, as long as no file of it has to change.
    """
    existing = _existing(home)
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return f"home {home} is not writable ({error.strerror}); repair the file system of {existing}"


def _existing(home: Path) -> Path:
    while not home.exists():
        home = home.parent
    return home


def _identity_fault(home: Path) -> str | None:
    path = home / "identity.secret"
    remedy = f"restore it from a backup, or move it aside to get a new identity: mv {path} {path}.bad"
    try:
        with path.open("rb") as file:
            content = file.read(_SECRET_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"identity {path} cannot be read ({error.strerror}); {remedy}"
    if not secret_is_sound(content.decode("ascii", "replace")):
        return f"identity {path} is corrupt and was not changed; {remedy}"
    return None


def own_identity(home: Path) -> PublicIdentity | None:
    """Public identity of a home, or None where it has none yet.

    It is read from the secret's own text, because ``identity.public`` is only a copy that can be lost.
    """
    try:
        secret = (home / "identity.secret").read_text("ascii")
    except FileNotFoundError:
        return None
    return PublicIdentity.parse(":".join(secret.strip().split(":")[:3]))


def make_home(home: Path) -> None:
    """Make a home (0700) and its parents; one that a backup has brought back open becomes root's alone. Raises OSError."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    for directory in (home, *(home / name for name in _DIRECTORIES)):
        directory.mkdir(exist_ok=True, mode=0o700)
        if stat.S_IMODE(directory.stat().st_mode) != 0o700:  # where nothing has to change, the disk may be read-only
            os.chmod(directory, 0o700)
    for path in (home, *home.rglob("*")):
        if path.name not in _SECRETS and path.lstat().st_uid:  # those are keep_secrets' to judge
            os.chown(path, 0, 0, follow_symlinks=False)
    if not (home / LOCK).exists():
        (home / LOCK).touch(0o600)


def keep_secrets(home: Path, running: bool) -> list[str]:
    """Close a home's secrets to others, and take a token away that somebody else can have; what to tell, one sentence each.

    The engine makes a new token when it starts. A home without :data:`RENEWED` has its token from a version that told it to
    whoever listened on the port; that is renewed when no process has it. Raises OSError.
    """
    told = []
    token, renewals = home / "authtoken.secret", token_renewals(home)
    for name in _SECRETS:
        path = home / name
        fault = _open_to_others(path)
        if fault is None:
            continue
        if name == token.name:
            renewals = (renewals or 0) + 1
            _write_renewals(home, renewals)  # before the token goes: without it nothing asks for a restart
            path.unlink()
            told.append(f"{path} {fault}, so the instance gets a new token")
        else:
            os.chown(path, 0, 0, follow_symlinks=False)
            os.chmod(path, 0o600)
            told.append(
                f"{path} {fault}, which is now corrected; anybody with a copy can impersonate this node; to replace it, use: reset zerotier"
            )
    if renewals is None and not running:
        token.unlink(missing_ok=True)
        renewals = 0
    if renewals is not None:
        _write_renewals(home, renewals)
    return told


def _write_renewals(home: Path, count: int) -> None:
    write_atomic(home / RENEWED, f"{count}\n".encode(), 0o600)


def _open_to_others(path: Path) -> str | None:
    """Why others than root can have read a file, as the second half of a sentence; None when they cannot."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(seen.st_mode):  # a link; what it leads to is not ours
        return None
    if seen.st_uid:
        return f"belonged to user {user_name(seen.st_uid)}"
    return f"could be read by others (mode {seen.st_mode & 0o777:04o})" if seen.st_mode & 0o077 else None


def token_renewals(home: Path) -> int | None:
    """How often the token of a home was taken away; None for a home that was not looked at yet."""
    try:
        return int((home / RENEWED).read_text())
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class HomeChange:
    """What bringing a home up to date did."""

    written: tuple[str, ...]
    removed: tuple[str, ...]


def sync_home(home: Path, wanted: HomeFiles) -> HomeChange:
    """Bring the files of a home up to date; an unchanged one is not touched. Raises OSError."""
    for directory in (home, *(home / name for name in _DIRECTORIES)):
        with suppress(OSError):  # what stays takes room, no more
            clear_unfinished(directory)
    configured = configured_files(home)
    removed = [path for path in _candidates(home) if _is_leftover(home, path, wanted, configured)]
    for path in removed:
        path.unlink()
    due = {name: content for name, content in wanted.have.items() if not _is_kept(home, name, wanted, configured)}
    marks = [name for name in (PLANET_MARK, MOON_MARK) if name in due]
    for mark in marks:
        if ahead := unsettled(mark, wanted, configured, due):
            write_atomic(home / mark, ahead, 0o600)
    due |= {mark: due.pop(mark) for mark in marks}  # last
    written = [name for name, content in due.items() if write_atomic(home / name, content, 0o600)]
    for name, content in wanted.create.items():
        if not (home / name).exists():
            write_atomic(home / name, content, 0o600)
            written.append(name)
    return HomeChange(tuple(written), tuple(str(path.relative_to(home)) for path in removed))


class HomeBefore:
    """What a commit may change in a home, as it stands now. Raises OSError."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._had_identity = (home / "identity.secret").exists()
        self._identity = Before(home / name for name in _OF_IDENTITY)
        self._files = Before(())

    def remember(self, wanted: HomeFiles) -> None:
        """The files that :func:`sync_home` is about to write or remove."""
        self._files = Before({*(self._home / name for name in (*wanted.have, *wanted.create)), *_candidates(self._home)})

    def restore(self) -> None:
        """Bring them back, as far as the disk lets it. An identity that was generated stays."""
        if self._had_identity or (self._home / GIVEN).exists():
            self._identity.restore()
        self._files.restore()


def configured_files(home: Path) -> Mapping[str, str]:
    """The planet and the moons of a home that come from the configuration, with what its marks say. Raises OSError."""
    found = {"planet": ""} if (home / PLANET_MARK).exists() else {}
    for mark in (home / name for name in (PLANET_MARK, MOON_MARK)):
        found |= read_mark(mark.read_text("ascii", "replace")) if mark.exists() else {}
    return found


def _candidates(home: Path) -> list[Path]:
    found = [
        home / "planet",
        home / PLANET_MARK,
        home / MOON_MARK,
        *sorted((home / "networks.d").glob("*.conf")),
        *sorted((home / "moons.d").glob("*.moon")),
    ]
    return [path for path in found if path.is_file()]


def _is_leftover(home: Path, path: Path, wanted: HomeFiles, configured: Collection[str]) -> bool:
    return is_leftover(str(path.relative_to(home)), path.read_bytes(), wanted, configured)


def _is_kept(home: Path, name: str, wanted: HomeFiles, configured: Mapping[str, str]) -> bool:
    try:
        return is_kept(name, (home / name).read_bytes(), wanted, configured)
    except FileNotFoundError:
        return False
