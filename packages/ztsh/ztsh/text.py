"""The text forms of a configuration: VyOS's config.boot, and set commands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ztsh.schema import Node, steps
from ztsh.tree import Path, Tree, commands, natural

Comments = dict[Path, str]


class TextError(ValueError):
    """A text that is not a configuration; the message names the line.

    ``told`` is the message without words of the text, which may be secrets.
    """

    def __init__(self, message: str, told: str = "") -> None:
        super().__init__(message)
        self.told = told or message


class Entry(NamedTuple):
    """A path that a text sets, its line, and whether its last word is certainly the value of a leaf."""

    path: Path
    line: int
    valued: bool


@dataclass
class Parsed:
    """What a text says: the paths that it sets, and its comments by path."""

    paths: list[Entry] = field(default_factory=list)
    comments: Comments = field(default_factory=dict)


_TOKEN = re.compile(
    r'"(?P<double>(?:[^"\\]|\\.)*)"|\'(?P<single>(?:[^\'\\]|\\.)*)\'|(?P<brace>[{}])|(?P<end>\n)|[ \t\r]+'
    r"|//[^\n]*|/\*(?P<comment>.*?)\*/|(?P<open>/\*)|(?P<word>[^\s{}\"']+)",
    re.DOTALL,
)
_DEEPEST = 64  # blocks within each other
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def _tokens(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, kind, word): kinds are word, brace, comment, end (of line)."""
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup == "open":  # a quote or a comment that does not end
            told = f"line {line}: cannot be read from here on"
            raise TextError(f"{told}: {text[at : at + 20]!r}", told)
        kind = match.lastgroup
        if kind in ("double", "single"):
            yield line, "word", _unescape(match[kind])
        elif kind:
            yield line, kind, match[kind]
        line += match[0].count("\n")
        at = match.end()


def parse(text: str) -> Parsed:
    """What a config.boot text sets. Raises :class:`TextError`.

    The text itself tells values, tags and nodes apart only by braces, so this needs no schema.
    """
    found = Parsed()
    stack: list[tuple[Path, int]] = []  # path of each open block, and how many paths were found before it
    here: Path = ()
    words: list[str] = []
    comment = ""
    line = 0
    for line, kind, word in _tokens(text if text.endswith("\n") else text + "\n"):
        if kind == "word":
            words.append(word)
        elif kind == "comment":
            comment = " ".join(part.strip() for part in word.strip().splitlines())  # all that works by the line needs one
        elif word == "{":
            if not 1 <= len(words) <= 2:
                raise TextError(f"line {line}: a block needs a name, or a name and a value, before its brace")
            if len(stack) >= _DEEPEST:
                raise TextError(f"line {line}: blocks are nested too deeply")
            stack.append((here, len(found.paths)))
            here, words = (*here, *words), []
            if comment:
                found.comments[here], comment = comment, ""
        else:
            if words:
                if len(words) > 2:
                    told = f"line {line}: more than one value; quote it"
                    raise TextError(f"line {line}: more than one value in {' '.join(words)!r}; quote it", told)
                found.paths.append(Entry((*here, *words), line, len(words) == 2))
                if comment:
                    found.comments[*here, words[0]], comment = comment, ""
                words = []
            if word == "}":
                if not stack:
                    raise TextError(f"line {line}: a closing brace without its opening one")
                outer, before = stack.pop()
                if len(found.paths) == before:
                    found.paths.append(Entry(here, line, False))
                here = outer
    if stack:
        raise TextError(f"line {line}: {len(stack)} blocks are not closed; the text is truncated")
    return found


def quote(value: str) -> str:
    """A value as config.boot has it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render(tree: Tree, schema: Node, comments: Mapping[Path, str] | None = None, path: Path = ()) -> str:
    """The tree, which is at ``path``, in the form of config.boot, without a footer."""
    return "".join(f"{line}\n" for line in _lines(tree, schema, comments or {}, path, ""))


def _lines(tree: Tree, schema: Node, comments: Mapping[Path, str], path: Path, pad: str) -> Iterator[str]:
    for name in sorted(tree, key=natural):
        node, below, here = schema.child(name), tree[name], (*path, name)
        if node is None:
            continue
        if node.kind == "tag":
            for tag in sorted(below, key=natural):
                yield from _comment(comments, (*here, tag), pad)
                yield f"{pad}{name} {tag} {{"
                yield from _lines(below[tag], node, comments, (*here, tag), pad + "    ")
                yield f"{pad}}}"
            continue
        yield from _comment(comments, here, pad)
        if node.kind == "leaf":
            yield from (f"{pad}{name} {quote(value)}" for value in below) if below else [f"{pad}{name}"]
        else:
            yield f"{pad}{name} {{"
            yield from _lines(below, node, comments, here, pad + "    ")
            yield f"{pad}}}"


def _comment(comments: Mapping[Path, str], path: Path, pad: str) -> Iterator[str]:
    if path in comments:
        yield f"{pad}/* {comments[path]} */"


def footer(schema: Node) -> str:
    """The component versions with which VyOS ends its config.boot; a migration would go by them."""
    versions = ":".join(f"{component}@{version}" for component, version in sorted(schema.versions.items()))
    return f'\n\n// Warning: Do not remove the following line.\n// vyos-config-version: "{versions}"\n'


def single_quoted(value: str) -> str:
    """A value in single quotes, as a POSIX shell and our own line reader take it."""
    return "'" + value.replace("'", "'\"'\"'") + "'"


def set_command(path: Sequence[str], schema: Node, verb: str = "set") -> str:
    """A path as the command that a user types; as in VyOS the value of a leaf is quoted, nothing else is."""
    walked = list(steps(schema, path))
    words = [single_quoted(word) if is_value and node.kind == "leaf" else word for word, node, is_value in walked]
    return " ".join([verb, *words, *path[len(walked) :]])


def set_commands(tree: Tree, schema: Node, comments: Mapping[Path, str] | None = None) -> str:
    """The tree as set commands, a line each, and its comments behind them."""
    lines = [set_command(path, schema) for path in commands(tree, schema)]
    lines += [comment_command(path, text) for path, text in sorted((comments or {}).items())]
    return "".join(f"{line}\n" for line in lines)


def comment_command(path: Sequence[str], text: str) -> str:
    """The command that gives a node its comment; an empty one takes it away."""
    return " ".join(["comment", *path, single_quoted(text)])
