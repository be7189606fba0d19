"""What git knows of a work tree: its revision, what stands in it there, and what has been changed since."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from builder.errors import BuildError


def _git(tree: Path, *arguments: str) -> bytes:
    try:
        # The tree may be somebody else's than the one who builds; nothing that its configuration names is run.
        safe = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false"]
        return subprocess.run(["git", *safe, "-C", str(tree), *arguments], capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise BuildError("git is missing; install it with: apt install git") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise BuildError(f"{tree} cannot be read by git ({said[0] if said else error}); give a git work tree") from None


def check_is_root(tree: Path) -> None:
    """Refuse what is not the top of a git work tree, so that a folder inside another one is not taken for it."""
    top = Path(_git(tree, "rev-parse", "--show-toplevel").decode().strip())
    if top.resolve() != tree.resolve():
        raise BuildError(f"{tree} lies inside the git work tree {top}; give the top of a vyos-1x work tree")


def revision(tree: Path) -> str:
    """The commit that is checked out, 40 hex digits."""
    return _git(tree, "rev-parse", "HEAD").decode().strip()


def described(tree: Path) -> str:
    """The commit that is checked out, marked where the tree differs from it."""
    return revision(tree) + ("-dirty" if changes(tree) else "")


def changes(tree: Path) -> set[str]:
    """Paths that differ from the commit or are not in it; what the tree's own .gitignore names does not count."""
    listed = _git(tree, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    return {entry[3:] for entry in listed.decode().split("\0") if entry}


def fingerprint(tree: Path) -> str:
    """A hash of the commit and of all that differs from it, of untracked files too; nothing is written."""
    digest = hashlib.sha256(revision(tree).encode())
    digest.update(_git(tree, "diff", "--binary", "--no-ext-diff", "--no-textconv", "--submodule=diff", "HEAD"))
    for name in sorted(_git(tree, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")):
        path = tree / os.fsdecode(name)
        if path.is_file() or path.is_symlink():
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            digest.update(b"\0".join((name, b"%o" % path.lstat().st_mode, hashlib.sha256(content).digest())))
    return digest.hexdigest()


def remove_ignored(tree: Path) -> None:
    """Delete what .gitignore names and no commit has, such as the outcome of earlier builds."""
    _git(tree, "clean", "-ffdXq")


def committed(tree: Path) -> set[str]:
    """All paths of the commit."""
    return set(_git(tree, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")) - {""}


def content(tree: Path, path: str) -> str:
    """Text of a file as the commit has it."""
    return _git(tree, "show", f"HEAD:{path}").decode()
