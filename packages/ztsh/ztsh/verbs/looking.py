"""Looking at configurations, and at everything else: show, compare, run."""

from __future__ import annotations

from ztsh import archive, places
from ztsh.configuration import Config, read_config
from ztsh.editor import Editor
from ztsh.errors import Misused, SessionError
from ztsh.verbs.files import read
from ztsh.words import is_number


def show(editor: Editor, words: list[str]) -> str:
    """The candidate, marked where it differs from the running configuration."""
    path = editor.path("show", [word for word in words if word != "-all"])
    return editor.session.show(path, defaults="-all" in words)


def compare(editor: Editor, words: list[str]) -> str:
    """The differences between two configurations."""
    old, new, what = _sides(editor, [word for word in words if word != "commands"])
    if "commands" in words:
        text = editor.session.compare_commands(old, new)
    else:
        text = editor.session.compare(old, new, editor.level)
    return text or f"No changes between {what} configurations.\n"


def _sides(editor: Editor, words: list[str]) -> tuple[Config | None, Config | None, str]:
    if not words:
        return None, None, "working and active"
    if len(words) == 1 and "saved".startswith(words[0]):
        return read_config(read(str(places.boot_file())), editor.session.schema), None, "working and saved"
    if len(words) > 2 or not all(map(is_number, words)):
        raise Misused
    old = revision(editor, int(words[-1]))
    if len(words) == 1:
        return old, None, f"working and revision {words[0]}"
    return old, revision(editor, int(words[0])), f"revisions {words[1]} and {words[0]}"


def revision(editor: Editor, number: int) -> Config:
    """A configuration of the archive. Raises :class:`SessionError`."""
    found = archive.revisions()
    if number >= len(found):
        raise SessionError(f"Invalid revision number {number}: must be 0 <= rev < {len(found)}")
    try:
        return read_config(found[number].text(), editor.session.schema, [])
    except OSError as error:
        raise SessionError(f"revision {number} cannot be read ({error})") from None


def run(editor: Editor, words: list[str]) -> str:
    """A line of op mode, which is one word here: as it was typed."""
    if not words:
        raise SessionError("Incomplete command: run")
    return editor.run_op(" ".join(words))
