"""The saved configuration at boot: all of it that can be applied, and a report of the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path as File

from ztsh import archive, places
from ztsh.activate import activate
from ztsh.authority import Request, archive_commit
from ztsh.bootreport import BOOTING
from ztsh.configuration import Config, config_of, read_config, running, standing
from ztsh.errors import SessionError
from ztsh.lock import locked
from ztsh.schema import Node
from ztsh.scripts import owners
from ztsh.store import Replacement, StoreError, clear_unfinished, group_id, write
from ztsh.text import TextError, parse
from ztsh.tree import Path, Tree, apply, commands, copy_tree, delete_path


def boot(schema: Node) -> list[str]:
    """Apply the saved configuration without what is refused; returns what to tell about it, a sentence each."""
    if os.geteuid() != 0:
        raise SessionError("ztsh boot is for root alone; run as root: systemctl restart ztsh-boot")
    told: list[str] = []
    refused: list[str] = []
    _make_places()
    with locked():
        _report([BOOTING])
        _clear_unfinished()
        wanted, before = _saved(schema, told, refused), running(schema)
        try:
            activate(schema, before, wanted)
        except SessionError:
            _one_by_one(schema, before, wanted, refused)
        _archive_boot(schema, running(schema))
        if refused:
            told += [*refused, _keep_copy(places.boot_file())]
        _report(told)
    return told


def _report(lines: Iterable[str]) -> None:
    with suppress(StoreError):  # the unit's journal has it too
        write(places.boot_report(), "".join(f"{line}\n" for line in lines))


def _keep_copy(path: File) -> str:
    """Copy the saved configuration, of which the next save leaves only what runs; says where the copy is.

    An earlier copy may be all that is left of something else, so only one that says the same stands for it.
    """
    for number in count(1):
        kept = path.with_name(f"{path.name}.at-boot{f'.{number}' if number > 1 else ''}")
        try:
            content = path.read_bytes()
            if not kept.exists():
                Replacement(kept, content, path.stat().st_mode & 0o777).finish()
            elif kept.read_bytes() != content:
                continue
        except OSError as error:
            return f"{path} could not be copied ({error.strerror or error}); copy it before the next save replaces it"
        return f"the next save replaces {path}; as it was at boot it is kept as {kept}"
    raise AssertionError


# -- the saved configuration


def _saved(schema: Node, told: list[str], refused: list[str]) -> Config:
    """The saved configuration; where it cannot be read, the newest commit that can, and the file is kept aside."""
    path = places.boot_file()
    try:
        return config_of(parse(_not_empty(path.read_text())), schema, refused)
    except FileNotFoundError:
        return Config()
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeDecodeError as error:
        why = str(error)
    except TextError as error:
        why = error.told
    kept = path.with_name(f"{path.name}.unreadable")
    for revision in archive.revisions():
        left_out: list[str] = []
        try:
            good = revision.text()
            config = read_config(good, schema, left_out)
        except (OSError, SessionError):
            continue
        refused += left_out
        told.append(
            f"{path} cannot be read ({why}); the commit of {archive.when(revision)} was applied instead; "
            f"{_replace_boot_file(path, kept, good)}"
        )
        return config
    told.append(
        f"{path} cannot be read ({why}) and the archive has no commit, so nothing is configured; "
        f"restore the file from a backup; {_keep_copy(path)}"
    )
    return Config()


def _not_empty(text: str) -> str:
    if not text.strip():
        raise TextError("it is empty")
    return text


def _replace_boot_file(path: File, kept: File, text: str) -> str:
    """Put a good text in the place of the saved configuration; says where the bad one is now."""
    try:
        os.replace(path, kept)
        write(path, text)
    except OSError as error:
        return f"the file could not be replaced ({error.strerror or error}); save the configuration by hand"
    return f"the file is kept as {kept}"


# -- places


def _make_places() -> None:
    """Sessions of the command wrapper lie where only members of the group may look."""
    for directory, mode in ((places.run_dir(), 0o755), (places.sessions(), 0o1770)):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(mode)
        os.chown(directory, 0, group_id())


def _clear_unfinished() -> None:
    boot_file = places.boot_file()
    with suppress(OSError):  # the first save reports a disk that cannot be written
        clear_unfinished(boot_file.parent, re.escape(boot_file.name))
        clear_unfinished(places.archive(), archive.NAME.pattern)


def _archive_boot(schema: Node, config: Config) -> None:
    """Put the configuration into the archive unless it is the newest there."""
    found = archive.revisions()
    try:
        known = bool(found) and read_config(found[0].text(), schema, []) == config
    except (OSError, SessionError):
        known = False
    if not known:
        archive_commit(schema, config, Request(via="boot-config-loader"))


# -- piece by piece


def _one_by_one(schema: Node, before: Config, wanted: Config, refused: list[str]) -> None:
    """Apply what has a script of its own piece by piece, so that one bad piece spares the others."""
    pieces = owners(wanted.tree, schema)
    tree = copy_tree(wanted.tree)
    for piece in pieces:
        delete_path(tree, schema, piece)
    for piece in pieces:
        trial = apply(tree, schema, [], _below(wanted.tree, piece, schema))
        config = standing(trial, wanted.comments)
        try:
            activate(schema, before, config)
            tree, before = trial, config
        except SessionError as error:
            refused.append(f"{' '.join(piece)}: {error}")
    if not places.active_file().exists():  # all of them were; what runs is to be known all the same
        with suppress(SessionError):
            activate(schema, before, standing(tree, wanted.comments))


def _below(tree: Tree, piece: Path, schema: Node) -> Iterable[Path]:
    """Paths of a tree that lie under one of its parts."""
    return [path for path in commands(tree, schema) if path[: len(piece)] == piece]
