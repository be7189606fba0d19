"""A configuration session: a candidate of its own over the running configuration.

Editing happens here, as whoever runs it; carrying out and saving is :mod:`ztsh.authority`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ztsh import places
from ztsh.differences import Config, compared, marked
from ztsh.schema import Node, find, load_schema, locate
from ztsh.text import Comments, TextError, comment_command, parse, render, set_command, set_commands
from ztsh.tree import Path, Tree, apply, commands, copy_tree, delete_path, difference, exists, get, set_path, with_defaults
from ztsh.values import fits

EMPTY = "Configuration under specified path is empty"


class SessionError(ValueError):
    """A command that was refused; the text is what VyOS would print. Nothing was changed."""


class AlreadySet(SessionError):
    """A path that is set as it stands; VyOS tells it and goes on."""


class NothingToDelete(SessionError):
    """A path that does not stand; VyOS tells it and goes on."""


@dataclass
class Changes:
    """What a session would change: paths to delete, then to set, and comments ("" takes one away)."""

    gone: list[Path] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    comments: Comments = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.gone or self.added or self.comments)


def read_config(text: str, schema: Node, refused: list[str] | None = None) -> Config:
    """The configuration that a config.boot text describes.

    With ``refused``, paths that are not valid are left out and noted there; otherwise the first of them
    raises :class:`SessionError`.
    """
    try:
        parsed = parse(text)
    except TextError as error:
        raise SessionError(f"the configuration cannot be read: {error}") from None
    tree: Tree = {}
    for path, line, _valued in parsed.paths:
        try:
            check(schema, path)
        except SessionError as error:
            if refused is None:
                raise SessionError(f"line {line}: {set_command(path, schema)}\n{error}") from None
            refused.append(f"line {line}: {set_command(path, schema)}: {str(error).splitlines()[0]}")
            continue
        set_path(tree, schema, path)
    return Config(tree, {path: text for path, text in parsed.comments.items() if get(tree, path) is not None})


def active(schema: Node) -> Config:
    """The running configuration; without its secrets for a user who may not configure."""
    try:
        try:
            return read_config(places.active_file().read_text(), schema)
        except PermissionError:
            return read_config(places.public_file().read_text(), schema, [])
    except FileNotFoundError:
        return Config()


def check(schema: Node, path: Sequence[str]) -> None:
    """Whether a path may be set. Raises :class:`SessionError`."""
    shown = " ".join(path)
    if not path or find(schema, path) is None:
        raise SessionError(f"Configuration path: [{shown}] is not valid\nSet failed")
    node, index = schema, 0
    while index < len(path):
        node, index = node.children[path[index]], index + 1
        if index < len(path) and node.kind in ("tag", "leaf"):
            if not fits(node, path[index]):
                raise SessionError(f"{node.error or 'Invalid value'}\nValue validation failed\nSet failed")
            index += 1
        elif node.kind == "tag" or (node.kind == "leaf" and not node.valueless):
            raise SessionError(f"Configuration path: [{shown}] requires a value\nSet failed")


def check_comment(text: str) -> None:
    """Whether a text may be a comment. Raises :class:`SessionError`."""
    if "*" in text:
        raise SessionError("Cannot use the '*' character in a comment\nComment failed")
    if not text.isprintable():
        raise SessionError("A comment is one line of printable characters\nComment failed")


def changed(base: Config, changes: Changes, schema: Node) -> Config:
    """A configuration after changes. Comments of what no longer stands go with it."""
    tree = apply(base.tree, schema, changes.gone, changes.added)
    comments = {**base.comments, **changes.comments}
    return Config(tree, {path: text for path, text in comments.items() if text and get(tree, path) is not None})


def changes_between(old: Config, new: Config, schema: Node) -> Changes:
    """The way from one configuration to another."""
    gone, added = difference(old.tree, new.tree, schema)
    comments = {path: "" for path in old.comments if path not in new.comments and get(new.tree, path) is not None}
    comments |= {path: text for path, text in new.comments.items() if old.comments.get(path) != text}
    return Changes(gone, added, comments)


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

    @staticmethod
    def _look() -> object:
        try:
            status = places.active_file().stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino

    def refresh(self) -> None:
        """Take in what others have committed meanwhile; one's own changes stay on top."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        changes = self.changes()
        self._stamp, self.running = stamp, active(self.schema)
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
        self._stamp, self.running = self._look(), active(self.schema)
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
            raise SessionError("Need to specify the config node to delete")
        found = find(self.schema, path)
        if found is None:
            raise SessionError(f"Configuration path: [{' '.join(path)}] is not valid\nDelete failed")
        if not delete_path(self.candidate, self.schema, path):
            what = "value" if found[0].kind == "leaf" and path[-1] != found[0].name else "node"
            raise NothingToDelete(f"Nothing to delete (the specified {what} does not exist)")
        self._drop_comments()

    def _drop_comments(self) -> None:
        self.comments = {path: text for path, text in self.comments.items() if get(self.candidate, path) is not None}

    def comment(self, path: Sequence[str], text: str) -> None:
        """Give a node a comment; an empty one takes it away."""
        found = find(self.schema, path)
        if found is None or not path:
            raise SessionError(f"Configuration path: [{' '.join(path)}] is not valid\nComment failed")
        if not exists(self.candidate, path):
            raise SessionError("The specified config node does not exist\nComment failed")
        if get(self.candidate, path) is None:
            raise SessionError("Cannot comment on config values\nComment failed")
        node, is_value = locate(self.schema, path)
        if node.kind == "tag" and not is_value:
            raise SessionError("Cannot add comment at this level\nComment failed")
        text = text.strip()
        check_comment(text)
        self.comments.pop(tuple(path), None)
        if text:
            self.comments[tuple(path)] = text

    def copy(self, verb: str, level: Sequence[str], source: Sequence[str], target: Sequence[str]) -> None:
        """Copy, or with ``verb`` "rename" move, a tag value below ``level``: ``["zerotier", "zt0"]`` to another."""
        if len(source) != 2 or len(target) != 2:
            raise SessionError(f"Invalid {verb} command\n{verb.title()} failed")
        if source[0] != target[0]:
            raise SessionError(f'Cannot {verb} from "{source[0]}" to "{target[0]}"\n{verb.title()} failed')
        old, new = (*level, *source), (*level, *target)
        found = find(self.schema, old)
        if found is None:
            raise SessionError(f"Configuration path: [{' '.join(old)}] is not valid\n{verb.title()} failed")
        if found[0].kind != "tag":
            raise SessionError(f'Cannot {verb} under "{source[0]}"\n{verb.title()} failed')
        if get(self.candidate, old) is None:
            raise SessionError(f'Configuration "{" ".join(source)}" does not exist\n{verb.title()} failed')
        if get(self.candidate, new) is not None:
            raise SessionError(f'Configuration "{" ".join(target)}" already exists\n{verb.title()} failed')
        if not fits(found[0], target[1]):
            raise SessionError(f"{found[0].error or 'Invalid value'}\nValue validation failed\n{verb.title()} failed")
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
        return self._plain(self.wanted, path)

    def running_text(self, path: Sequence[str] = ()) -> str:
        """The running configuration below a path in the form of config.boot."""
        return self._plain(self.running, path)

    def _plain(self, config: Config, path: Sequence[str]) -> str:
        below = get(config.tree, path)
        if not isinstance(below, dict):
            return f"{EMPTY}\n"
        node, is_value = locate(self.schema, path)
        if node.kind == "tag" and not is_value:
            below, path = {path[-1]: below}, path[:-1]
            node = locate(self.schema, path)[0]
        return render(below, node, config.comments, tuple(path))

    def running_commands(self) -> str:
        """The running configuration as set commands."""
        return set_commands(self.running.tree, self.schema, self.running.comments)

    def compare(self, old: Config | None = None, new: Config | None = None, path: Sequence[str] = ()) -> str:
        """What differs, from the running configuration to the candidate unless others are given."""
        return compared(old or self.running, new or self.wanted, self.schema, tuple(path))

    def compare_commands(self, old: Config | None = None, new: Config | None = None) -> str:
        """What differs, as the commands that lead from one to the other."""
        changes = changes_between(old or self.running, new or self.wanted, self.schema)
        lines = [set_command(path, self.schema, "delete") for path in changes.gone]
        lines += [set_command(path, self.schema) for path in changes.added]
        lines += [comment_command(path, text) for path, text in changes.comments.items()]
        return "".join(f"{line}\n" for line in lines)


def below(tree: Tree, piece: Path, schema: Node) -> Iterable[Path]:
    """Paths of a tree that lie under one of its parts."""
    return [path for path in commands(tree, schema) if path[: len(piece)] == piece]
