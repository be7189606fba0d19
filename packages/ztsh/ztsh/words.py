"""Lines as words: quotes as a shell has them, and what follows a pipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass


def is_number(word: str) -> bool:
    """Whether a word is a whole number, such as that of a revision."""
    return re.fullmatch("[0-9]{1,9}", word) is not None


def fitting(names: Iterable[str], word: str) -> list[str]:
    """The names that a word, which may be cut short, can stand for; the whole name stands for itself alone."""
    names = list(names)
    return [word] if word in names else sorted(name for name in names if word and name.startswith(word))


def printable(text: str, keep: str = "") -> str:
    """A text that cannot act on a terminal: other characters than printable ones and those in ``keep`` become ?."""
    return "".join(char if char.isprintable() or char in keep else "?" for char in text)


def indented(text: str) -> str:
    """A message as VyOS sets it off from the prompt."""
    return "\n" + "".join(f"  {line}\n" for line in text.strip("\n").splitlines()) + "\n"


class LineError(ValueError):
    """A line that cannot be cut into words."""


@dataclass(frozen=True)
class Line:
    """The words of a command, and the rest of the line behind the first pipe (a shell's to run)."""

    words: list[str]
    pipe: str = ""


def _find_pipe(text: str) -> int:
    """Place of the first pipe or redirection outside quotes, or -1."""
    quote = ""
    escaped = False
    for index, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "|>" and (index == 0 or text[index - 1].isspace()):
            return index
    return -1


def split(text: str) -> Line:
    """Cut a line. Raises :class:`LineError` for an open quote."""
    at = _find_pipe(text)
    command, pipe = (text, "") if at < 0 else (text[:at], text[at:])
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
        lexer.whitespace_split = True
        lexer.commenters = "#" if command.lstrip().startswith("#") else ""
        return Line(list(lexer), pipe.strip())
    except ValueError:
        raise LineError("a quote is not closed") from None


_MOST = 100  # lines of one command


def first_command(text: str, is_whole: Callable[[str], bool]) -> tuple[str, str]:
    """The first command of pasted lines, and what follows it: more than a line where one ends in the middle of something.

    A line that does not become whole by those below it stands alone.
    """
    lines = text.split("\n")
    for count in range(1, min(len(lines), _MOST) + 1):
        piece = "\n".join(lines[:count])
        if is_whole(piece):
            return piece, "\n".join(lines[count:])
    return lines[0], "\n".join(lines[1:])


def split_open(text: str) -> tuple[list[str], str]:
    """Whole words before the cursor and the one being typed, which may have its quote open still."""
    for end in ("", '"', "'"):
        try:
            words = split(text + end).words
        except LineError:
            continue
        if end == "" and (not text or text[-1].isspace()):
            return words, ""
        return words[:-1], words[-1] if words else ""
    return [], ""
