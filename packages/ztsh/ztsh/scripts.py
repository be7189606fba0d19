"""Conf scripts: which of them a commit runs, in which order, and how it undoes them when one fails.

VyOS's convention (vyos-configd, vyos-commitd): a script is imported, and ``get_config``, ``verify``,
``generate`` and ``apply`` are called in this order.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from vyos import ConfigError
from ztsh import places
from ztsh.errors import CommitFailed, SessionError
from ztsh.proposal import Proposal, proposing
from ztsh.schema import Node
from ztsh.tree import Path, Tree, get, natural

DEFAULT_PRIORITY = 900  # of a node with an owner but without a priority


@dataclass(frozen=True)
class Task:
    """A conf script to run for one node, or for one value of a tag node."""

    priority: int
    path: Path
    tag: str | None
    script: str
    deletes: bool


def tasks(old: Tree, new: Tree, schema: Node, interrupted: Sequence[Tree] = ()) -> list[Task]:
    """The scripts to run: deletions first and against the order of priorities, then the rest in their order.

    What ``interrupted`` commits were to change may be in either state, so their scripts run too.
    """
    found = list(dict.fromkeys(task for before in (old, *interrupted) for task in _changed(before, new, schema, ())))
    gone = sorted((t for t in found if t.deletes), key=lambda t: (-t.priority, natural(t.path[-1])))
    return gone + sorted((t for t in found if not t.deletes), key=lambda t: (t.priority, natural(t.path[-1])))


def _changed(old: Tree, new: Tree, node: Node, path: Path) -> Iterator[Task]:
    for name, child in node.children.items():
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        here = (*path, name)
        if child.kind == "tag":
            for tag in sorted({**(before or {}), **(after or {})}, key=natural):
                was, now = (before or {}).get(tag), (after or {}).get(tag)
                if was != now:
                    yield from _task(child, (*here, tag), tag, now is None)
                    yield from _changed(was or {}, now or {}, child, (*here, tag))
        else:
            yield from _task(child, here, None, after is None)
            if child.kind == "node":
                yield from _changed(before or {}, after or {}, child, here)


def _task(node: Node, path: Path, tag: str | None, deletes: bool) -> Iterator[Task]:
    if node.owner:
        script = node.owner.split()[0].rsplit("/", 1)[-1]
        yield Task(node.priority or DEFAULT_PRIORITY, path, tag, script, deletes)


_modules: dict[str, ModuleType] = {}


def _load(script: str) -> ModuleType:
    if script not in _modules:
        path = places.conf_scripts() / script
        spec = importlib.util.spec_from_file_location(f"conf_mode_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise SessionError(f"conf script {path} is missing; install the package that owns it", "", "Commit failed")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise SessionError(f"conf script {path} cannot be loaded ({error})", "", "Commit failed") from error
        _modules[script] = module
    return _modules[script]


class Runner:
    """Runs scripts between two configurations."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema

    def run(self, old: Tree, new: Tree, interrupted: Sequence[Tree] = ()) -> None:
        """Bring the router from ``old`` to ``new``, also where interrupted commits have left it in another state.

        All scripts verify before the first one changes anything. When one fails later or is interrupted, those that
        have run are run again with the old configuration. Raises :class:`SessionError`.
        """
        with proposing(Proposal(self._schema, old, new)):
            checked = self._verified(old, new, interrupted)
            done: list[Task] = []
            for task, module, config in checked:
                done.append(task)
                try:
                    _step(task, lambda m=module, c=config: (m.generate(c), m.apply(c)))
                except BaseException:
                    self._undo(done, old, new)
                    raise

    def verify(self, old: Tree, new: Tree, interrupted: Sequence[Tree] = ()) -> None:
        """Have all scripts verify what :meth:`run` would apply. Raises :class:`SessionError`."""
        with proposing(Proposal(self._schema, old, new)):
            self._verified(old, new, interrupted)

    def _verified(self, old: Tree, new: Tree, interrupted: Sequence[Tree]) -> list[tuple[Task, ModuleType, object]]:
        work = [(task, _load(task.script)) for task in tasks(old, new, self._schema, interrupted)]
        return [(task, module, self._prepare(task, module)) for task, module in work]

    def _prepare(self, task: Task, module: ModuleType) -> object:
        def step() -> object:
            config = module.get_config()
            module.verify(config)
            return config

        return _step(task, step)

    def _undo(self, done: Sequence[Task], old: Tree, new: Tree) -> None:
        """Run the scripts that have run again with the old configuration, the last one first."""
        with proposing(Proposal(self._schema, new, old)):
            for task in reversed(done):
                try:
                    module = _load(task.script)
                    config = self._prepare(task, module)
                    _step(task, lambda m=module, c=config: (m.generate(c), m.apply(c)))
                except SessionError as failure:
                    print(f"Warning: the earlier state could not be restored:\n{failure}", file=sys.stderr)


def _step(task: Task, call: Callable[[], object]) -> object:
    """Call into a script for one task; what it raises becomes the refusal that VyOS prints."""
    if task.tag is None:
        os.environ.pop("VYOS_TAGNODE_VALUE", None)
    else:
        os.environ["VYOS_TAGNODE_VALUE"] = task.tag
    where = " ".join(task.path)
    try:
        return call()
    except ConfigError as error:
        raise CommitFailed(where, str(error)) from None
    except Exception as error:
        text = f"{task.script} failed unexpectedly: {type(error).__name__}: {error}"
        raise CommitFailed(where, text) from error
    finally:
        os.environ.pop("VYOS_TAGNODE_VALUE", None)


def owners(tree: Tree, schema: Node) -> list[Path]:
    """Paths of a configuration that have a script of their own, in the order in which they run."""
    return [task.path for task in tasks({}, tree, schema) if get(tree, task.path) is not None]
