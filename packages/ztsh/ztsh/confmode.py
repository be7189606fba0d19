"""Conf mode: one line in, its effect on the session and what is printed out."""

from __future__ import annotations

from collections.abc import Sequence

from ztsh.complete import Choices, help_text
from ztsh.editor import Editor
from ztsh.errors import Misused, SessionError
from ztsh.verbs.completion import OpChoices
from ztsh.verbs.table import ALIASES, VERBS, Verb
from ztsh.words import NEEDS_QUOTES, fitting, split


class ConfMode(Editor):
    """An editor that takes lines."""

    def execute(self, words: Sequence[str]) -> str:
        """Run a command; returns what to print.

        Raises :class:`SessionError` for one that is refused, and :class:`ztsh.errors.Leave`.
        """
        if not words:
            return ""
        self.session.refresh()
        verb = verb_of(words[0])
        try:
            return verb.run(self, list(words[1:]))
        except Misused:
            raise SessionError(f"Invalid command: use {verb.usage}") from None

    def line(self, text: str) -> str:
        """As :meth:`execute`, for a line as it is typed; what goes through a pipe is printed already."""
        line = split(text)
        if not line.words:
            if line.pipe:
                raise SessionError(NEEDS_QUOTES)
            return ""
        verb = verb_of(line.words[0])
        if verb.verbatim:
            return self.execute([verb.name, *text.split(None, 1)[1:]])
        if not line.pipe:
            return self.execute(line.words)
        if not (verb.filtered and self.run_filters):
            raise SessionError(NEEDS_QUOTES)
        return self.run_filters(self.execute(line.words), line.pipe)

    def choices(self, words: Sequence[str], op: OpChoices) -> Choices:
        """What may follow words; the one being typed is not among them. ``op`` completes commands of op mode."""
        self.session.refresh()
        if not words:
            return _verbs(list(VERBS))
        try:
            verb = verb_of(words[0])
        except SessionError as error:
            return Choices(wrong=f"  {error.reason}\n")
        return verb.complete(self, list(words[1:]), op)


def verb_of(word: str) -> Verb:
    """The command that a word, which may be cut short, means. Raises :class:`SessionError`."""
    names = fitting(VERBS, ALIASES.get(word, word))
    if not names:
        raise SessionError(f"Invalid command: [{word}]")
    if len(names) > 1:
        raise SessionError(f"Ambiguous command: [{word}]", "", help_text(_verbs(names)).rstrip())
    return VERBS[names[0]]


def _verbs(names: list[str]) -> Choices:
    return Choices(names, [("  ", name, VERBS[name].help) for name in names])
