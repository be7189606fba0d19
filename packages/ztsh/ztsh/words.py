"""Lines as words: quotes as a shell has them, and what follows a pipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
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


NEEDS_QUOTES = "a value with | or > needs quotes"


@dataclass(frozen=True)
class Line:
    """The words of a command, and the rest of the line behind the first pipe (a shell's to run)."""

    words: list[str]
    pipe: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether the rest, if any, only takes the output: filters, a file. Otherwise it takes a shell to run the line."""
        bars = [at for at, char in _bare(self.pipe) if char == "|"]
        chained = any(char in ";&" for _, char in _bare(self.pipe)) or any(at + 1 in bars for at in bars)
        return not chained and self.pipe[:1] in ("", "|", ">")


def _bare(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside quotes, each with its place."""
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
        else:
            yield index, char


def split(text: str) -> Line:
    """Cut a line. Raises :class:`LineError` for an open quote."""
    places = (at for at, char in _bare(text) if char in "|>" and (at == 0 or text[at - 1].isspace()))
    return _cut(text, next(places, len(text)))


def split_op(text: str) -> Line:
    """Cut a line of op mode, where a command ends as in a shell, also without blanks; a single & stands in addresses, too."""

    def ends(at: int, char: str) -> bool:
        return char in "|;<>" or (char == "&" and (text[at : at + 2] == "&&" or text[:at][-1:].isspace()))

    at = next((at for at, char in _bare(text) if ends(at, char)), len(text))
    number = re.search(r"(?<!\S)[0-9]+$", text[:at]) if text[at : at + 1] in ("<", ">") else None  # 2> is a redirection
    return _cut(text, number.start() if number else at)


def _cut(text: str, at: int) -> Line:
    """The words before a place, and what is behind it."""
    command, pipe = text[:at], text[at:].strip()
    comment = command.lstrip().startswith("#")
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
        lexer.whitespace_split = True
        lexer.commenters = "#" if comment else ""
        words = list(lexer)
        return Line(words, pipe if words or not comment else "")
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
