"""The way from a session to :mod:`ztsh.authority`.

Root is the authority itself. A member of the configuration group runs it through sudo, which the package's
sudoers file allows without a password; sudo writes down who did it. Nobody else gets in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from ztsh.changes import Changes
from ztsh.errors import Busy, SessionError
from ztsh.interrupted import uninterrupted
from ztsh.rights import demand_rights
from ztsh.schema import Node

PROGRAM = "/usr/libexec/ztsh/authority"
REFUSED = 3  # its exit status when the request is understood and refused
BUSY = 4  # the same, because of another commit


def ask(schema: Node, operation: str, *, changes: Changes | None = None, isolated: bool = False, **details: Any) -> str:
    """Have the authority do something and return its answer.

    ``details`` are those of :class:`ztsh.authority.Request`. ``isolated`` takes a process of its own also for root,
    for shells that live long: they must not hold on to scripts that an upgrade has replaced. Ctrl-C stops nothing
    halfway: a shell says so with the answer, elsewhere it interrupts behind it. Raises :class:`SessionError`.
    """
    demand_rights()
    changes = changes or Changes()
    if os.geteuid() == 0 and not isolated:
        from ztsh.authority import perform  # runs conf scripts, which a shell without rights has no use for

        return perform(schema, operation, changes, details)
    command = [PROGRAM] if os.geteuid() == 0 else ["sudo", "--non-interactive", PROGRAM]
    request = json.dumps({"operation": operation, "changes": changes.plain(), "details": details})
    with uninterrupted() as pressed:
        # A session of its own: a terminal that hangs up must not end a commit either.
        done = subprocess.run(command, input=request, capture_output=True, text=True, check=False, start_new_session=True)
        ignored = isolated and pressed()
    if done.returncode in (REFUSED, BUSY):
        sys.stdout.write(done.stdout)
        raise (SessionError if done.returncode == REFUSED else Busy)(done.stderr.strip("\n"))
    if done.returncode:
        raise SessionError(f"{PROGRAM} could not be run: {done.stderr.strip() or done.returncode}")
    said = f"\nCtrl-C does not stop '{operation}': it is done\n" if ignored else ""
    return said + done.stdout + done.stderr
