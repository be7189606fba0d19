"""A configuration session: a candidate of its own over the running configuration."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path as File

from ztsh import places
from ztsh.commit import CommitFailed, Runner, owners
from ztsh.schema import Node, find, load_schema
from ztsh.text import FOOTER, TextError, parse, render, set_command
from ztsh.tree import Path, Tree, apply, commands, copy_tree, delete_path, difference, get, set_path
from ztsh.values import fits


class SessionError(ValueError):
    """A command that was refused; the text is what VyOS would print. Nothing was changed."""


def _write(path: File, text: str) -> None:
    """Whole or not at all, and on the disk when this returns. Raises :class:`SessionError`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w") as file:
            os.fchmod(file.fileno(), 0o640)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SessionError(f"{path} cannot be written ({error.strerror}); make room or mend the file system") from None


class Session:
    """Set, delete, compare, commit, save. Every refused command raises :class:`SessionError`."""

    def __init__(self, schema: Node | None = None) -> None:
        self.schema = schema or load_schema(places.definitions())
        self.running = self._active()
        self.candidate = copy_tree(self.running)

    @staticmethod
    def _active_file() -> File:
        return places.run_dir() / "active.boot"

    def _active(self) -> Tree:
        try:
            return self.read(self._active_file().read_text())
        except FileNotFoundError:
            return {}
        except PermissionError:
            raise SessionError("the configuration can be read and changed by root only; use sudo") from None

    # -- editing

    def check(self, path: Sequence[str]) -> None:
        """Whether a path may be set. Raises :class:`SessionError`."""
        found = find(self.schema, path)
        shown = " ".join(path)
        if found is None or not path:
            raise SessionError(f"  Configuration path: [{shown}] is not valid\n  Set failed")
        node = self.schema
        index = 0
        while index < len(path):
            node, index = node.children[path[index]], index + 1
            if index < len(path) and node.kind in ("tag", "leaf"):
                if not fits(node, path[index]):
                    raise SessionError(f"  {node.error or 'Invalid value'}\n  Value validation failed\n  Set failed")
                index += 1
            elif node.kind == "tag" or (node.kind == "leaf" and not node.valueless):
                raise SessionError(f"  Configuration path: [{shown}] is not valid\n  Value required\n  Set failed")

    def set(self, path: Sequence[str]) -> None:
        """Set a path in the candidate."""
        self.check(path)
        if not set_path(self.candidate, self.schema, path):
            raise SessionError(f"  Configuration path: [{' '.join(path)}] already exists\n")

    def delete(self, path: Sequence[str]) -> None:
        """Delete a path from the candidate."""
        if find(self.schema, path) is None:
            raise SessionError(f"  Configuration path: [{' '.join(path)}] is not valid\n  Delete failed")
        if not delete_path(self.candidate, self.schema, path):
            raise SessionError("  Nothing to delete (the specified node does not exist)\n  Delete failed")

    def discard(self) -> None:
        """Forget all uncommitted changes."""
        self.running = self._active()
        self.candidate = copy_tree(self.running)

    # -- texts

    def read(self, text: str, refused: list[str] | None = None) -> Tree:
        """The tree of a config.boot text.

        With ``refused``, paths that are not valid are left out and noted there; otherwise the first of them
        raises :class:`SessionError`.
        """
        try:
            paths = parse(text)
        except TextError as error:
            raise SessionError(f"the configuration cannot be read: {error}") from None
        tree: Tree = {}
        for path, line in paths:
            try:
                self.check(path)
            except SessionError as error:
                if refused is None:
                    raise SessionError(f"line {line}: {set_command(path)}\n{error}") from None
                refused.append(f"line {line}: {set_command(path)}: {str(error).split(chr(10))[0].strip()}")
                continue
            set_path(tree, self.schema, path)
        return tree

    def load(self, text: str) -> None:
        """Replace the candidate by a config.boot text."""
        self.candidate = self.read(text)

    def merge(self, text: str) -> None:
        """Add a config.boot text to the candidate."""
        self.candidate = apply(self.candidate, self.schema, [], [p for p, _line in self._checked(text)])

    def _checked(self, text: str) -> list[tuple[Path, int]]:
        self.read(text)
        return parse(text)

    def show(self, path: Sequence[str] = (), tree: Tree | None = None) -> str:
        """The candidate, or another tree, below a path, in the form of config.boot."""
        below = get(self.candidate if tree is None else tree, path)
        if below is None:
            return "Configuration under specified path is empty\n"
        if isinstance(below, list):
            return "".join(f"{path[-1]} {value}\n" for value in below) or f"{path[-1]}\n"
        node = self.schema
        for word in path:
            node = node.children.get(word, node)
        return render(below, node)

    def compare(self) -> str:
        """What a commit would change, as commands."""
        gone, added = difference(self.running, self.candidate, self.schema)
        return "".join(f"{set_command(p, verb)}\n" for verb, ps in (("delete", gone), ("set", added)) for p in ps)

    # -- carrying out

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if os.geteuid() != 0:
            raise SessionError("committing needs root; use sudo")
        directory = places.run_dir()
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "commit.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SessionError("Configuration system temporarily locked due to another commit in progress") from None
            yield

    def commit(self) -> bool:
        """Carry the candidate out; False when it differs in nothing.

        What other sessions have committed meanwhile stays. Raises :class:`SessionError` with the router as it
        was before.
        """
        with self._locked():
            active = self._active()
            if active != self.running:
                changes = difference(self.running, self.candidate, self.schema)
                self.candidate = apply(active, self.schema, *changes)
            self.running = active
            if self.candidate == active:
                return False
            self._carry_out(self.candidate)
            return True

    def _carry_out(self, tree: Tree) -> None:
        try:
            Runner(self.schema).run(self.running, tree)
        except CommitFailed as failure:
            raise SessionError(str(failure)) from failure.__cause__
        _write(self._active_file(), render(tree, self.schema))
        self.running = copy_tree(tree)

    def save(self, path: File | None = None) -> File:
        """Write the running configuration where the next boot finds it, or to a file."""
        target = path or places.boot_file()
        _write(target, render(self._active(), self.schema) + FOOTER)
        return target

    def boot(self) -> list[str]:
        """Commit the saved configuration; what cannot be carried out is left out. Returns what was left out."""
        refused: list[str] = []
        try:
            wanted = self.read(places.boot_file().read_text(), refused)
        except FileNotFoundError:
            return refused
        with self._locked():
            self.running = self._active()
            try:
                self._carry_out(wanted)
            except SessionError:
                self._one_by_one(wanted, refused)
        self.candidate = copy_tree(self.running)
        return refused

    def _one_by_one(self, wanted: Tree, refused: list[str]) -> None:
        """Carry out what has a script of its own piece by piece, so that one bad piece spares the others."""
        pieces = owners(wanted, self.schema)
        tree = copy_tree(wanted)
        for piece in pieces:
            delete_path(tree, self.schema, piece)
        for piece in pieces:
            trial = apply(tree, self.schema, [], _below(wanted, piece, self.schema))
            try:
                self._carry_out(trial)
                tree = trial
            except SessionError as error:
                refused.append(f"{' '.join(piece)}: {error}")


def _below(tree: Tree, piece: Path, schema: Node) -> Iterable[Path]:
    return [path for path in commands(tree, schema) if path[: len(piece)] == piece]


