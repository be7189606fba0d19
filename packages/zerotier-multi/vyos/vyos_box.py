"""What this VyOS is: where it keeps its CLI, and why the add-on package cannot be had on it.

The program of preinst too, run from there as it is (``dpkg`` has nothing of the package unpacked by then): it prints
the one sentence and ends with 1 where the package refuses this VyOS.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

XML_REF = Path("/usr/lib/python3/dist-packages/vyos/xml_ref")
CACHE = "zerotier_multi_cache.py"
# Where the reference tree is, for VyOS's Python and for vyconfd (vyconf/config until January 2025, vyconf/reftree since).
REFERENCE_TREES = (
    Path("/usr/share/vyos/reftree.cache"),
    Path("/usr/libexec/vyos/vyconf/config/reftree.cache"),
    Path("/usr/libexec/vyos/vyconf/reftree/reftree.cache"),
)
TEMPLATES = {
    "cfg": Path("/opt/vyatta/share/vyatta-cfg/templates"),
    "op": Path("/opt/vyatta/share/vyatta-op/templates"),
}
# What the configuration of this package hangs below; the caches must know it, before and after.
KNOWN, OURS = ("interfaces", "loopback"), ("interfaces", "zerotier")
# Nodes by which ours is told from any other `interfaces zerotier`.
MARKS = ("instances", "transit", "remote")
WHERE = "see 'Where the add-on package refuses' in docs/vyos.md"


def is_vyos() -> bool:
    """Whether this is a VyOS with the add-on route for XML caches (1.4 and later)."""
    return (XML_REF / "update_cache.py").exists()


def _zerotier_of(cache: Path) -> dict[str, object] | None:
    """`interfaces zerotier` in the cache of a package, None where it has none or cannot be read."""
    try:
        reference = ast.literal_eval(cache.read_text().partition("=")[2].strip())
        found = reference[OURS[0]][OURS[1]]
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else {}


def comes_with_image() -> bool:
    """Whether vyos-1x itself was built with our definitions, as in our own image."""
    found = _zerotier_of(XML_REF / "pkg_cache" / "vyos_1x_cache.py")
    return found is not None and all(mark in found for mark in MARKS)


def foreign_nodes() -> str | None:
    """Who else has `interfaces zerotier`: the name of a cache or a template; None where nobody has."""
    for cache in sorted((XML_REF / "pkg_cache").glob("*_cache.py")):
        found = None if cache.name == CACHE else _zerotier_of(cache)
        if found is not None and not all(mark in found for mark in MARKS):
            return cache.name
    template = TEMPLATES["cfg"].joinpath(*OURS, "node.def")
    own = TEMPLATES["cfg"].joinpath(*OURS, "node.tag", MARKS[0], "node.def")
    return str(template) if template.exists() and not own.exists() else None


def read_tree(content: bytes) -> dict[str, object]:
    """A reference tree. Raises ValueError where it is not made as VyOS makes it since October 2024."""
    tree = json.loads(content)
    if not isinstance(tree, dict) or not all(name in child(tree, KNOWN[0]) for name in ("name", "data", "children")):
        raise ValueError("no node 'interfaces' with name, data and children")
    return tree


def child(node: dict[str, object], name: str) -> dict[str, object]:
    """The child of that name of a node of a reference tree. Raises ValueError where it has none."""
    children = node.get("children")
    for found in children if isinstance(children, list) else []:
        if isinstance(found, dict) and found.get("name") == name:
            return found
    raise ValueError(f"no node '{name}'")


def refusal() -> str | None:
    """Why the package cannot be had on this VyOS, one sentence; None where it can."""
    if not is_vyos() or comes_with_image():
        return None
    foreign = foreign_nodes()
    if foreign:
        return f"this VyOS has an 'interfaces zerotier' of another project ({foreign}), which this package cannot share; {WHERE}"
    for path in REFERENCE_TREES:
        if path.exists():
            try:
                read_tree(path.read_bytes())
            except (OSError, ValueError, RecursionError) as error:
                return f"this VyOS keeps its CLI in {path}, whose format this package does not know ({error}); {WHERE}"
    return None


if __name__ == "__main__":
    reason = refusal()
    if reason:
        print(f"zerotier-multi: {reason}", file=sys.stderr)
        sys.exit(1)
