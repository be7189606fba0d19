"""The templates (``node.def``) that VyOS's configuration system and op mode read, made of the XML definitions.

They are what vyos-1x's own build makes of the same XML (its scripts/build-command-templates and
build-command-op-templates), file by file. Nodes that are only the way to others get none: those belong to vyos-1x.

``python3 -m ztsh.templates CONF_DIR OP_DIR OUTPUT_DIR`` writes them to OUTPUT_DIR/cfg and OUTPUT_DIR/op.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from ztsh.opschema import OpNode, load_op_schema
from ztsh.schema import Constraint, Node, load_schema

_VALIDATORS = "${vyos_validators_dir}"
_INVALID = "Invalid value"


def _wrapped(help_text: str) -> str:
    return fill(help_text, width=64, subsequent_indent="\t\t\t")


# -- conf mode


def conf_templates(root: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(path of the file, its text) for everything below a node."""
    for name in sorted(root.children):
        node, here = root.children[name], (*path, name)
        if node.described:
            yield "/".join([*here, "node.def"]), conf_template(node)
        yield from conf_templates(node, (*here, "node.tag") if node.kind == "tag" else here)


def conf_template(node: Node) -> str:
    """The template of one node."""
    lines = ["tag:"] if node.kind == "tag" else []
    if node.multi:
        lines.append("multi:")
    if node.kind != "node" and not node.valueless:
        lines.append("type: txt")
    if node.priority is not None:
        lines.append(f"priority: {node.priority}")
    default = f" (default: {', '.join(node.default.split())})" if node.default is not None else ""
    lines.append(f"help: {_wrapped(node.help + default)}")
    for item in node.value_help:
        mark = " (default)" if node.default == item.format else ""
        lines.append(f"val_help: {item.format}; {item.description}{mark}")
    offers = [f'echo "{text}"' for text in node.completion.lists]
    offers += [f"/bin/cli-shell-api listNodes {text}" for text in node.completion.paths]
    offers += [f'sh -c "{text}"' for text in node.completion.scripts]
    if offers:
        lines.append('allowed: ' + ' && echo " " && '.join(offers))
    if node.constraints or node.groups:
        lines.append(f"syntax:expression: {_syntax(node)}")
    if node.owner:
        value = "VYOS_TAGNODE_VALUE='$VAR(@)' " if node.kind == "tag" else ""
        lines.append(f'end: sudo sh -c "${{vyshim}} {value}{node.owner}"')
    return "".join(f"{line}\n" for line in lines)


def _syntax(node: Node) -> str:
    one_of = _checks(node.constraints) if node.constraints else ""
    groups = "".join(f" --grp {_checks(group)}" for group in node.groups)
    return f'exec "${{vyos_libexec_dir}}/validate-value {one_of} {groups} --value \\\'$VAR(@)\\\'"; "{node.error or _INVALID}"'


def _checks(constraints: tuple[Constraint, ...]) -> str:
    def escaped(pattern: str) -> str:
        return pattern.strip().replace("\\", "\\\\")

    regexes = [f"--regex \\'{escaped(c.name)}\\'" for c in constraints if c.kind == "regex"]
    programs = [f'--exec \\"{_VALIDATORS}/{c.name} {c.argument}\\"' for c in constraints if c.kind == "validator"]
    return f"{' '.join(regexes)} {' '.join(programs)}"


# -- op mode


def op_templates(root: OpNode, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(path of the file, its text) for everything below a node."""
    for name in sorted(root.children):
        node, here = root.children[name], (*path, name)
        if node.described:
            yield "/".join([*here, "node.def"]), op_template(node)
        elif node.value is not None and node.value.described:
            yield "/".join([*here, "node.def"]), f"help: {node.value.help}\n"
        yield from op_templates(node, here)
        if node.value is not None:
            if node.value.described:
                yield "/".join([*here, "node.tag", "node.def"]), op_template(node.value)
            yield from op_templates(node.value, (*here, "node.tag"))


def op_template(node: OpNode) -> str:
    """The template of one word."""
    lines = [f"help: {_wrapped(node.help or 'No help available')}"]
    offers = [f'echo "{text}"' for text in node.completion.lists]
    for text in node.completion.paths:
        joined = re.sub(r"\s+", "/", text)
        offers.append(f"ls /opt/vyatta/config/active/{joined} 2>/dev/null")
    offers += node.completion.scripts
    if offers:
        lines.append("allowed: " + " && ".join(offers))
    if node.command is not None:
        lines.append(f"run: {node.command}")
    return "".join(f"{line}\n" for line in lines)


def write(conf: Path, op: Path, output: Path) -> int:
    """Write all templates; returns how many. Raises :class:`ztsh.schema.SchemaError` and OSError."""
    files = {f"cfg/{path}": text for path, text in conf_templates(load_schema(conf))}
    files |= {f"op/{path}": text for path, text in op_templates(load_op_schema([op]))}
    for path, text in files.items():
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return len(files)


if __name__ == "__main__":
    print(f"{write(*map(Path, sys.argv[1:4]))} templates")
