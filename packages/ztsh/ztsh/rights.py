"""Who may configure: root, and members of the configuration group."""

from __future__ import annotations

import os
import pwd

from ztsh.errors import SessionError
from ztsh.store import GROUP, group_id


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
            f"ask an administrator to run: adduser {name} {GROUP}, then log in again"
        )
