"""A configuration as a value, its way to and from the text of config.boot, and the one that runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from ztsh import places
from ztsh.check import check
from ztsh.errors import SessionError
from ztsh.schema import Node
from ztsh.text import Comments, Parsed, TextError, footer, parse, render, set_command
from ztsh.tree import Tree, get, set_path


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


def config_of(parsed: Parsed, schema: Node, refused: list[str] | None = None) -> Config:
    """As :func:`read_config`, for a text that has been parsed."""
    tree: Tree = {}
    for path, line, _valued in parsed.paths:
        try:
            check(schema, path)
        except SessionError as error:
            where = f"line {line}: {set_command(path, schema)}"
            if refused is None:
                raise SessionError(where, str(error)) from None
            refused.append(f"{where}: {error.reason}")
            continue
        set_path(tree, schema, path)
    return standing(tree, parsed.comments)


def running(schema: Node) -> Config:
    """The running configuration; without its secrets for a user who may not configure."""
    try:
        try:
            return read_config(places.active_file().read_text(), schema)
        except PermissionError:
            return read_config(places.public_file().read_text(), schema, [])
    except FileNotFoundError:
        return Config()


def running_stamp() -> object:
    """A value that is another one after each commit."""
    try:
        status = places.active_file().stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
