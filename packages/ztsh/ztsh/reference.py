"""The CLI reference, written from the definitions in the form of VyOS's documentation.

``python3 -m ztsh.reference CONF_DIR OP_DIR`` prints it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from ztsh.complete import value_format
from ztsh.opschema import OpNode, load_op_schema
from ztsh.schema import Node, load_schema

_HEAD = """.. Written by "make reference" from the XML definitions; do not edit.

#############
CLI reference
#############

Conf mode
=========

"""


def reference(conf: Path, op: Path) -> str:
    """The whole document. Raises :class:`ztsh.schema.SchemaError`."""
    parts = [_HEAD, *_conf(load_schema(conf), ()), "Op mode\n=======\n\n", *_op(load_op_schema([op]), ())]
    return "".join(parts).rstrip("\n") + "\n"


def _text(text: str, indent: str = "   ") -> str:
    return "\n".join(textwrap.wrap(text, 100, initial_indent=indent, subsequent_indent=indent)) + "\n\n"


def _place(node: Node) -> str:
    """The placeholder of a value: ``<1-32 | auto>``."""
    formats = [value_format(item.format).strip("<>") for item in node.value_help]
    return f"<{' | '.join(dict.fromkeys(formats)) or 'text'}>"


def _conf(node: Node, path: tuple[str, ...]) -> Iterator[str]:
    for name in sorted(node.children):
        child = node.children[name]
        here = (*path, name)
        if child.kind == "node":
            yield from _conf(child, here)
            continue
        if not child.valueless:
            here = (*here, _place(child))
        yield f".. cfgcmd:: set {' '.join(here)}\n\n"
        yield _text(f"{child.help}." if not child.help.endswith(".") else child.help)
        yield from _values(child)
        if child.kind == "tag":
            yield from _conf(child, here)


def _values(node: Node) -> Iterator[str]:
    for item in node.value_help:
        yield _text(f"* ``{value_format(item.format).strip('<>')}``: {item.description}.").replace("\n   ", "\n     ")
    if node.multi:
        yield _text("May be set several times.")
    if node.default is not None:
        yield _text(f"The default is ``{node.default}``.")
    if node.error:
        yield _text(f"Any other value is refused: *{node.error}*.")
    if node.priority:
        yield _text(f"Applied with priority {node.priority}.")


def _op(node: OpNode, path: tuple[str, ...]) -> Iterator[str]:
    if node.command:
        yield f".. opcmd:: {' '.join(path)}\n\n"
        yield _text(f"{node.help}." if node.help else "")
    for name in sorted(node.children):
        yield from _op(node.children[name], (*path, name))
    if node.value is not None:
        yield from _op(node.value, (*path, _VALUES.get(path[-1], "<text>")))


# Op mode definitions do not say what a value looks like; the words before them do.
_VALUES = {"zerotier": "<ztN>", "instance": "<1-32>"}


if __name__ == "__main__":
    sys.stdout.write(reference(Path(sys.argv[1]), Path(sys.argv[2])))
