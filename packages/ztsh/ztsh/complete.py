"""What may follow the words typed so far, and how VyOS shows it."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ztsh import places
from ztsh.opschema import OpNode, resolve
from ztsh.schema import Completion, Node, steps
from ztsh.tree import Tree, get, natural

ENTER = ("<Enter>", "Execute the current command")
_COLUMN = 24  # where help texts begin
_PATIENCE = 5.0  # seconds that a completion script may take


@dataclass
class Choices:
    """What may come next: words to complete to, and lines of help (mark, word, text) in their order."""

    words: list[str] = field(default_factory=list)
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    wrong: str = ""  # what to say instead when the words before lead nowhere

    def starting(self, prefix: str) -> Choices:
        """Only the words that begin so, and their lines; help about values stays."""
        if not prefix:
            return self
        keep = [line for line in self.lines if line[1].startswith(("<", prefix)) or line[1] not in self.words]
        return Choices([word for word in self.words if word.startswith(prefix)], keep, self.wrong)


def help_text(choices: Choices, width: int = 0, title: str = "Possible completions:") -> str:
    """The list as VyOS prints it; texts are broken to ``width`` columns (0: not at all)."""
    if choices.wrong:
        return f"\n{choices.wrong}\n"
    lines = [title]
    for mark, word, text in choices.lines:
        start = f"{mark}{word}"
        if not text:
            lines.append(start.rstrip())
            continue
        parts = textwrap.wrap(text, width - _COLUMN - 1) if width > 2 * _COLUMN else [text]
        if len(start) >= _COLUMN:
            lines.append(start)
            start = ""
        lines.append(start.ljust(_COLUMN) + parts[0])
        lines += [" " * _COLUMN + part for part in parts[1:]]
    return "\n".join(lines) + "\n"


_FORMATS = {
    "txt": "<text>", "u32": "<0-4294967295>", "range": "<start>-<end>", "ipv4": "<x.x.x.x>",
    "ipv6": "<h:h:h:h:h:h:h:h>", "ipv4net": "<x.x.x.x/x>", "ipv6net": "<h:h:h:h:h:h:h:h/x>",
    "ipv4range": "<x.x.x.x>-<x.x.x.x>", "ipv6range": "<h:h:h:h:h:h:h:h>-<h:h:h:h:h:h:h:h>", "bool": "<boolean>",
    "macaddr": "<h:h:h:h:h:h>", "hostname": "<hostname>", "filename": "<filename>", "path": "<path>", "vrf": "<vrf>",
}  # fmt: skip


def value_format(name: str) -> str:
    """The format of a value as help shows it."""
    if name.startswith("u32:"):
        return f"<{name[4:]}>"
    return _FORMATS.get(name, name)


def values_of(completion: Completion, tree: Tree, words: Sequence[str] = ()) -> list[str]:
    """Words that a definition offers: its lists, nodes of the configuration, the output of its scripts."""
    found = completion.words
    for path in completion.paths:
        below = get(tree, path.split())
        found += list(below) if isinstance(below, dict | list) else []
    for script in completion.scripts:
        found += _run(script, words)
    return list(dict.fromkeys(found))


def _run(script: str, words: Sequence[str]) -> list[str]:
    environment = {
        **os.environ,
        "vyos_completion_dir": str(places.completion_scripts()),
        "COMP_CWORD": str(max(0, len(words) - 1)),
    }
    try:
        done = subprocess.run(
            ["/bin/bash", "-c", f'COMP_WORDS=("$@")\n{script}', "completion", *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split()


# -- conf mode


def conf_choices(schema: Node, tree: Tree, path: Sequence[str], *, existing: bool, level: int = 0) -> Choices:
    """What may follow a path in the configuration; ``existing``: only what is in ``tree``.

    The first ``level`` words of the path are the edit level, which an error does not repeat.
    """
    walked = list(steps(schema, path))
    node, ended = (walked[-1].node, walked[-1].is_value) if walked else (schema, False)
    gone = (i for i, step in enumerate(walked) if existing and not step.is_value and get(tree, path[: i + 1]) is None)
    wrong = next(gone, len(walked))
    if wrong < len(path):
        before = "".join(f"{word} " for word in path[level:wrong])
        return Choices(wrong=f"  Configuration path: {before}[{path[wrong]}] is not valid\n")
    if node.kind == "leaf" and (ended or node.valueless):
        return Choices(lines=[("  ", *ENTER)])
    if node.kind == "node" or ended:
        return _children(node, get(tree, path) if existing else None, existing)
    return _values(node, tree, path, existing)


def _children(node: Node, here: object, existing: bool) -> Choices:
    names = sorted(n for n in node.children if not existing or (isinstance(here, dict) and n in here))
    if not names:
        return Choices(lines=[("  ", *ENTER)])
    return Choices(names, [(_mark(node.children[n]), n, node.children[n].help) for n in names])


def _mark(node: Node) -> str:
    return "+> " if node.kind == "tag" else " > " if node.kind == "node" else "+  " if node.multi else "   "


def _values(node: Node, tree: Tree, path: Sequence[str], existing: bool) -> Choices:
    here = get(tree, path)
    present = sorted(here, key=natural) if isinstance(here, dict) else list(here or [])
    if existing:
        lines = [("   ", word, "") for word in present]
        return Choices(present, lines or [("  ", *ENTER)])
    offered = values_of(node.completion, tree, path)
    words = list(dict.fromkeys([*present, *offered]))
    helps = [(value_format(item.format), item.description) for item in node.value_help]
    if not helps and not offered:
        helps = [("<text>", node.help)]
    lines = [("   ", word, text) for word, text in helps]
    told = {word for word, _text in helps}
    return Choices(words, lines + [("   ", word, "") for word in sorted(words, key=natural) if word not in told])


# -- op mode


def op_choices(root: OpNode, tree: Tree, words: Sequence[str]) -> Choices:
    """What may follow words of op mode."""
    found = resolve(root, words)
    if found.wrong is not None:
        return Choices(wrong=wrong_op(words, found.wrong, found.choices))
    node = found.node
    lines = [("  ", *ENTER)] if node.command else []
    names = sorted(node.children)
    lines += [("  ", name, node.children[name].shown_help) for name in names]
    if node.value is not None:
        offered = sorted(values_of(node.value.completion, tree, words), key=natural)
        names += offered
        lines += [("  ", word, "") for word in offered] or [("  ", "<text>", node.value.help)]
    return Choices(names, lines)


def wrong_op(words: Sequence[str], wrong: int, choices: Iterable[str]) -> str:
    """What VyOS says to words that are no command."""
    before = "".join(f"{word} " for word in words[:wrong])
    kind = "Ambiguous" if list(choices) else "Invalid"
    text = f"  {kind} command: {before}[{words[wrong]}]\n"
    if kind == "Ambiguous":
        text += f"\n  Possible completions: {' '.join(choices)}\n"
    return text
