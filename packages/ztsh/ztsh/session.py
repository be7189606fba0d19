"""A configuration session: a candidate of its own over the running configuration.

Editing happens here, with the user's rights; :mod:`ztsh.authority` commits and saves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ztsh import places
from ztsh.changes import Changes, changed, changes_between
from ztsh.check import check, check_comment, check_value, failed, invalid
from ztsh.configuration import Config, read_config, running, running_stamp, standing
from ztsh.differences import compared, marked
from ztsh.errors import AlreadySet, NothingToDelete, SessionError
from ztsh.schema import Node, find, load_schema, only
from ztsh.text import Comments, render
from ztsh.tree import Tree, apply, commands, copy_tree, delete_path, exists, get, set_path, with_defaults

EMPTY = "Configuration under specified path is empty"


class Session:
    """Set, delete, compare. Every refused command raises :class:`SessionError` and changes nothing."""

    def __init__(self, schema: Node | None = None) -> None:
        self.schema = schema or load_schema(places.definitions())
        self._stamp: object = None
        self.running = Config()
        self.candidate: Tree = {}
        self.comments: Comments = {}
        self.refresh()

    @property
    def wanted(self) -> Config:
        """The candidate with its comments."""
        return Config(self.candidate, self.comments)

    # -- the running configuration under it

    def refresh(self) -> None:
        """Take in what others have committed meanwhile; one's own changes stay on top."""
        stamp = running_stamp()
        if stamp == self._stamp:
            return
        changes = self.changes()
        self._stamp, self.running = stamp, running(self.schema)
        self._take(changed(self.running, changes, self.schema))

    def changes(self) -> Changes:
        """What a commit would change."""
        return changes_between(self.running, self.wanted, self.schema)

    def modified(self) -> bool:
        """Whether there is anything to commit."""
        return self.candidate != self.running.tree or self.comments != self.running.comments

    def _take(self, config: Config) -> None:
        self.candidate, self.comments = copy_tree(config.tree), dict(config.comments)

    def discard(self) -> bool:
        """Forget all uncommitted changes; whether there were any."""
        had = self.modified()
        self._stamp, self.running = running_stamp(), running(self.schema)
        self._take(self.running)
        return had

    # -- editing

    def set(self, path: Sequence[str]) -> None:
        """Set a path in the candidate."""
        check(self.schema, path)
        if not set_path(self.candidate, self.schema, path):
            raise AlreadySet(f"Configuration path: [{' '.join(path)}] already exists")

    def delete(self, path: Sequence[str]) -> None:
        """Delete a path from the candidate."""
        if not path:
            raise SessionError("Need to specify the config node to delete", failed("delete"))
        step = find(self.schema, path)
        if step is None:
            raise invalid(path, "delete")
        if not delete_path(self.candidate, self.schema, path):
            what = "value" if step.node.kind == "leaf" and step.is_value else "node"
            raise NothingToDelete(f"Nothing to delete (the specified {what} does not exist)")
        self._drop_comments()

    def _drop_comments(self) -> None:
        self.comments = standing(self.candidate, self.comments).comments

    def comment(self, path: Sequence[str], text: str) -> None:
        """Give a node a comment; an empty one takes it away."""
        step = find(self.schema, path)
        if step is None or not path:
            raise invalid(path, "comment")
        if not exists(self.candidate, path):
            raise SessionError("The specified config node does not exist", failed("comment"))
        if get(self.candidate, path) is None:
            raise SessionError("Cannot comment on config values", failed("comment"))
        if step.node.kind == "tag" and not step.is_value:
            raise SessionError("Cannot add comment at this level", failed("comment"))
        text = text.strip()
        check_comment(text)
        self.comments.pop(tuple(path), None)
        if text:
            self.comments[tuple(path)] = text

    def copy(self, verb: str, level: Sequence[str], source: Sequence[str], target: Sequence[str]) -> None:
        """Copy, or with ``verb`` "rename" move, a tag value below ``level``: ``["zerotier", "zt0"]`` to another."""
        if len(source) != 2 or len(target) != 2:
            raise SessionError(f"Invalid {verb} command", failed(verb))
        if source[0] != target[0]:
            raise SessionError(f'Cannot {verb} from "{source[0]}" to "{target[0]}"', failed(verb))
        old, new = (*level, *source), (*level, *target)
        step = find(self.schema, old)
        if step is None:
            raise invalid(old, verb)
        if step.node.kind != "tag":
            raise SessionError(f'Cannot {verb} under "{source[0]}"', failed(verb))
        if get(self.candidate, old) is None:
            raise SessionError(f'Configuration "{" ".join(source)}" does not exist', failed(verb))
        if get(self.candidate, new) is not None:
            raise SessionError(f'Configuration "{" ".join(target)}" already exists', failed(verb))
        check_value(step.node, target[1], verb)
        get(self.candidate, new[:-1])[target[1]] = copy_tree(get(self.candidate, old))
        moved = {(*new, *p[len(old) :]): t for p, t in self.comments.items() if p[: len(old)] == old}
        self.comments.update(moved)
        if verb == "rename":
            delete_path(self.candidate, self.schema, old)
            self._drop_comments()

    def load(self, text: str) -> None:
        """Replace the candidate by a config.boot text."""
        self._take(self.read(text))

    def merge(self, text: str) -> None:
        """Add a config.boot text to the candidate."""
        more = self.read(text)
        tree = apply(self.candidate, self.schema, [], commands(more.tree, self.schema))
        self._take(Config(tree, {**self.comments, **more.comments}))

    def read(self, text: str) -> Config:
        """The configuration of a text. Raises :class:`SessionError`."""
        return read_config(text, self.schema)

    # -- texts

    def show(self, path: Sequence[str] = (), *, defaults: bool = False) -> str:
        """The candidate below a path, each line marked by what a commit would do with it."""
        old, new = self.running, self.wanted
        if defaults:
            old, new = (Config(with_defaults(c.tree, self.schema), c.comments) for c in (old, new))
        return marked(old, new, self.schema, tuple(path)) or f"{EMPTY}\n"

    def text(self, path: Sequence[str] = ()) -> str:
        """The candidate below a path in the form of config.boot."""
        below = get(self.candidate, path)
        step = find(self.schema, path)
        if step is None or not isinstance(below, dict):
            return f"{EMPTY}\n"
        if step.node.kind == "tag" and not step.is_value:
            return render({path[-1]: below}, only(step.node), self.comments, tuple(path[:-1]))
        return render(below, step.node, self.comments, tuple(path))

    def compare(self, old: Config | None = None, new: Config | None = None, path: Sequence[str] = ()) -> str:
        """What differs, from the running configuration to the candidate unless others are given."""
        return compared(old or self.running, new or self.wanted, self.schema, tuple(path))

    def compare_commands(self, old: Config | None = None, new: Config | None = None) -> str:
        """What differs, as the commands that lead from one to the other."""
        return changes_between(old or self.running, new or self.wanted, self.schema).commands(self.schema)
