"""Moving between edit levels: edit, up, top, exit."""

from __future__ import annotations

from ztsh.editor import Editor
from ztsh.errors import Leave, SessionError
from ztsh.schema import find
from ztsh.tree import get


def edit(editor: Editor, words: list[str]) -> str:
    """Go to a node, which is created if it does not exist."""
    if not words:
        raise SessionError("Need to specify the config node to edit")
    path = editor.path("edit", words)
    step = find(editor.session.schema, path)
    if step is None or step.node.kind == "leaf" or (step.node.kind == "tag" and not step.is_value):
        raise SessionError('The "edit" command cannot be issued at the specified level')
    if get(editor.session.candidate, path) is None:
        editor.session.set(path)
    editor.level = tuple(path)
    return ""


def up(editor: Editor, _words: list[str]) -> str:
    """Go one level up."""
    if not editor.level:
        raise SessionError("Already at the top level")
    editor.up()
    return ""


def top(editor: Editor, _words: list[str]) -> str:
    """Go to the top level."""
    if not editor.level:
        return "Already at the top level\n"
    editor.level = ()
    return ""


def exit_(editor: Editor, words: list[str]) -> str:
    """Leave the edit level, or conf mode at the top."""
    if words and not (len(words) == 1 and "discard".startswith(words[0])):
        raise SessionError(f"Invalid argument \"{' '.join(words)}\" for 'exit'")
    if editor.level:
        editor.level = ()
        return ""
    if editor.session.modified() and not words:
        return "Cannot exit: configuration modified.\nUse 'exit discard' to discard the changes and exit.\n"
    editor.session.discard()
    raise Leave("Warning: configuration changes have not been saved.\n" if editor.unsaved else "")
