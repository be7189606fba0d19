"""Conf mode for scripts, one command a call: begin, set, delete, commit, save, end.

A session belongs to the process that calls, as on VyOS. Between the calls its changes lie in a file that only
members of the configuration group can reach.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ztsh import access, places
from ztsh.confmode import ConfMode, Leave
from ztsh.opmode import OpMode
from ztsh.session import Session, SessionError, changed, check
from ztsh.store import StoreError, clear_abandoned, write

USAGE = "begin, end, set, delete, comment, copy, rename, show, compare, discard, commit, save, load, merge, confirm, commit-confirm, rollback"


_FILE = re.compile(r"[0-9]+-([0-9]+)-([0-9]+)\.json")


def _caller() -> str:
    """The calling process: number and start time, so that a later one of the same number is another."""
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        started = "0"
    return f"{os.getuid()}-{parent}-{started}"


def _clean() -> None:
    """Remove sessions whose processes are gone, and what was being written of them."""
    clear_abandoned(places.sessions(), ".+")
    for path in places.sessions().iterdir():
        if not (found := _FILE.fullmatch(path.name)):
            continue
        pid, started = found.groups()
        try:
            alive = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] == started
        except OSError:
            alive = False
        if not alive:
            try:
                path.unlink()
            except OSError:
                continue


def call(words: Sequence[str]) -> int:
    """One call: 0, or 1 with the reason on standard output, where VyOS's wrapper has it too."""
    if not words:
        print(f"Invalid command: use one of {USAGE}")
        return 1
    file = places.sessions() / f"{_caller()}.json"
    try:
        access.demand_rights()
        if words[0] == "begin":
            places.sessions().mkdir(parents=True, exist_ok=True)
            _clean()
            _keep(file, Session())
        elif words[0] == "end":
            file.unlink(missing_ok=True)
        else:
            _command(file, list(words))
    except (SessionError, StoreError) as error:
        print(error)
        return 1
    return 0


def _command(file: Path, words: list[str]) -> None:
    if words[0] == "cleanup":
        words[0] = "discard"
    if words[0] not in USAGE.split(", "):
        raise SessionError(f'Invalid command "{words[0]}": use one of {USAGE}')
    session = _session(file)
    conf = ConfMode(session, lambda rest: str(OpMode().run(rest)), via="cfg-cmd-wrapper")
    try:
        sys.stdout.write(conf.execute(words))
    except Leave:
        return
    finally:
        _keep(file, session)


def _session(file: Path) -> Session:
    try:
        with file.open() as text:
            if os.fstat(text.fileno()).st_uid != os.getuid():
                raise FileNotFoundError
            changes = access.changes_from(json.load(text))
    except FileNotFoundError:
        raise SessionError("no session was begun by this process; call begin first") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SessionError("what this session was cannot be read; begin another one") from None
    session = Session()
    for path in changes.added:
        check(session.schema, path)
    wanted = changed(session.running, changes, session.schema)
    session.candidate, session.comments = wanted.tree, wanted.comments
    return session


def _keep(file: Path, session: Session) -> None:
    write(file, json.dumps(access.plain(session.changes())), 0o600)
