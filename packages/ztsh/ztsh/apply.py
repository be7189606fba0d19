"""``ztsh apply``: lines that say what the configuration is to be, applied again and again by scripts.

The lines change a candidate that starts as the running configuration, and only the difference is committed. So a file
that begins with ``delete interfaces zerotier zt0`` says all of zt0, and one without adds to what others have set; applied
a second time, neither changes anything.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from ztsh import access, places
from ztsh.changes import Changes
from ztsh.configuration import read_config
from ztsh.editor import Editor
from ztsh.errors import AlreadySet, Busy, Misused, NothingToDelete, SessionError
from ztsh.rights import demand_rights
from ztsh.schema import Node, find, load_schema
from ztsh.session import Session
from ztsh.text import set_command
from ztsh.tree import MASK, Path
from ztsh.words import NEEDS_QUOTES, LineError, split

NOTHING, REFUSED, DIFFERS = 0, 1, 2  # exit status; DIFFERS with --check alone
PATIENCE = 60.0  # seconds that other commits may take
_PAUSE = 0.2  # seconds between two attempts
_USAGE = "usage: ztsh apply [--check] FILE|-"
NOT_SAVED = "# the running configuration says this already, but is not saved"


@dataclass(frozen=True)
class Command:
    """A line of the file: set, delete or comment, and its words."""

    number: int
    verb: str
    words: tuple[str, ...]


def call(arguments: Sequence[str]) -> int:
    """Apply a file; the lines of the difference go to standard output, the sentence of a refusal to standard error."""
    names = [word for word in arguments if word != "--check"]
    if len(names) != 1 or (names[0].startswith("-") and names[0] != "-"):
        print(_USAGE, file=sys.stderr)
        return REFUSED
    name = "standard input" if names[0] == "-" else names[0]
    try:
        commands = read_commands(name, _read(names[0]))
        demand_rights()
        difference = apply(load_schema(places.definitions()), name, commands, dry="--check" in arguments)
    except SessionError as error:
        print(f"ztsh: {sentence(error)}", file=sys.stderr)
        return REFUSED
    print(difference, end="")
    return DIFFERS if difference and "--check" in arguments else NOTHING


def sentence(error: SessionError) -> str:
    """What a refusal says, without the lines that VyOS prints around it; the authority's answer to a member has them too."""
    said = [line for line in str(error).splitlines() if line and not re.fullmatch(r"\[.*\]( failed)?|\w+ failed", line)]
    return " ".join(said)


def _read(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        with open(name) as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"{name} cannot be read ({getattr(error, 'strerror', None) or 'not a text'})") from None


def read_commands(name: str, text: str) -> list[Command]:
    """The commands of a file. Raises :class:`SessionError` for a line that is none; no value is in the sentence."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{name} line {number}"
        try:
            cut = split(line)
        except LineError as error:
            raise SessionError(f"{where}: {error}") from None
        if cut.pipe:
            raise SessionError(f"{where}: {NEEDS_QUOTES}")
        verb, *words = cut.words
        if verb not in ("set", "delete", "comment"):
            raise SessionError(f"{where}: only set, delete and comment are possible here; apply commits and saves by itself")
        if not words:
            raise SessionError(f"{where}: {verb} needs a path")
        found.append(Command(number, verb, tuple(words)))
    return found


# -- the candidate


def edit(session: Session, name: str, commands: Sequence[Command]) -> None:
    """Carry out the commands on a candidate. Raises :class:`SessionError` with the line; a secret is not in it."""
    editor = Editor(session, _no_op_mode)
    for command in commands:
        where = f"{name} line {command.number}"
        try:
            if command.verb == "comment":
                session.comment(editor.path("comment", command.words[:-1]), command.words[-1])
                continue
            path = editor.path(command.verb, command.words)
        except SessionError as error:
            raise SessionError(f"{where}: {error.reason}") from None
        try:
            if command.verb == "set":
                session.set(path)
            else:
                session.delete(path)
        except (AlreadySet, NothingToDelete):
            continue
        except SessionError as error:
            line = set_command(hidden(session.schema, tuple(path)), session.schema, command.verb)
            raise SessionError(f"{where}: {line}: {error.reason}") from None


def _no_op_mode(_text: str) -> str:
    raise Misused


def hidden(schema: Node, path: Path) -> Path:
    """A path with asterisks in place of a secret value."""
    step = find(schema, path)
    return (*path[:-1], MASK) if step and step.is_value and step.node.secret else path


def shown(schema: Node, changes: Changes) -> str:
    """The changes as commands, without secrets."""
    gone, added = ([hidden(schema, path) for path in paths] for paths in (changes.gone, changes.added))
    return Changes(gone, added, changes.comments).commands(schema)


# -- the commit


def apply(schema: Node, name: str, commands: Sequence[Command], *, dry: bool) -> str:
    """Commit and save what the commands change, or with ``dry`` have it verified; returns it as commands, "" for nothing.

    Another commit in progress is waited for. If one comes between reading and committing, the difference is made again from
    what it has left. Raises :class:`SessionError` with everything as it was.
    """
    end = time.monotonic() + PATIENCE
    while True:
        session = Session(schema)
        edit(session, name, commands)
        changes = session.changes()
        try:
            if changes:
                _ask(schema, "commit", changes=changes, via="apply", base=session.running.digest(schema), save=True, dry=dry)
                return shown(schema, changes)
            if _saved(schema, name, commands):
                return ""
            if not dry:
                _ask(schema, "save", save=True)
            return f"{NOT_SAVED}\n"
        except Busy:
            if time.monotonic() >= end:
                raise
        time.sleep(_PAUSE)


def _ask(schema: Node, operation: str, *, changes: Changes | None = None, **details: Any) -> None:
    with redirect_stdout(sys.stderr):  # warnings of conf scripts; standard output is the difference alone
        print(access.ask(schema, operation, changes=changes, **details), end="")


def _saved(schema: Node, name: str, commands: Sequence[Command]) -> bool:
    """Whether the saved configuration has what the commands say; whatever else it lacks is not theirs."""
    session = Session(schema)
    try:
        text = places.boot_file().read_text()
        session.load(read_config(text, schema, []).text(schema))
        before = session.wanted.text(schema)
        edit(session, name, commands)
    except (OSError, UnicodeDecodeError, SessionError):
        return False
    return session.wanted.text(schema) == before
