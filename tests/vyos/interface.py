"""What we take from VyOS: the list of it, what our code uses, and whether a source tree of vyos-1x has it.

    python3 -m tests.vyos.interface sagitta=DIR circinus=DIR@REVISION ...

DIR is a checkout of vyos-1x or a bare repository; with @REVISION the files are those of that revision.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "packages/zerotier-multi/vyos/interface.toml"
PATHS = re.compile(
    r"/(?:opt/vyatta|usr/share/vyos|usr/libexec/vyos|run/vyos|bin/vbash|usr/lib/python3/dist-packages/vyos)[\w./-]*"
    r"|\b(?:vyos|vyconf)[a-z-]*\.service\b"
)


def load() -> dict[str, Any]:
    """The list."""
    return tomllib.loads(LIST.read_text())


@dataclass(frozen=True)
class Name:
    """A name of a module, and the arguments that may be given; None where it is not called.

    One that is called differently in some versions, as in "config|path", is given by its place alone.
    """

    name: str
    arguments: tuple[str, ...] | None


def names(entry: Mapping[str, Any]) -> dict[str, Name]:
    """The names of a module's entry by name."""
    found = {}
    for text in entry["names"]:
        name, called, rest = text.partition("(")
        arguments = tuple(word.strip() for word in rest.rstrip(")").split(",") if word.strip())
        found[name] = Name(name, arguments if called else None)
    return found


# -- what our code uses


def _imports(tree: ast.AST, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """(name here, dotted name there) of everything imported from VyOS."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((a.asname or a.name, a.name) for a in node.names if a.name.split(".")[0] in wanted)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in wanted:
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def python_uses(text: str) -> set[str]:
    """Dotted names of VyOS's Python that a program uses, in programs within it too.

    Followed are imports, attributes of what is imported, methods of an object that a call of an imported class gave, and
    what a class uses of an imported base through self, cls and super().
    """
    tree, found = ast.parse(text), set()
    here = dict(_imports(tree, {"vyos", "base_vyostest_shim"}))
    found |= {there for name, there in here.items() if name != there}
    for program in _strings(tree):
        if re.match(r"(try: )?from vyos", program):
            found |= python_uses(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            for name, there in here.items():
                if dotted.startswith(f"{name}."):
                    found.add(there + dotted[len(name) :])
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found |= _methods(tree, node, here)
        elif isinstance(node, ast.ClassDef):
            found |= _inherited(node, here)
    return found


def _strings(tree: ast.AST) -> list[str]:
    """Every string; what is filled into one is None."""
    filled = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]
    parts = {id(value) for n in filled for value in n.values}
    plain = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in parts]
    return plain + ["".join(str(v.value) if isinstance(v, ast.Constant) else "None" for v in n.values) for n in filled]


def _methods(tree: ast.AST, node: ast.Assign, here: Mapping[str, str]) -> set[str]:
    made = {
        here[c.func.id]
        for c in ast.walk(node.value)
        if isinstance(c, ast.Call) and isinstance(c.func, ast.Name) and c.func.id in here
    }
    variable = node.targets[0].id  # type: ignore[attr-defined]
    return {
        f"{there}.{a.attr}"
        for there in made
        for a in ast.walk(tree)
        if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id == variable
    }


def _inherited(node: ast.ClassDef, here: Mapping[str, str]) -> set[str]:
    import unittest

    bases = [ast.unparse(base) for base in node.bases]
    base = next((there + b[len(name) :] for b in bases for name, there in here.items() if b.split(".")[0] == name), None)
    if base is None:
        return set()
    own = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} | set(dir(unittest.TestCase))
    own |= {t.attr for t in ast.walk(node) if isinstance(t, ast.Attribute) and isinstance(t.ctx, ast.Store)}
    used = {
        a.attr
        for a in ast.walk(node)
        if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Name) and a.value.id in ("self", "cls")
    }
    used |= {
        a.attr
        for a in ast.walk(node)
        if isinstance(a, ast.Attribute) and isinstance(a.value, ast.Call) and ast.unparse(a.value.func) == "super"
    }
    return {f"{base}.{name}" for name in used - own} | {f"{base}.{name}" for name in used if name == "setUpClass"}


def programs() -> list[Path]:
    """Our Python that runs on VyOS."""
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "smoketest").rglob("*.py"), *(ROOT / "python").rglob("*.py")]
    return sorted([*found, *(ROOT / "packages/zerotier-multi/vyos").glob("vyos*[!l]")])


def texts() -> list[Path]:
    """Everything of ours that may name a file of VyOS."""
    folders = [
        "src",
        "smoketest",
        "python",
        "interface-definitions",
        "op-mode-definitions",
        "packages/zerotier-multi",
        "tests/vyos/golden",
    ]
    found = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted(p for p in found if p != LIST and p.suffix != ".pyc")


# -- what a tree of vyos-1x has


class Tree:
    """Source files of vyos-1x: a directory, or a revision in a repository."""

    def __init__(self, place: str) -> None:
        self._directory, _, self._revision = place.partition("@")

    def problem(self) -> str | None:
        """Why it cannot be a tree of vyos-1x; None when it can."""
        if self._revision:
            command = ["git", "-C", self._directory, "rev-parse", "--quiet", "--verify", f"{self._revision}^{{commit}}"]
            done = subprocess.run(command, capture_output=True, check=False)
            return f"{self._directory} has no revision {self._revision}" if done.returncode else None
        python = Path(self._directory) / "python/vyos"
        return None if python.is_dir() else f"{self._directory} is not a checkout of vyos-1x: it has no directory python/vyos"

    def read(self, path: str) -> str | None:
        """A file, None where there is none."""
        if self._revision:
            command = ["git", "-C", self._directory, "show", f"{self._revision}:{path}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.stdout if done.returncode == 0 else None
        try:
            return (Path(self._directory) / path).read_text()
        except OSError:
            return None


def lacks(text: str, name: Name) -> str | None:
    """What a module lacks of a name: None when it has it and takes the arguments."""
    body: list[Any] = ast.parse(text).body
    found: Any = None
    for part in name.name.split("."):
        found = next((n for n in body if _defines(n, part)), None)
        if found is None:
            return f"{name.name} is not there"
        body = getattr(found, "body", [])
    if name.arguments and isinstance(found, ast.ClassDef):
        found = next((n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), found)
    if name.arguments and isinstance(found, ast.FunctionDef):
        given = {a.arg for a in [*found.args.args, *found.args.kwonlyargs]}
        missing = [a for a in name.arguments if not given & set(a.split("|"))]
        return f"{name.name} takes no {', '.join(missing)}" if missing else None
    return None


def _defines(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.ImportFrom):
        return any((a.asname or a.name) == name for a in node.names)
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def differences(version: str, tree: Tree, known: Mapping[str, Any]) -> list[str]:
    """Where the list is wrong about a version, a sentence each."""
    found = []
    for module, entry in known["python"].items():
        text, claimed = tree.read(entry["source"]), version in entry.get("in", known["versions"])
        wrong = [w for n in names(entry).values() if (w := lacks(text, n))] if text is not None else [f"no {entry['source']}"]
        if claimed:
            found += [f"{module}: {w}" for w in wrong]
        elif not wrong:
            found.append(f"{module} is there, but the list says that it is not")
    for kind in ("files", "variables", "programs"):
        for what, entry in known[kind].items():
            if "source" in entry:
                text = tree.read(entry["source"])
                has = text is not None and entry.get("text", "") in text
                if has != (version in entry.get("in", known["versions"])):
                    found.append(f"{what} is {'' if has else 'not '}there, but the list says that it is{' not' if has else ''}")
    return found


def main() -> int:
    """Entry point: 0 when the list is right about every tree that was given."""
    known, wrong = load(), 0
    for argument in sys.argv[1:] or ["?"]:
        version, given, place = argument.partition("=")
        if not given or version not in known["versions"]:
            print(f"give VERSION=DIR or VERSION=DIR@REVISION, VERSION one of {', '.join(known['versions'])}", file=sys.stderr)
            return 2
        tree = Tree(place)
        if problem := tree.problem():
            print(f"{argument}: {problem}; give a checkout, or a repository and a revision it has", file=sys.stderr)
            return 2
        told = differences(version, tree, known)
        print("\n".join(f"{version}: {line}" for line in told) or f"{version}: as listed ({known['versions'][version]})")
        wrong += len(told)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
