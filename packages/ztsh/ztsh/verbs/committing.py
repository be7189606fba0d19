"""Making the candidate the running configuration, and back: commit, commit-confirm, confirm, rollback."""

from __future__ import annotations

from ztsh import access
from ztsh.editor import Editor
from ztsh.errors import Misused, SessionError
from ztsh.verbs.looking import revision
from ztsh.words import is_number

MAX_CONFIRM = 1440  # minutes


def commit(editor: Editor, words: list[str]) -> str:
    """Apply the changes."""
    return _commit(editor, words, confirm=0)


def commit_confirm(editor: Editor, words: list[str]) -> str:
    """Apply the changes, and go back unless they are confirmed in time."""
    minutes = 10
    if words and is_number(words[0]):
        minutes, words = int(words[0]), words[1:]
    if words[:1] == ["no-prompt"]:  # VyOS asks first; here it is only a word
        words = words[1:]
    if not 1 <= minutes <= MAX_CONFIRM:
        raise SessionError(f"commit-confirm {minutes} is not possible; give 1 to {MAX_CONFIRM} minutes")
    return _commit(editor, words, minutes)


def _commit(editor: Editor, words: list[str], confirm: int) -> str:
    comment = ""
    if words:
        if not "comment".startswith(words[0]) or len(words) != 2:
            raise Misused
        comment = words[1]
    if not editor.session.modified():
        return "No configuration changes to commit\n"
    told = access.ask(
        editor.session.schema, "commit", changes=editor.session.changes(), via=editor.via, comment=comment,
        confirm=confirm, isolated=editor.isolated,
    )  # fmt: skip
    editor.session.discard()
    editor.stay()
    editor.unsaved = True
    return told


def confirm(editor: Editor, _words: list[str]) -> str:
    """Keep what commit-confirm has applied."""
    return access.ask(editor.session.schema, "confirm", via=editor.via, isolated=editor.isolated)


def rollback(editor: Editor, words: list[str]) -> str:
    """Replace the candidate by a commit of the archive."""
    if len(words) != 1 or not is_number(words[0]):
        raise SessionError("Error: must include a revision # to rollback to")
    config = revision(editor, int(words[0]))
    editor.session.discard()
    editor.level = ()
    editor.session.load(config.text(editor.session.schema))
    if not editor.session.modified():
        return f"Revision {words[0]} is the running configuration; no changes to commit.\n"
    return 'Rollback diff has been applied.\nUse "compare" to review the changes or "commit" to apply them.\n'
