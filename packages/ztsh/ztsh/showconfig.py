"""What op mode shows of the configuration itself, and the filters that turn it into other forms."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from ztsh import archive, places
from ztsh.bootreport import boot_warning
from ztsh.configuration import Config, misfits, read_config, running
from ztsh.differences import compared
from ztsh.errors import SessionError
from ztsh.private import strip_private
from ztsh.schema import Node, load_schema
from ztsh.session import EMPTY
from ztsh.store import GROUP
from ztsh.text import Entry, TextError, parse, render, set_commands, single_quoted
from ztsh.tree import Tree, with_defaults
from ztsh.words import is_number


def show(arguments: Sequence[str]) -> int:
    """``config [all|commands|json]``, ``config log``, ``config diff N``, ``config file N``."""
    schema = load_schema(places.definitions())
    match list(arguments):
        case ["log"] | ["diff" | "file", _]:
            try:
                return _commits(list(arguments), schema)
            except PermissionError:
                raise SessionError(f"only members of the group {GROUP} can read the commits") from None
        case [*form] if form in ([], ["all"], ["commands"], ["json"]):
            print(_config(form[0] if form else "", schema), end="")
        case _:
            print("usage: ztsh config [all | commands | json | log | diff N | file N]", file=sys.stderr)
            return 2
    return 0


def _config(form: str, schema: Node) -> str:
    left_out: list[str] = []
    config = running(schema, left_out)
    print(outdated(config, schema, left_out), end="", file=sys.stderr)
    if not config.tree:
        return "{}\n" if form == "json" else f"{EMPTY}\n"
    if form == "commands":
        return set_commands(config.tree, schema, config.comments)
    if form == "json":
        return json.dumps(_plain(config.tree, schema), indent=4) + "\n"
    tree = with_defaults(config.tree, schema) if form == "all" else config.tree
    return render(tree, schema, config.comments)


def outdated(config: Config, schema: Node, left_out: Sequence[str]) -> str:
    """What an update of the definitions has made of the running configuration, a line each; empty when it is as it was."""
    lines = [f"{line}; set another value or delete it" for line in misfits(config, schema)]
    lines += [f"{path}: no definition has this any more; the next commit forgets it" for path in left_out]
    return "".join(f"Warning: {line}\n" for line in lines)


def _plain(tree: Tree, schema: Node) -> dict[str, Any]:
    """As VyOS's JSON of a configuration: a leaf is a string, one with several values a list, without any {}."""
    result: dict[str, Any] = {}
    for name, below in tree.items():
        node = schema.children[name]
        if node.kind == "leaf":
            result[name] = {} if node.valueless else list(below) if node.multi else below[0]
        elif node.kind == "tag":
            result[name] = {tag: _plain(part, node) for tag, part in below.items()}
        else:
            result[name] = _plain(below, node)
    return result


def _commits(arguments: Sequence[str], schema: Node) -> int:
    found = archive.revisions()
    if arguments[0] == "log":
        print(boot_warning() + archive.log(found), end="")
        return 0
    what, number = arguments[0], int(arguments[1]) if is_number(arguments[1]) else len(found)
    if number >= len(found):
        print(
            f"there is no revision {arguments[1]}; revisions are 0 to {len(found) - 1}" if found else "there are no commits yet",
            file=sys.stderr,
        )
        return 1
    text = found[number].text()
    if what == "file":
        print(text, end="")
        return 0
    new = read_config(text, schema, [])
    old = read_config(found[number + 1].text() if number + 1 < len(found) else "", schema, [])
    print(compared(old, new, schema) or "No changes\n", end="")
    return 0


# -- filters


def run_filter(arguments: Sequence[str]) -> int:
    """Standard input in another form: ``commands``, ``json`` or ``strip-private``."""
    if list(arguments) not in (["commands"], ["json"], ["strip-private"]):
        print("usage: ztsh filter commands | json | strip-private", file=sys.stderr)
        return 2
    text = sys.stdin.read()
    if list(arguments) == ["strip-private"]:
        print(strip_private(text), end="")
        return 0
    lines = text.splitlines()
    if lines and lines[0][:1] in ("+", "-", ">", " "):
        # Conf mode's show marks each line; what a commit would delete is not there any more.
        lines = [line[1:] for line in lines if not line.startswith("-")]
    try:
        entries = parse("\n".join(lines)).paths
    except TextError as error:
        print(f"the input is not a configuration: {error}", file=sys.stderr)
        return 1
    if list(arguments) == ["json"]:
        print(json.dumps(_nested(entries), indent=4))
    else:
        for path, _line, valued in entries:
            print(" ".join(["set", *path[:-1], single_quoted(path[-1]) if valued else path[-1]]))
    return 0


def _nested(entries: Sequence[Entry]) -> dict[str, Any]:
    """Paths as nested data; without a schema a leaf with several values is one that is there more than once."""
    result: dict[str, Any] = {}
    for path, _line, valued in entries:
        here = result
        for word in path[: -2 if valued else None]:
            below = here.setdefault(word, {})
            here = below if isinstance(below, dict) else {}  # a name that has a value too; no schema allows that
        if valued:
            name, value = path[-2:]
            known = here.get(name)
            here[name] = value if known is None else [*(known if isinstance(known, list) else [known]), value]
    return result
