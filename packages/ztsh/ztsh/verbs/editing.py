"""Changing the candidate: set, delete, comment, copy, rename, discard."""

from __future__ import annotations

from ztsh.check import failed
from ztsh.editor import Editor
from ztsh.errors import AlreadySet, Misused, NothingToDelete, SessionError
from ztsh.words import indented


def set_(editor: Editor, words: list[str]) -> str:
    """Set a value, or create a node."""
    if not words and not editor.level:
        raise SessionError("Need to specify the config node to set", failed("set"))
    try:
        editor.session.set(editor.path("set", words))
    except AlreadySet as told:
        return indented(str(told))
    return ""


def delete(editor: Editor, words: list[str]) -> str:
    """Delete a node or a value."""
    if not words:
        raise SessionError("Need to specify the config node to delete", failed("delete"))
    try:
        editor.session.delete(editor.path("delete", words))
    except NothingToDelete as told:
        return indented(str(told))
    return ""


def comment(editor: Editor, words: list[str]) -> str:
    """Give a node a comment; an empty one takes it away."""
    if len(words) < 2 and not (words and editor.level):
        raise SessionError("Need to specify the config node and the comment, such as: comment interfaces 'text'", failed("comment"))
    editor.session.comment(editor.path("comment", words[:-1]), words[-1])
    return ""


def copy(editor: Editor, words: list[str]) -> str:
    """Copy a tag node below the edit level."""
    return _copy(editor, words, "copy")


def rename(editor: Editor, words: list[str]) -> str:
    """Rename a tag node below the edit level."""
    return _copy(editor, words, "rename")


def _copy(editor: Editor, words: list[str], verb: str) -> str:
    if len(words) != 5 or words[2] != "to":
        raise Misused
    source, target = editor.below(verb, words[:2]), editor.below(verb, words[3:])
    editor.session.copy(verb, editor.level, source, target)
    return ""


def discard(editor: Editor, _words: list[str]) -> str:
    """Forget what has not been committed."""
    had = editor.session.discard()
    editor.stay()
    return indented("Changes have been discarded" if had else "No changes have been discarded")
