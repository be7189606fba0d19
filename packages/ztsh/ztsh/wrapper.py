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

from ztsh import places
from ztsh.changes import changed, changes_from
from ztsh.check import check
from ztsh.confmode import ConfMode
from ztsh.errors import SessionError
from ztsh.opmode import OpMode
from ztsh.rights import demand_rights
from ztsh.session import Session
from ztsh.store import StoreError, clear_abandoned, write
from ztsh.verbs.table import VERBS

_COMMANDS = [verb.name for verb in VERBS.values() if verb.scripted]
_USAGE = f"use one of {', '.join(['begin', 'end', *_COMMANDS])}"

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
        print(f"Invalid command: {_USAGE}")
        return 1
    file = places.sessions() / f"{_caller()}.json"
    try:
        demand_rights()
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
    if words[0] not in _COMMANDS:
        raise SessionError(f'Invalid command "{words[0]}": {_USAGE}')
    session = _session(file)
    conf = ConfMode(session, OpMode().run_text, via="cfg-cmd-wrapper")
    try:
        sys.stdout.write(conf.execute(words))
    finally:
        _keep(file, session)


def _session(file: Path) -> Session:
    try:
        with file.open() as text:
            if os.fstat(text.fileno()).st_uid != os.getuid():
                raise FileNotFoundError
            changes = changes_from(json.load(text))
    except FileNotFoundError:
        raise SessionError("this process has no session; call begin first") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SessionError("the file of this session cannot be read; call begin again") from None
    session = Session()
    for path in changes.added:
        check(session.schema, path)
    wanted = changed(session.running, changes, session.schema)
    session.candidate, session.comments = wanted.tree, wanted.comments
    return session


def _keep(file: Path, session: Session) -> None:
    write(file, json.dumps(session.changes().plain()), 0o600)
