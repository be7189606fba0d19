"""What may follow the words of a command of conf mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ztsh import archive, places
from ztsh.complete import ENTER, Choices, conf_choices
from ztsh.editor import Editor
from ztsh.errors import SessionError
from ztsh.tree import exists

OpChoices = Callable[[Sequence[str]], Choices]
Completer = Callable[[Editor, list[str], OpChoices], Choices]


def arguments(*lines: tuple[str, str], more: Callable[[Choices], None] | None = None) -> Completer:
    """Complete the first argument: words, and in angle brackets what else may come, with help."""

    def complete(_editor: Editor, words: list[str], _op: OpChoices) -> Choices:
        if words:
            return Choices(lines=[("  ", *ENTER)])
        choices = Choices([word for word, _ in lines if not word.startswith("<")], [("  ", *line) for line in lines])
        if more:
            more(choices)
        return choices

    return complete


nothing = arguments(ENTER)


def path(verb: str) -> Completer:
    """Complete any path that the definitions have."""

    def complete(editor: Editor, words: list[str], _op: OpChoices) -> Choices:
        return _path(editor, verb, words, existing=False)

    return complete


def existing_path(verb: str) -> Completer:
    """Complete a path of the candidate."""

    def complete(editor: Editor, words: list[str], _op: OpChoices) -> Choices:
        return _path(editor, verb, words, existing=True)

    return complete


def shown_path(editor: Editor, words: list[str], _op: OpChoices) -> Choices:
    """Complete a path of the candidate, and say of one that is not in it that it is not set."""
    try:
        if words and not exists(editor.session.candidate, editor.path("show", words)):
            return Choices(wrong=f"  Configuration path: [{' '.join(words)}] is not set\n")
    except SessionError as error:
        return Choices(wrong=f"  {error.reason}\n")
    return _path(editor, "show", words, existing=True)


def _path(editor: Editor, verb: str, words: list[str], *, existing: bool) -> Choices:
    try:
        whole = editor.path(verb, words)
    except SessionError as error:
        return Choices(wrong=f"  {error.reason}\n")
    return conf_choices(editor.session.schema, editor.session.candidate, whole, existing=existing, level=len(editor.level))


def copied(editor: Editor, words: list[str], _op: OpChoices) -> Choices:
    """Complete ``NAME VALUE to NAME VALUE``."""
    if len(words) < 2:
        return _path(editor, "copy", words, existing=True)
    if len(words) == 2:
        return Choices(["to"], [("  ", "to", "Set destination")])
    if words[2] == "to" and len(words) < 5:
        return _path(editor, "copy", words[3:], existing=False)
    return Choices(lines=[("  ", *ENTER)])


def op_command(_editor: Editor, words: list[str], op: OpChoices) -> Choices:
    """Complete a command of op mode."""
    return op(words)


def add_files(choices: Choices) -> None:
    """Offer the files beside the saved configuration, which is where people keep others."""
    try:
        files = sorted(str(path) for path in places.boot_file().parent.iterdir() if path.is_file())
    except OSError:
        return
    choices.words += files
    choices.lines += [("  ", name, "") for name in files]


def add_revisions(choices: Choices) -> None:
    """List the archive below."""
    choices.lines += [("", "", ""), ("  ", "Revisions:", "")]
    choices.lines += [("    ", line, "") for line in archive.log(archive.revisions()).splitlines()]
