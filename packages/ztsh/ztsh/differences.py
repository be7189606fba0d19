"""Two configurations side by side, in the two forms that VyOS has: marked lines of ``show``, and ``compare``."""

from __future__ import annotations

from collections.abc import Iterator

from ztsh.configuration import Config
from ztsh.schema import Node, find, only
from ztsh.text import Comments, render
from ztsh.tree import Path, get, natural

# What `show` puts into quotes.
_SPECIAL = set("*}{;\t\n\v\f\r ")


# -- show: everything, with +, - or > before what a commit would add, take away or change


def marked(old: Config, new: Config, schema: Node, path: Path) -> str:
    """All that is below a path in either configuration; ``path`` leads to a node, a tag node or a tag value.

    A leaf is shown by its own line. Empty when nothing is there.
    """
    before, after = get(old.tree, path), get(new.tree, path)
    step = find(schema, path)
    if step is None or (before is None and after is None):  # as for a path that ends in the value of a leaf
        return ""
    _word, node, is_value = step
    show = _Marked(old.comments, new.comments)
    if node.kind == "leaf":
        lines = show.leaf(path[-1], node, before, after, path, "")
    elif node.kind == "tag" and not is_value:
        lines = show.tags(path[-1], node, before, after, path, "")
    else:
        lines = show.children(node, before, after, path, "")
    return "".join(f"{line}\n" for line in lines)


def _mark(before: object, after: object) -> str:
    return "+" if before is None else "-" if after is None else " "


def shown(value: str) -> str:
    """A value as ``show`` has it: in quotes only where it needs them."""
    return f'"{value}"' if not value or set(value) & _SPECIAL else value


class _Marked:
    def __init__(self, old: Comments, new: Comments) -> None:
        self._old, self._new = old, new

    def children(self, node: Node, before: object, after: object, path: Path, pad: str) -> Iterator[str]:
        old, new = (part if isinstance(part, dict) else {} for part in (before, after))
        for name in sorted({*old, *new}, key=natural):
            child, here = node.child(name), (*path, name)
            if child is None:
                continue
            was, now = old.get(name), new.get(name)
            if child.kind == "leaf":
                yield from self.leaf(name, child, was, now, here, pad)
            elif child.kind == "tag":
                yield from self.tags(name, child, was, now, here, pad)
            else:
                yield from self._block(name, child, was, now, here, pad)

    def tags(self, name: str, node: Node, before: object, after: object, path: Path, pad: str) -> Iterator[str]:
        old, new = (part if isinstance(part, dict) else {} for part in (before, after))
        for tag in sorted({*old, *new}, key=natural):
            title = f"{name} {shown(tag)}"
            yield from self._block(title, node, old.get(tag), new.get(tag), (*path, tag), pad)

    def _block(self, title: str, node: Node, before: object, after: object, path: Path, pad: str) -> Iterator[str]:
        mark = _mark(before, after)
        yield from self._comment(path, pad, before, after)
        yield f"{mark}{pad}{title} {{"
        yield from self.children(node, before, after, path, pad + "    ")
        yield f"{mark}{pad}}}"

    def leaf(self, name: str, node: Node, before: object, after: object, path: Path, pad: str) -> Iterator[str]:
        old, new = (part if isinstance(part, list) else None for part in (before, after))
        yield from self._comment(path, pad, before, after)
        if node.valueless:
            yield f"{_mark(old, new)}{pad}{name}"
        elif not node.multi:
            value = (new or old or [""])[0]
            mark = ">" if old and new and old != new else _mark(old, new)
            yield f"{mark}{pad}{name} {shown(value)}"
        else:
            yield from (f"-{pad}{name} {shown(v)}" for v in old or [] if v not in (new or []))
            for index, value in enumerate(new or []):
                mark = "+" if value not in (old or []) else " " if index < len(old or []) and (old or [])[index] == value else ">"
                yield f"{mark}{pad}{name} {shown(value)}"

    def _comment(self, path: Path, pad: str, before: object, after: object) -> Iterator[str]:
        old = self._old.get(path) if before is not None else None
        new = self._new.get(path) if after is not None else None
        if new or old:
            yield f"{'>' if old and new and old != new else _mark(old, new)}{pad}/* {new or old} */"


# -- compare: only what differs, under its path


def compared(old: Config, new: Config, schema: Node, path: Path = ()) -> str:
    """The differences below a path in the form of VyOS's ``compare``; empty when there are none."""
    lines: list[str] = []
    where: Path | None = None
    for at, mark, text in _changes(old, new, schema, ()):
        if at[: len(path)] != path[: len(at)]:
            continue
        if at != where:
            lines.append(f"[{' '.join(at)}]")
            where = at
        lines += [f"{mark} {line}" for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines)


def _changes(old: Config, new: Config, node: Node, path: Path) -> Iterator[tuple[Path, str, str]]:
    """(path of the parent, mark, text) for everything that differs."""
    was, now = (part if isinstance(part, dict) else {} for part in (get(old.tree, path), get(new.tree, path)))
    for name in sorted({*was, *now}, key=natural):
        child, here = node.child(name), (*path, name)
        if child is None:
            continue
        if child.kind == "leaf":
            yield from _leaf_changes(name, child, was.get(name), now.get(name), path)
        elif child.kind == "tag" and name in was and name in now:
            yield from _tag_changes(old, new, child, here)
        elif name in was and name in now:
            yield from _changes(old, new, child, here)
        else:
            mark, config = ("+", new) if name in now else ("-", old)
            below = {name: get(config.tree, here)}
            yield path, mark, render(below, only(child), config.comments, path)
        before, after = old.comments.get(here), new.comments.get(here)
        if name in was and name in now and before != after:
            yield from ((path, mark, f"/* {text} */ {name}") for mark, text in (("-", before), ("+", after)) if text)


def _tag_changes(old: Config, new: Config, node: Node, path: Path) -> Iterator[tuple[Path, str, str]]:
    was, now = get(old.tree, path), get(new.tree, path)
    assert isinstance(was, dict) and isinstance(now, dict)
    for tag in sorted({*was, *now}, key=natural):
        here = (*path, tag)
        if tag in was and tag in now:
            yield from _changes(old, new, node, here)
            before, after = old.comments.get(here), new.comments.get(here)
            if before != after:
                yield from ((path, mark, f"/* {text} */ {tag}") for mark, text in (("-", before), ("+", after)) if text)
            continue
        mark, config = ("+", new) if tag in now else ("-", old)
        below = get(config.tree, here)
        assert isinstance(below, dict)
        inner = render(below, node, config.comments, here)
        block = "".join(f"    {line}\n" for line in inner.splitlines())
        yield path, mark, f"{tag} {{\n{block}}}"


def _leaf_changes(
    name: str, node: Node, was: list[str] | None, now: list[str] | None, path: Path
) -> Iterator[tuple[Path, str, str]]:
    if was == now:
        return
    gone = [v for v in was or [] if v not in (now or [])]
    came = [v for v in now or [] if v not in (was or [])]
    if not gone and not came and was is not None and now is not None:
        gone, came = was, now  # the same values in another order
    for mark, there, values in (("-", was, gone), ("+", now, came)):
        if node.valueless:
            if there is not None:
                yield path, mark, name
        elif values:
            yield path, mark, render({name: values}, only(node))
