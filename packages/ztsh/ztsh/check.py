"""What may be set: paths, values and comments against the definitions."""

from __future__ import annotations

from collections.abc import Sequence

from ztsh.errors import SessionError
from ztsh.schema import Node, steps
from ztsh.values import fits


def failed(verb: str) -> str:
    """The line with which VyOS ends a refusal."""
    return f"{verb.title()} failed"


def invalid(path: Sequence[str], verb: str) -> SessionError:
    """The refusal of a path that no definition has."""
    return SessionError(f"Configuration path: [{' '.join(path)}] is not valid", failed(verb))


def check(schema: Node, path: Sequence[str]) -> None:
    """Whether a path may be set. Raises :class:`SessionError`."""
    walked = list(steps(schema, path))
    if not path or len(walked) < len(path):
        raise invalid(path, "set")
    for step in walked:
        if step.is_value:
            check_value(step.node, step.word, "set")
    if walked[-1].node.takes_value and not walked[-1].is_value:
        raise SessionError(f"Configuration path: [{' '.join(path)}] requires a value", failed("set"))


def check_value(node: Node, value: str, verb: str) -> None:
    """Whether a node takes a value. Raises :class:`SessionError`."""
    if not fits(node, value):
        raise SessionError(node.error or "Invalid value", "Value validation failed", failed(verb))


def check_comment(text: str) -> None:
    """Whether a text may be a comment. Raises :class:`SessionError`."""
    if "*" in text:
        raise SessionError("Cannot use the '*' character in a comment", failed("comment"))
    if not text.isprintable():
        raise SessionError("A comment must be one line of printable characters", failed("comment"))
