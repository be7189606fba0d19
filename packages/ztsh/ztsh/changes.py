"""What leads from one configuration to another, and the form in which it travels to root."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ztsh.configuration import Config, standing
from ztsh.schema import Node
from ztsh.text import Comments, comment_command, set_command
from ztsh.tree import Path, apply, difference, get


@dataclass
class Changes:
    """Paths to delete, then to set, and comments ("" takes one away)."""

    gone: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    comments: Comments = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.gone or self.added or self.comments)

    def commands(self, schema: Node) -> str:
        """The commands that make the changes, a line each."""
        lines = [set_command(path, schema, "delete") for path in self.gone]
        lines += [set_command(path, schema) for path in self.added]
        lines += [comment_command(path, text) for path, text in self.comments.items()]
        return "".join(f"{line}\n" for line in lines)

    def plain(self) -> dict[str, Any]:
        """In the form that travels as JSON."""
        return {
            "gone": [list(path) for path in self.gone],
            "added": [list(path) for path in self.added],
            "comments": [[list(path), text] for path, text in self.comments.items()],
        }


def changes_from(data: dict[str, Any]) -> Changes:
    """Changes as they arrive. Raises ValueError, KeyError or TypeError for anything else."""
    comments = {_path(path): str(text) for path, text in data["comments"]}
    return Changes([_path(p) for p in data["gone"]], [_path(p) for p in data["added"]], comments)


def _path(words: Any) -> Path:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("a path is a list of words")
    return tuple(words)


def changed(base: Config, changes: Changes, schema: Node) -> Config:
    """A configuration after changes; comments of nodes that are gone go too."""
    return standing(apply(base.tree, schema, changes.gone, changes.added), {**base.comments, **changes.comments})


def changes_between(old: Config, new: Config, schema: Node) -> Changes:
    """The way from one configuration to another."""
    gone, added = difference(old.tree, new.tree, schema)
    comments = {path: "" for path in old.comments if path not in new.comments and get(new.tree, path) is not None}
    comments |= {path: text for path, text in new.comments.items() if old.comments.get(path) != text}
    return Changes(gone, added, comments)
