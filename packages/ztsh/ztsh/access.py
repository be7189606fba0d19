"""Who may configure, and the way from a member of the group to :mod:`ztsh.authority`.

Root is the authority itself. A member of the group runs it through sudo, which the package's sudoers file
allows without a password; sudo writes down who did it. Nobody else gets in.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from typing import Any

from ztsh import places
from ztsh.schema import Node, SchemaError, load_schema
from ztsh.session import Changes, SessionError
from ztsh.store import GROUP, group_id

PROGRAM = "/usr/libexec/ztsh/authority"
REFUSED = 3  # its exit status when the request is understood and refused


def user_name() -> str:
    """The person at the keyboard: who logged in, also behind sudo."""
    if os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        return os.environ["SUDO_USER"]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def may_configure() -> bool:
    """Whether this process may read and change the configuration."""
    return os.geteuid() == 0 or group_id() in {os.getegid(), *os.getgroups()}


def demand_rights() -> None:
    """Raises :class:`SessionError` for a user who may not configure."""
    if not may_configure():
        name = user_name()
        raise SessionError(
            f"user {name} may not configure this router: only members of the group {GROUP} may; "
            f"an administrator makes you one with: adduser {name} {GROUP}"
        )


def ask(schema: Node, operation: str, *, changes: Changes | None = None, isolated: bool = False, **details: Any) -> str:
    """Have the authority do something and return what it tells.

    ``details`` are those of :class:`ztsh.authority.Request`. ``isolated`` takes a process of its own also for root,
    for shells that live long: they must not hold on to scripts that an upgrade has replaced. Raises
    :class:`SessionError`.
    """
    demand_rights()
    if os.geteuid() == 0 and not isolated:
        return perform(schema, operation, changes or Changes(), details)
    command = [PROGRAM] if os.geteuid() == 0 else ["sudo", "--non-interactive", PROGRAM]
    request = json.dumps({"operation": operation, "changes": plain(changes or Changes()), "details": details})
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=False)
    if done.returncode == REFUSED:
        sys.stdout.write(done.stdout)
        raise SessionError(done.stderr.strip("\n"))
    if done.returncode:
        raise SessionError(f"{PROGRAM} could not be run: {done.stderr.strip() or done.returncode}")
    return done.stdout + done.stderr


def serve() -> int:
    """What :data:`PROGRAM` does: one request on standard input, the answer on standard output."""
    try:
        request = json.load(sys.stdin)
        schema = load_schema(places.definitions())
        sys.stdout.write(perform(schema, request["operation"], changes_from(request["changes"]), request["details"]))
    except (SessionError, SchemaError) as error:
        # Words of the request are in it: nothing of them shall act on a terminal, or be what cannot be printed.
        print("".join(char if char.isprintable() or char == "\n" else "?" for char in str(error)), file=sys.stderr)
        return REFUSED
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        print(f"not a request ({type(error).__name__})", file=sys.stderr)
        return 2
    return 0


def perform(schema: Node, operation: str, changes: Changes, details: dict[str, Any]) -> str:
    """Do what was asked for; only root gets here. Raises :class:`SessionError`."""
    from ztsh.authority import Authority, Request  # runs conf scripts, which a shell without rights has no use for

    authority = Authority(schema)
    request = Request(
        changes,
        user_name(),
        str(details.get("via", "cli")),
        str(details.get("comment", "")),
        int(details.get("confirm", 0)),
    )
    match operation:
        case "commit":
            return authority.commit(request)
        case "confirm":
            return authority.confirm(request)
        case "save":
            return authority.save()
    raise SessionError(f"the authority knows no {operation}")


def plain(changes: Changes) -> dict[str, Any]:
    """Changes in the form that travels."""
    return {
        "gone": [list(path) for path in changes.gone],
        "added": [list(path) for path in changes.added],
        "comments": [[list(path), text] for path, text in changes.comments.items()],
    }


def changes_from(data: dict[str, Any]) -> Changes:
    """Changes as they arrive. Raises ValueError, KeyError or TypeError for anything else."""
    comments = {_path(path): str(text) for path, text in data["comments"]}
    return Changes([_path(p) for p in data["gone"]], [_path(p) for p in data["added"]], comments)


def _path(words: Any) -> tuple[str, ...]:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("a path is a list of words")
    return tuple(words)
