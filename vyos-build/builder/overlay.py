"""Lay the product over a vyos-1x work tree, so that VyOS's own generators make every template and cache.

    PYTHONPATH=vyos-build python3 -m builder.overlay DIRECTORY

The tree must stand at the revision of ``pins.toml`` without changes of its own. The result depends on that revision
and on this repository alone.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from builder import edits, vyos1x, worktree
from builder.errors import BuildError
from builder.pins import read_pins
from builder.places import HOUSE


@dataclass(frozen=True)
class File:
    """What a file of the overlaid tree shall be."""

    data: bytes
    executable: bool


def our_files(house: Path) -> dict[str, File]:
    """The files of this repository that go into vyos-1x, by their path there."""
    files = {}
    for folder in vyos1x.FOLDERS:
        for path in sorted((house / folder.source).glob(folder.pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                target = Path(folder.target) / path.relative_to(house / folder.source)
                files[target.as_posix()] = File(path.read_bytes(), os.access(path, os.X_OK))
    return files


def edited_files(tree: Path) -> dict[str, File]:
    """vyos-1x's own files with the edits made to what its commit has."""
    texts: dict[str, str] = {}
    for edit in vyos1x.EDITS:
        text = texts[edit.path] if edit.path in texts else worktree.content(tree, edit.path)
        texts[edit.path] = edits.apply(edit, text)
    return {path: File(text.encode(), os.access(tree / path, os.X_OK)) for path, text in texts.items()}


def lay(tree: Path, house: Path, base: str) -> list[str]:
    """Bring the overlay into ``tree``, whose commit must be ``base``; the paths that were written.

    Nothing is written unless all of it can be. A tree that carries the whole overlay already is left as it is, and
    one in which an earlier run was cut short is finished. Raises :class:`BuildError`.
    """
    worktree.check_is_root(tree)
    found = worktree.revision(tree)
    if found != base:
        raise BuildError(
            f"{tree} is at {found[:12]} but the overlay is made for {base[:12]}; "
            f"check out that revision, or change the pin of vyos-1x in vyos-build/pins.toml"
        )
    ours = our_files(house)
    taken = sorted(set(ours) & worktree.committed(tree))
    if taken:
        raise BuildError(f"vyos-1x has a {taken[0]} of its own; rename ours, or remove it from the overlay")
    wanted = ours | edited_files(tree)
    missing = {path: file for path, file in wanted.items() if not _stands(tree / path, file)}
    foreign = sorted(path for path in worktree.changes(tree) if path in missing or path not in wanted)
    if foreign:
        more = f" and {len(foreign) - 1} more" if foreign[1:] else ""
        raise BuildError(f"{tree} has changes of its own ({foreign[0]}{more}); give a clean work tree")
    for path, file in missing.items():
        _write(tree / path, file)
    return sorted(missing)


def _stands(path: Path, file: File) -> bool:
    try:
        return path.read_bytes() == file.data and os.access(path, os.X_OK) == file.executable
    except OSError:
        return False


def _write(path: Path, file: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_bytes(file.data)
        fresh.chmod(0o755 if file.executable else 0o644)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """The program; 0 when the tree carries the overlay afterwards."""
    parser = argparse.ArgumentParser(prog="builder.overlay", description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=Path, help="vyos-1x work tree")
    tree: Path = parser.parse_args(arguments).tree
    try:
        base = read_pins().vyos_1x
        written = lay(tree, HOUSE, base)
    except (BuildError, OSError) as error:
        print(f"overlay: {error}", file=sys.stderr)
        return 1
    if not written:
        print(f"{tree} already has the overlay; nothing was changed")
        return 0
    for edit in vyos1x.EDITS:
        print(f"  {edit.path}: {edit.reason}")
    print(f"{len(written)} files added to vyos-1x {base[:12]} in {tree}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
