"""The text form of a configuration: VyOS's config.boot, and set commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ztsh.schema import Node
from ztsh.tree import Path, Tree, commands, natural

FOOTER = '\n\n// Warning: Do not remove the following line.\n// vyos-config-version: "zerotier@1"\n'


class TextError(ValueError):
    """A text that is no configuration; the message names the line."""


_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}])|([^\s{}"]+)|(\n)|[ \t\r]+|(//[^\n]*|/\*.*?\*/)', re.DOTALL)


def _tokens(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, kind, word): kinds are word, brace, end (of line)."""
    line, at = 1, 0
    while at < len(text):
        if text.startswith(("//", "/*"), at):
            end = text.find("\n", at) if text[at + 1] == "/" else text.find("*/", at) + 2
            end = len(text) if end <= at else end
            line += text.count("\n", at, end)
            at = end
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise TextError(f"line {line}: cannot be read from here on: {text[at : at + 20]!r}")
        quoted, brace, word, newline, _comment = match.groups()
        if quoted is not None:
            yield line, "word", re.sub(r"\\(.)", r"\1", quoted)
        elif brace:
            yield line, "brace", brace
        elif word is not None:
            yield line, "word", word
        elif newline:
            yield line, "end", ""
        line += match[0].count("\n")
        at = match.end()


def parse(text: str) -> list[tuple[Path, int]]:
    """The paths that a config.boot text sets, each with its line. Raises :class:`TextError`.

    The text itself tells values, tags and nodes apart only by braces, so this needs no schema.
    """
    found: list[tuple[Path, int]] = []
    stack: list[tuple[Path, int]] = []  # path of each open block, and how many paths were found before it
    here: Path = ()
    words: list[str] = []
    line = 0
    for line, kind, word in _tokens(text):
        if kind == "word":
            words.append(word)
        elif word == "{":
            if not 1 <= len(words) <= 2:
                raise TextError(f"line {line}: a block needs a name, or a name and a value, before its brace")
            stack.append((here, len(found)))
            here, words = (*here, *words), []
        else:
            if words:
                if len(words) > 2:
                    raise TextError(f"line {line}: more than one value in {' '.join(words)!r}; quote it")
                found.append(((*here, *words), line))
                words = []
            if word == "}":
                if not stack:
                    raise TextError(f"line {line}: a closing brace without its opening one")
                outer, before = stack.pop()
                if len(found) == before:
                    found.append((here, line))
                here = outer
    if stack:
        raise TextError(f"line {line}: {len(stack)} blocks are not closed; the text is cut off")
    if words:
        found.append((tuple(words), line))
    return found


def quote(value: str) -> str:
    """A value as config.boot has it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render(tree: Tree, schema: Node, indent: int = 0) -> str:
    """The tree in the form of config.boot, without a footer."""
    return "".join(f"{line}\n" for line in _lines(tree, schema, " " * 4 * indent))


def _lines(tree: Tree, schema: Node, pad: str) -> Iterator[str]:
    for name in sorted(tree, key=natural):
        node: Node | None = schema.child(name)
        below: Any = tree[name]
        if node is None:
            continue
        if node.kind == "leaf":
            yield from (f"{pad}{name} {quote(value)}" for value in below) if below else [f"{pad}{name}"]
        elif node.kind == "tag":
            for tag in sorted(below, key=natural):
                yield f"{pad}{name} {tag} {{"
                yield from _lines(below[tag], node, pad + "    ")
                yield f"{pad}}}"
        else:
            yield f"{pad}{name} {{"
            yield from _lines(below, node, pad + "    ")
            yield f"{pad}}}"


def set_command(path: Sequence[str], verb: str = "set") -> str:
    """A path as the command that a user types; values with special characters are quoted."""
    return " ".join([verb, *(w if re.fullmatch(r"[-\w.:/@+,=\[\]]+", w) else shlex.quote(w) for w in path)])


def set_commands(tree: Tree, schema: Node) -> str:
    """The tree as set commands, a line each."""
    return "".join(f"{set_command(path)}\n" for path in commands(tree, schema))
