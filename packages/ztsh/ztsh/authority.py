"""What only root does: carrying out configurations, saving them, and going back when nobody confirms.

Members of the configuration group come here through sudo (:mod:`ztsh.access`), so a request is checked as
anything from outside is.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path as File

from ztsh import archive, places
from ztsh.commit import CommitFailed, Runner, owners
from ztsh.differences import Config
from ztsh.schema import Node
from ztsh.session import Changes, SessionError, active, below, changed, check, check_comment, read_config
from ztsh.store import Replacement, StoreError, clear_unfinished, group_id, write
from ztsh.text import footer, render
from ztsh.tree import apply, copy_tree, delete_path, masked

CONFIRM_UNIT = "ztsh-commit-confirm"
LOCKED = "Configuration system temporarily locked due to another commit in progress"


class Locked(SessionError):
    """Another commit is under way."""


@dataclass
class Request:
    """A commit: its changes, who asks, by what means and why, and the minutes to confirm it in (0: for good)."""

    changes: Changes = field(default_factory=Changes)
    user: str = "root"
    via: str = "cli"
    comment: str = ""
    confirm: int = 0


def check_request(request: Request) -> None:
    """Whether what comes from outside may stand in the archive and on terminals. Raises :class:`SessionError`."""
    for name, text in (("user", request.user), ("via", request.via), ("comment", request.comment)):
        if not text.isprintable():
            raise SessionError(f"The {name} of a commit is one line of printable characters\nCommit failed")


def _wall(message: str) -> None:
    subprocess.run(["wall", "-n", message], capture_output=True, check=False)


class Authority:
    """The running configuration's owner. All refusals raise :class:`SessionError` with the router as it was."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if os.geteuid() != 0:
            raise SessionError("committing needs root; use sudo")
        directory = places.run_dir()
        if not directory.is_dir():
            directory.mkdir(parents=True, mode=0o755)
        # Root's alone: whoever can open a file can hold its lock.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(directory / "commit.lock", flags, 0o600), "r+") as lock:
            os.fchmod(lock.fileno(), 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Locked(f"{LOCKED}\nCommit failed") from None
            with suppress(OSError):  # what killed commits have left
                clear_unfinished(directory, r"(?:active|confirm)\.(?:boot|public)")
            yield

    # -- commit

    def commit(self, request: Request) -> str:
        """Carry changes out on top of what others have committed; returns what is to be told."""
        check_request(request)
        for path in request.changes.added:
            check(self._schema, path)
        for text in request.changes.comments.values():
            check_comment(text)
        with self._locked():
            running = active(self._schema)
            wanted = changed(running, request.changes, self._schema)
            if wanted == running:
                return "No configuration changes to commit\n"
            told = ""
            if request.confirm:
                told = self._arm(running, request.confirm)
            try:
                self._carry_out(running, wanted)
            except SessionError:
                if request.confirm:
                    self._disarm()
                raise
            if not request.confirm:
                self._archive(wanted, request)
            return told

    def _carry_out(self, running: Config, wanted: Config) -> None:
        """Run the scripts; the new texts are on their way before they run, so a full disk changes nothing."""
        texts: list[Replacement] = []
        runner = Runner(self._schema)
        ran = False
        try:
            texts.append(self._text(places.active_file(), wanted, 0o640))
            texts.append(self._text(places.public_file(), Config(masked(wanted.tree, self._schema), wanted.comments), 0o644))
            runner.run(running.tree, wanted.tree)
            ran = True
            for text in texts:
                text.finish()
        except CommitFailed as failure:
            raise SessionError(str(failure)) from failure.__cause__
        except StoreError as error:
            if ran:
                runner.run(wanted.tree, running.tree)
            raise SessionError(f"{error}\nCommit failed") from None
        finally:
            for text in texts:
                text.abandon()

    def _text(self, path: File, config: Config, mode: int) -> Replacement:
        return Replacement(path, render(config.tree, self._schema, config.comments).encode(), mode)

    def _archive(self, config: Config, request: Request) -> None:
        text = render(config.tree, self._schema, config.comments) + footer(self._schema)
        try:
            archive.add(text, time.time(), request.user, request.via, request.comment)
        except OSError as error:
            print(f"Warning: the commit stands but is not in the archive for rollback: {error}", file=sys.stderr)

    def save(self) -> str:
        """Write the running configuration where the next boot finds it."""
        config = active(self._schema)
        try:
            write(places.boot_file(), render(config.tree, self._schema, config.comments) + footer(self._schema))
        except StoreError as error:
            raise SessionError(f"{error}\nSave failed") from None
        return ""

    # -- commit-confirm

    @staticmethod
    def _before() -> File:
        return places.run_dir() / "confirm.boot"

    @staticmethod
    def _pending() -> bool:
        """Whether the timer runs, or the way back that it has begun."""
        units = [f"{CONFIRM_UNIT}.timer", f"{CONFIRM_UNIT}.service"]
        state = subprocess.run(["systemctl", "is-active", *units], capture_output=True, text=True, check=False)
        return any(line in ("active", "activating") for line in state.stdout.split())

    def _arm(self, running: Config, minutes: int) -> str:
        if self._pending():
            raise SessionError("Another confirm is pending\nCommit failed")
        try:
            write(self._before(), render(running.tree, self._schema, running.comments))
        except StoreError as error:
            raise SessionError(f"{error}\nCommit failed") from None
        done = subprocess.run(
            [
                "systemd-run", "--quiet", "--collect", f"--on-active={minutes}m", f"--unit={CONFIRM_UNIT}",
                "--timer-property=AccuracySec=1s", "/usr/bin/ztsh", "revert",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SessionError(f"commit-confirm cannot start its timer: {done.stderr.strip()}\nCommit failed")
        return f"Initialized commit-confirm; {minutes} minutes to confirm before reload\n"

    def _disarm(self) -> None:
        units = [f"{CONFIRM_UNIT}.timer", f"{CONFIRM_UNIT}.service"]
        subprocess.run(["systemctl", "stop", *units], capture_output=True, check=False)
        self._before().unlink(missing_ok=True)

    def confirm(self, request: Request) -> str:
        """Keep what commit-confirm has carried out."""
        check_request(request)
        with self._locked():
            if not self._pending():
                return "No confirm pending\n"
            self._disarm()
            self._archive(active(self._schema), request)
        return "Reload timer stopped\n"

    def revert(self) -> str:
        """Go back to the configuration from before commit-confirm; its timer calls this.

        It tries until it has gone back or somebody confirms, and says once for each reason why it has not yet.
        """
        told, pause = "", 0.2
        while True:
            try:
                with self._locked():
                    return self._revert()
            except (SessionError, OSError) as error:
                reason = "another commit is under way" if isinstance(error, Locked) else str(error).splitlines()[0]
                pause = 0.2 if isinstance(error, Locked) else min(pause * 2, 30.0)
            if reason != told:
                told = reason
                _wall(f"[commit-confirm] Not confirmed, but the way back has to wait: {reason}; it is tried again")
            time.sleep(pause)

    def _revert(self) -> str:
        try:
            wanted = read_config(self._before().read_text(), self._schema)
        except FileNotFoundError:
            return ""
        message = "[commit-confirm] Not confirmed: going back to the previous configuration now"
        _wall(message)
        self._carry_out(active(self._schema), wanted)
        self._before().unlink(missing_ok=True)
        return message + "\n"

    # -- boot

    def boot(self) -> list[str]:
        """Carry out the saved configuration; what cannot be is left out. Returns what is to be told of it."""
        told: list[str] = []
        self._make_places()
        with self._locked():
            self._clear_unfinished()
            wanted = self._saved(told)
            running = active(self._schema)
            try:
                self._carry_out(running, wanted)
            except SessionError:
                self._one_by_one(running, wanted, told)
            self._archive_boot(active(self._schema))
            with suppress(StoreError):  # the unit's journal has it too
                write(places.boot_report(), "".join(f"{line}\n" for line in told))
        return told

    def _saved(self, told: list[str]) -> Config:
        """The saved configuration; where it cannot be read, the newest commit that can, and the file is kept aside."""
        path = places.boot_file()
        try:
            text = path.read_text()
            if not text.strip():
                raise SessionError("it is empty")
            return read_config(text, self._schema, told)
        except FileNotFoundError:
            return Config()
        except (OSError, UnicodeDecodeError, SessionError) as error:
            why = getattr(error, "strerror", None) or str(error).removeprefix("the configuration cannot be read: ")
        kept = path.with_name(f"{path.name}.unreadable")
        for revision in archive.revisions():
            try:
                good = revision.text()
                config = read_config(good, self._schema, [])
            except (OSError, SessionError):
                continue
            told.append(
                f"{path} cannot be read ({why}); the commit of {archive.when(revision)} was carried out instead; "
                f"{self._replace_boot_file(path, kept, good)}"
            )
            return config
        told.append(f"{path} cannot be read ({why}) and no commit is in the archive, so nothing is configured; restore it from a backup")
        return Config()

    @staticmethod
    def _replace_boot_file(path: File, kept: File, text: str) -> str:
        """Put a good text in the place of the saved configuration; says where the bad one is now."""
        try:
            os.replace(path, kept)
            write(path, text)
        except OSError as error:
            return f"the file could not be kept aside ({error.strerror or error}); save the configuration by hand"
        return f"the file is kept as {kept}"

    @staticmethod
    def _make_places() -> None:
        """Sessions of the command wrapper lie where only members of the group may look."""
        for directory, mode in ((places.run_dir(), 0o755), (places.sessions(), 0o1770)):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(mode)
            os.chown(directory, 0, group_id())

    @staticmethod
    def _clear_unfinished() -> None:
        boot_file = places.boot_file()
        with suppress(OSError):  # a disk that cannot be written is said by the first save
            clear_unfinished(boot_file.parent, re.escape(boot_file.name))
            clear_unfinished(places.archive(), archive.NAME.pattern)

    def _archive_boot(self, config: Config) -> None:
        found = archive.revisions()
        try:
            known = found and read_config(found[0].text(), self._schema, []) == config
        except (OSError, SessionError):
            known = False
        if not known:
            self._archive(config, Request(via="boot-config-loader"))

    def _one_by_one(self, running: Config, wanted: Config, refused: list[str]) -> None:
        """Carry out what has a script of its own piece by piece, so that one bad piece spares the others."""
        pieces = owners(wanted.tree, self._schema)
        tree = copy_tree(wanted.tree)
        for piece in pieces:
            delete_path(tree, self._schema, piece)
        for piece in pieces:
            trial = apply(tree, self._schema, [], below(wanted.tree, piece, self._schema))
            trial_config = changed(Config(trial, wanted.comments), Changes(), self._schema)
            try:
                self._carry_out(running, trial_config)
                tree, running = trial, trial_config
            except SessionError as error:
                refused.append(f"{' '.join(piece)}: {error}")
