"""What only root does at a user's request: committing, confirming and saving.

Members of the configuration group come here through sudo (:mod:`ztsh.access`), so a request is checked as
anything from outside is. All refusals raise :class:`SessionError` with the router as it was.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from ztsh import archive, confirm, places
from ztsh.activate import activate, verify
from ztsh.bootreport import boot_warning, is_booting
from ztsh.changes import Changes, changed
from ztsh.check import check, check_comment, failed
from ztsh.configuration import Config, running
from ztsh.errors import Outdated, SessionError
from ztsh.interrupted import uninterrupted
from ztsh.lock import locked
from ztsh.rights import user_name
from ztsh.schema import Node
from ztsh.store import Replacement, StoreError, write


@dataclass
class Request:
    """A commit: its changes, who asks, by what means and why, and the minutes to confirm it in (0: for good).

    ``base`` is the digest of the running configuration for which the changes were made; with "" they go on top of any.
    ``save`` also writes the saved configuration; ``dry`` only verifies.
    """

    changes: Changes = field(default_factory=Changes)
    user: str = "root"
    via: str = "cli"
    comment: str = ""
    confirm: int = 0
    base: str = ""
    save: bool = False
    dry: bool = False


def check_request(request: Request) -> None:
    """Whether what comes from outside may be in the archive and on terminals. Raises :class:`SessionError`."""
    for name, text in (("user", request.user), ("via", request.via), ("comment", request.comment)):
        if not text.isprintable():
            raise SessionError(f"The {name} of a commit must be one line of printable characters", failed("commit"))


def commit(schema: Node, request: Request) -> str:
    """Apply changes on top of what others have committed; returns what to tell the user."""
    check_request(request)
    for path in request.changes.added:
        check(schema, path)
    for text in request.changes.comments.values():
        check_comment(text)
    with locked():
        before = running(schema)
        if request.base and request.base != before.digest(schema):
            raise Outdated("The configuration was changed by another commit; try again", failed("commit"))
        if not request.confirm:  # confirm.arm has its own words for it
            demand_confirmed("commit")
        if request.save:
            demand_booted()
        wanted = changed(before, request.changes, schema)
        if wanted == before:
            return "No configuration changes to commit\n"
        if request.dry:
            verify(schema, before, wanted)
            return ""
        saved = _boot_file(schema, wanted) if request.save else None
        told = confirm.arm(schema, before, request.confirm) if request.confirm else ""
        try:
            activate(schema, before, wanted)
        except SessionError:
            if request.confirm:
                confirm.disarm()
            if saved:
                saved.abandon()
            raise
        if not request.confirm:
            archive_commit(schema, wanted, request)
        try:
            if saved:
                saved.finish()
        except StoreError as error:
            raise SessionError(f"The commit is active but not saved: {error}") from None
        return told + (boot_warning() if request.save else "")


def demand_booted() -> None:
    """Raises :class:`SessionError` while the saved configuration is not applied: what runs must not replace it."""
    if is_booting() or (places.boot_file().exists() and not places.active_file().exists()):
        reason = f"{places.boot_file()} is not applied yet and would be lost; wait, or run: systemctl restart ztsh-boot"
        raise SessionError(reason, failed("save"))


def demand_confirmed(verb: str) -> None:
    """Raises :class:`SessionError` while a commit waits for its confirmation.

    Until then nothing of it must be saved, and what others commit on top of it would be rolled back too.
    """
    if confirm.pending():
        raise SessionError("A commit-confirm is pending; confirm it, or wait until it is rolled back", failed(verb))


def _boot_file(schema: Node, config: Config) -> Replacement:
    try:
        return Replacement(places.boot_file(), config.saved_text(schema).encode())
    except StoreError as error:
        raise SessionError(str(error), failed("save")) from None


def archive_commit(schema: Node, config: Config, request: Request) -> None:
    """Put a commit into the archive; a failure is only a warning on standard error, as the commit is active."""
    try:
        archive.add(config.saved_text(schema), time.time(), request.user, request.via, request.comment)
    except OSError as error:
        print(f"Warning: the commit is active but could not be archived for rollback: {error}", file=sys.stderr)


def keep(schema: Node, request: Request) -> str:
    """Keep what commit-confirm has applied."""
    check_request(request)
    with locked():
        if not confirm.pending():
            return "No confirm pending\n"
        confirm.disarm()
        archive_commit(schema, running(schema), request)
    return "Reload timer stopped\n"


def save(schema: Node) -> str:
    """Write the running configuration where the next boot finds it; returns what of it boot refused."""
    demand_booted()
    text = running(schema).saved_text(schema)
    demand_confirmed("save")  # behind reading: there is no lock against a commit-confirm in between
    try:
        write(places.boot_file(), text)
    except StoreError as error:
        raise SessionError(str(error), failed("save")) from None
    return boot_warning()


def perform(schema: Node, operation: str, changes: Changes, details: dict[str, Any]) -> str:
    """Do what was asked for, to its end; only root gets here. Raises :class:`SessionError`."""
    request = Request(
        changes,
        user_name(),
        str(details.get("via", "cli")),
        str(details.get("comment", "")),
        int(details.get("confirm", 0)),
        str(details.get("base", "")),
        bool(details.get("save", False)),
        bool(details.get("dry", False)),
    )
    with uninterrupted():
        match operation:
            case "commit":
                return commit(schema, request)
            case "confirm":
                return keep(schema, request)
            case "save":
                return save(schema)
    raise SessionError(f"unknown request: {operation}")
