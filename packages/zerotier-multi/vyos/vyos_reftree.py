"""Our nodes in VyOS's reference trees, which vyconfd and, since 2026, the commit daemon read.

A tree is a nest of {"name", "data", "children"} as JSON without spaces. VyOS's generator makes ours; VyOS itself can
merge trees since January 2025, but it cannot take a part out again, so both are done here: what is not ours stays as it
is, byte for byte.
"""

from __future__ import annotations

import json
from typing import Any

from vyos_box import OURS, child, read_tree


def _children(tree: dict[str, Any]) -> list[Any]:
    """What hangs below `interfaces`."""
    return child(tree, OURS[0])["children"]  # type: ignore[return-value]


def _write(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def without_ours(content: bytes) -> bytes:
    """A tree without our nodes; the very bytes where it has none. Raises ValueError."""
    tree = read_tree(content)
    nodes = _children(tree)
    kept = [node for node in nodes if node["name"] != OURS[1]]
    if len(kept) == len(nodes):
        return content
    nodes[:] = kept
    return _write(tree)


def with_ours(content: bytes, ours: bytes) -> bytes:
    """A tree with the nodes that the tree ``ours`` has below `interfaces`, in the place of earlier ones. Raises ValueError."""
    node = child(child(json.loads(ours), OURS[0]), OURS[1])
    tree = read_tree(without_ours(content))
    _children(tree).append(node)
    return _write(tree)
