"""A configuration as a value, its way to and from the text of config.boot, and the one that runs."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from ztsh import places
from ztsh.check import check, invalid
from ztsh.errors import SessionError
from ztsh.schema import Node, find, steps
from ztsh.text import Comments, Entry, Parsed, TextError, footer, parse, render, set_command
from ztsh.tree import MASK, Path, Tree, commands, get, set_path

_SECRET = re.compile("(:0:[0-9a-f]{128}:)[0-9a-f]+")  # of an identity


@dataclass(frozen=True)
class Config:
    """A configuration: its tree, and comments by path."""

    tree: Tree = field(default_factory=dict)
    comments: Comments = field(default_factory=dict)

    def text(self, schema: Node) -> str:
        """In the form of config.boot, without a footer."""
        return render(self.tree, schema, self.comments)

    def digest(self, schema: Node) -> str:
        """A word that is another one for another configuration."""
        return hashlib.sha256(self.text(schema).encode()).hexdigest()

    def saved_text(self, schema: Node) -> str:
        """As a saved file has it: with the versions of the syntax."""
        return self.text(schema) + footer(schema)


def standing(tree: Tree, comments: Comments) -> Config:
    """A configuration with those of the comments whose nodes exist."""
    return Config(tree, {path: text for path, text in comments.items() if text and get(tree, path) is not None})


def read_config(text: str, schema: Node, refused: list[str] | None = None) -> Config:
    """The configuration that a config.boot text describes.

    With ``refused``, paths that are not valid are left out and noted there; otherwise the first of them
    raises :class:`SessionError`, as a text that cannot be read does.
    """
    try:
        return config_of(parse(text), schema, refused)
    except TextError as error:
        raise SessionError(f"the configuration cannot be read: {error}") from None


def read_own(text: str, schema: Node, left_out: list[str] | None = None) -> Config:
    """A configuration that ztsh has written, which earlier definitions may have allowed.

    Values that do not fit stay, so that they can be deleted. Nodes that no definition has are noted in ``left_out``.
    Raises :class:`SessionError` for a text that cannot be read.
    """
    left_out = [] if left_out is None else left_out
    try:
        parsed = parse(text)
    except TextError as error:
        raise SessionError(f"the configuration cannot be read: {error}") from None
    tree: Tree = {}
    for entry in parsed.paths:
        step = find(schema, entry.path)
        if step is None or (step.node.takes_value and not step.is_value):
            left_out.append(set_command(_known(schema, entry), schema).removeprefix("set "))
        else:
            set_path(tree, schema, entry.path)
    return standing(tree, parsed.comments)


def misfits(config: Config, schema: Node) -> list[str]:
    """What of a configuration the definitions do not allow, a sentence each, without secrets."""
    found = []
    for path in commands(config.tree, schema):
        try:
            check(schema, path)
        except SessionError as error:
            found.append(f"{set_command(_masked(schema, path), schema).removeprefix('set ')}: {error.reason}")
    return found


def config_of(parsed: Parsed, schema: Node, refused: list[str] | None = None) -> Config:
    """As :func:`read_config`, for a text that has been parsed."""
    tree: Tree = {}
    for entry in parsed.paths:
        try:
            check(schema, entry.path)
        except SessionError as error:
            if refused is None:
                raise _refusal(entry, error, schema) from None
            refused.append(": ".join(_told(entry, error, schema)))
            continue
        set_path(tree, schema, entry.path)
    return standing(tree, parsed.comments)


def _refusal(entry: Entry, error: SessionError, schema: Node) -> SessionError:
    """For the terminal of who has the text, with all but its secrets; the reason goes further and has only what is known."""
    path = _masked(schema, entry.path)
    why = str(error) if find(schema, path) else str(invalid(path, "set"))
    refusal = SessionError(f"line {entry.line}: {set_command(path, schema)}", why)
    refusal.reason = _told(entry, error, schema)[0]
    return refusal


def _told(entry: Entry, error: SessionError, schema: Node) -> tuple[str, str]:
    """What was refused and why, as the journal may have it."""
    path = _known(schema, entry)
    why = error.reason if find(schema, path) else invalid(path, "set").reason
    return f"line {entry.line}: {set_command(path, schema)}", why


def _masked(schema: Node, path: Path) -> Path:
    """A path with asterisks in place of secret values, also of those given where a public identity belongs."""
    walked = list(steps(schema, path))
    shown = [MASK if step.is_value and step.node.secret else _SECRET.sub(rf"\1{MASK}", step.word) for step in walked]
    return (*shown, *path[len(walked) :])


def _known(schema: Node, entry: Entry) -> Path:
    """As :func:`_masked`, to the first name that no definition has: what follows a mistyped name may be a secret."""
    path, walked = _masked(schema, entry.path), list(steps(schema, entry.path))
    if len(walked) == len(path):
        return path
    end = len(walked) + 1
    if (entry.valued and end == len(path)) or (walked and walked[-1].node.kind == "leaf"):
        end -= 1  # this word is a value
    return path if end == len(path) else (*path[:end], "...")


def running(schema: Node, left_out: list[str] | None = None) -> Config:
    """The running configuration, read as :func:`read_own` does; without its secrets for a user who may not configure."""
    try:
        try:
            text = places.active_file().read_text()
        except PermissionError:
            text = places.public_file().read_text()
    except FileNotFoundError:
        return Config()
    return read_own(text, schema, left_out)


def running_stamp() -> object:
    """A value that is another one after each commit."""
    try:
        status = places.active_file().stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
