"""``generate zerotier archive`` and ``import zerotier archive``: homes to one encrypted file, and back on another box."""

from __future__ import annotations

import datetime
import getpass
import json
import os
import pwd
import socket
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path, PurePath
from typing import Any

from zerotier_multi import box, names, systemd
from zerotier_multi.archive import (
    LIMIT,
    SHORTEST,
    Archive,
    ArchiveProblem,
    Home,
    Homes,
    completes,
    controlled_by,
    foreign,
    is_archived,
    networks,
    pack,
    public_part,
    seal,
    unpack,
    unseal,
)
from zerotier_multi.bundle import AUTO
from zerotier_multi.commit import CommitError, NotNow, renew
from zerotier_multi.configured_identity import coming_identity
from zerotier_multi.engine_choice import RECENT, ZEROTIER_ONE, ZTNODE
from zerotier_multi.files import aside, clear_unfinished, sync, write_atomic
from zerotier_multi.homes import BEFORE, configured_files, make_home, own_identity
from zerotier_multi.importing.home import controlled
from zerotier_multi.op.actions import ends_in_order
from zerotier_multi.op.data import SCHEMA
from zerotier_multi.op.errors import NotConfigured, Unavailable, WrongValue
from zerotier_multi.op.gather import plan_of, require_root
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plan import Plan
from zerotier_multi.planet import is_our_moon, is_our_network_config, is_our_planet
from zerotier_multi.plans import published_plans
from zerotier_multi.restarts import drain
from zerotier_multi.values import shown

_MADE_AGAIN = {"planet": is_our_planet, "moons.d": is_our_moon, "networks.d": is_our_network_config}
_PASSPHRASE_LIMIT = 1024  # characters
_AGAIN, _PAUSE = 5, 0.05  # looks at a file that is being written, and the seconds between them

Say = Callable[[str], None]


def _tell(sentence: str) -> None:
    print(sentence, flush=True)


# -- out


def write_archive(path: str, bundle: str | None, passphrase_file: str | None) -> dict[str, Any]:
    """Write the homes of all bundles, or of one, to a new file (0600); what is in it, without secrets.

    Raises :class:`~zerotier_multi.op.errors.OpError` kinds, and leaves no file then.
    """
    require_root()
    target = _path(path)
    homes = _homes_on_disk(bundle)
    if target.exists() or target.is_symlink():
        raise WrongValue(f"{target} already exists and is not overwritten; name another file")
    if not target.parent.is_dir():
        raise WrongValue(f"{target} cannot be written because {target.parent} is not a directory")
    passphrase = _passphrase(passphrase_file, twice=True)
    if len(passphrase) < SHORTEST:
        raise WrongValue(f"the passphrase has {len(passphrase)} characters; use at least {SHORTEST}")
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    archive = Archive(socket.gethostname(), created, homes)
    try:
        sealed = seal(pack(archive), passphrase.encode(), os.urandom(16), os.urandom(12))
    except MemoryError:
        raise Unavailable(_MEMORY) from None
    if len(sealed) > LIMIT:
        raise Unavailable(
            f"{target} was not written because the homes are larger than {LIMIT >> 20} MiB; archive one interface at a time"
        )
    _write_new(target, sealed)
    return {"schema": SCHEMA, "file": str(target), "created": created, "identities": _identities(archive)}


_MEMORY = "128 MiB of free memory are needed to make the key out of the passphrase; try again when less is running"


def archive_text(data: Mapping[str, Any]) -> str:
    """What was written, for a person."""
    lines = []
    for i in data["identities"]:
        controller = f", the controller of {', '.join(i['controls'])}" if i["controls"] else ""
        lines.append(f"{i['bundle']}/{i['instance']} is node {i['node']}{controller}.")
    return "\n".join(
        [
            *lines,
            f"{data['file']} has these identities, encrypted. Keep it and its passphrase apart, and use them on one router at a time.",
            f"It has no configuration; keep config.boot too. On the new router: import zerotier archive {data['file']}",
        ]
    )


def _identities(archive: Archive) -> list[dict[str, Any]]:
    return [
        {"bundle": b, "instance": n, "node": archive.node((b, n)), "controls": archive.controls((b, n))}
        for b, n in sorted(archive.homes)
    ]


def _path(path: str) -> Path:
    if not path or "\0" in path or not path.isprintable():
        raise WrongValue(f"{shown(path)} is not a file name")
    return Path(os.path.abspath(path))


def _homes_on_disk(bundle: str | None) -> Homes:
    """All homes with an identity, or those of one bundle. A bundle that was deleted has its homes still."""
    found: dict[tuple[str, int], Home] = {}
    for place in sorted(names.HOME_ROOT.glob("zt*/*")):
        name, number = place.parent.name, place.name
        if names.BUNDLE_RE.fullmatch(name) and number.isascii() and number.isdecimal() and bundle in (None, name):
            home = _read_home(place)
            if home:
                found[name, int(number)] = home
    if not found:
        asked = f"interfaces zerotier {shown(bundle)} has" if bundle is not None else "this router has"
        raise NotConfigured(f"{asked} no identity in {names.HOME_ROOT} yet, so there is nothing to archive")
    return found


def _read_home(home: Path) -> Home:
    """What an archive has of a home; empty where there is no identity. Raises :class:`Unavailable`."""
    try:
        if own_identity(home) is None:
            return {}
        configured = configured_files(home)
        paths = [p for p in sorted(home.rglob("*")) if is_archived(str(p.relative_to(home))) and p.is_file() and not p.is_symlink()]
        contents = {str(p.relative_to(home)): _content(p) for p in paths}
    except ValueError:
        raise Unavailable(
            f"the identity in {home} is corrupt, so it cannot be archived; restore it from a backup, or move {home} away"
        ) from None
    except OSError as error:
        raise Unavailable(f"{error.filename} cannot be read ({error.strerror}), so nothing was archived") from None
    return {name: content for name, content in contents.items() if not _is_made_again(name, content, configured)}


def _content(path: Path) -> bytes:
    """What is in a file; zerotier-one writes those of its controller in place, so one that is not whole is read again."""
    for _ in range(_AGAIN):
        content = path.read_bytes()
        try:
            if path.suffix == ".json":
                json.loads(content)
            break
        except (ValueError, RecursionError):
            time.sleep(_PAUSE)
    return content


def _is_made_again(name: str, content: bytes, configured: Collection[str]) -> bool:
    """Whether a commit makes a file out of the configuration."""
    ours = _MADE_AGAIN.get(name.partition("/")[0])
    return bool(ours and ours(content)) or name in configured


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that did not exist, whole or not at all. It is the caller's own, where sudo says who that is."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written ({error.strerror})") from None
    with ends_in_order():
        try:
            with os.fdopen(descriptor, "wb") as file:
                with suppress(OSError, KeyError, ValueError):  # a stick with FAT knows no owners
                    user, group = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
                    if may_write(path.parent.stat(), user, os.getgrouplist(pwd.getpwuid(user).pw_name, group)):
                        os.fchown(descriptor, user, group)
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            sync(path.parent)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise Unavailable(f"{path} cannot be written ({error.strerror}); nothing is left of it") from None
            raise


def may_write(directory: os.stat_result, user: int, groups: Collection[int]) -> bool:
    """Whether a user could make files in a directory: one of his own in another one, in /etc for one, could make him root."""
    if directory.st_uid == user:
        return bool(directory.st_mode & stat.S_IWUSR)
    return bool(directory.st_mode & (stat.S_IWGRP if directory.st_gid in groups else stat.S_IWOTH))


# -- the passphrase


def _passphrase(file: str | None, twice: bool) -> str:
    """What a person types, unseen; the first line of a file, or of a standard input that is not a terminal."""
    if file is not None:
        return _first_line_of(_path(file))
    if not sys.stdin.isatty():
        return _usable(sys.stdin.readline(_PASSPHRASE_LIMIT + 1), "the standard input")
    try:
        first = getpass.getpass("Passphrase of the archive: ")
        if twice and getpass.getpass("The same again: ") != first:
            raise WrongValue("the two passphrases differ, so nothing was written")
    except (EOFError, KeyboardInterrupt):
        print()
        raise WrongValue("no passphrase was given, so nothing was changed") from None
    return _usable(first, "the terminal")


def _first_line_of(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as opened:
            return _usable(opened.readline(_PASSPHRASE_LIMIT + 1), str(path))
    except UnicodeDecodeError:
        raise WrongValue(f"{path} has no text in its first line, so it gives no passphrase") from None
    except OSError as error:
        raise WrongValue(f"{path} cannot be read ({error.strerror}), so it gives no passphrase") from None


def _usable(line: str, source: str) -> str:
    passphrase = line.rstrip("\r\n")
    if not passphrase:
        raise WrongValue(f"{source} gives no passphrase; type one, pass it on the standard input, or use passphrase-file")
    if len(passphrase) > _PASSPHRASE_LIMIT:
        raise WrongValue(f"the passphrase of {source} is longer than {_PASSPHRASE_LIMIT} characters")
    try:
        passphrase.encode()
    except UnicodeEncodeError:
        raise WrongValue(f"the passphrase of {source} is not text") from None
    return passphrase


# -- in


def read_archive(path: str, bundle: str | None, passphrase_file: str | None, replace: bool, say: Say = _tell) -> None:
    """Bring homes of an archive to this router, all of them or those of one bundle, and restart what uses them.

    Everything is checked and lies on the disk before the first file of a home is replaced. ``replace`` allows it to take
    the place of other identities, which are lost then. Raises :class:`~zerotier_multi.op.errors.OpError` kinds.
    """
    require_root()
    source = _path(path)
    content = _read(source)
    if bundle is not None and not names.BUNDLE_RE.fullmatch(bundle):
        raise WrongValue(f"{shown(bundle)} is not a bundle name, use zt0 to zt{names.MAX_BUNDLE}")
    archive = _open(source, content, _passphrase(passphrase_file, twice=False))
    homes = {place: home for place, home in archive.homes.items() if bundle in (None, place[0])}
    if not homes:
        has = ", ".join(sorted({b for b, _n in archive.homes})) or "nothing"
        raise WrongValue(f"{source} has no identity of {shown(bundle or 'any bundle')}; it has: {has}")
    plans = {plan.bundle: plan for plan in published_plans()}
    fixed = _fixed(plans.values())
    nodes = {place: _node_now(place, place in fixed) for place in sorted(homes)}
    due = [place for place, node in nodes.items() if node != archive.identity(place)]
    others = [place for place in due if nodes[place] is not None]
    if others and not replace:
        first = others[0]
        raise WrongValue(
            f"{first[0]}/{first[1]} has another identity than in {source}, so nothing was changed; to lose its own for that of the "
            f"archive, use: import zerotier archive {source} replace"
        )
    if bound := [place for place in due if place in fixed]:
        raise WrongValue(
            f"{bound[0][0]}/{bound[0][1]} has another identity from the configuration, so nothing was changed; delete "
            f"interfaces zerotier {bound[0][0]} instance {bound[0][1]} identity first"
        )
    wanted = {place: files for place, home in homes.items() if (files := _wanted(place, home, place in due))}
    for name in sorted({b for b, _n in wanted}):
        with suppress(NotConfigured):
            plan_of(name)  # one that cannot be used may be of instances that run
    if wanted:
        _put(wanted, {place: nodes[place] for place in wanted}, plans)
    for name, number in sorted(homes):
        verb = "is" if (name, number) in due else "was already"
        say(f"{name}/{number} {verb} node {archive.node((name, number))}, from router {archive.router}, {archive.created}.")
        for sentence in _of_controller(archive, (name, number), wanted.get((name, number), {}), plans.get(name)):
            say(sentence)
    for name in sorted({b for b, _n in homes} - plans.keys()):
        say(f"{name} is not configured yet; its identities are used by its first commit.")
    say("A router that has the same identities must not run any more.")


def _of_controller(archive: Archive, place: tuple[str, int], brought: Home, plan: Plan | None) -> Iterable[str]:
    """What a person should know of the networks that a node of the archive is the controller of."""
    name = f"{place[0]}/{place[1]}"
    for network in archive.controls(place):
        if network in networks(brought):
            yield f"{name} is the controller of {network} again, with the members of that time."
        else:
            yield f"{name} is the controller of {network} already and keeps its members; what the archive has of it is not used."
    engines = {PurePath(i.engine).name for i in plan.instances} if plan and not plan.controller_free else set()
    if plan and ZTNODE in engines and archive.controls(place):
        change = "commit a change of it, such as its description" if plan.engine_reason else f"set its engine to {AUTO}"
        install = "" if ZEROTIER_ONE in box.find_engines() else f"install {RECENT} and "
        yield f"{plan.bundle} runs {ZTNODE}, which has no controller; {install}{change}, so that it runs {ZEROTIER_ONE}."


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except OSError as error:
        raise WrongValue(f"{path} cannot be read ({error.strerror})") from None
    if fault := foreign(content):
        raise WrongValue(f"{path} {fault}")
    return content


def _open(path: Path, content: bytes, passphrase: str) -> Archive:
    try:
        return unpack(unseal(content, passphrase.encode()))
    except ArchiveProblem as problem:
        raise WrongValue(f"{path} {problem}") from None
    except MemoryError:
        raise Unavailable(_MEMORY) from None


def _node_now(place: tuple[str, int], fixed: bool = False) -> object:
    """The identity of a home; None where it has none. One that cannot be read is not the archive's.

    Unless the configuration has one (``fixed``), that is the one that the next commit leaves there.
    """
    try:
        return own_identity(names.home(*place)) if fixed else coming_identity(names.home(*place), None)
    except (OSError, ValueError):
        return "unreadable"


def _wanted(place: tuple[str, int], home: Home, due: bool) -> Home:
    """What of an archived home comes: nothing of networks that the controller here has, and all else with the identity."""
    here = controlled(names.home(*place))
    return {name: content for name, content in home.items() if controlled_by(name) not in here and (due or controlled_by(name))}


def _fixed(plans: Iterable[Plan]) -> set[tuple[str, int]]:
    """Instances whose identity the configuration has."""
    return {(plan.bundle, i.number) for plan in plans for i in plan.instances if i.identity}


def _put(homes: Homes, nodes: Mapping[tuple[str, int], object], plans: Mapping[str, Plan]) -> None:
    """Write all files aside, then stop what uses them, give them their names, and start it again.

    ``nodes`` is what the homes have, ``plans`` what is in force, as the caller has seen them.
    """
    seen = {bundle: plans.get(bundle) for bundle, _number in homes}
    known = [plan for plan in seen.values() if plan]
    fixed = _fixed(known)
    with ends_in_order(), ExitStack() as staged:
        try:
            ready = [pair for place, files in homes.items() for pair in _stage(names.home(*place), files, staged)]
        except OSError as error:
            raise Unavailable(f"{error.filename} cannot be written ({error.strerror}), so nothing was changed") from None

        def replace() -> None:
            if changed := [place for place, node in nodes.items() if _node_now(place, place in fixed) != node]:
                raise NotNow.overtaken(f"{changed[0][0]}/{changed[0][1]}")
            _stop(known, list(homes))
            for temporary, path in ready:
                os.replace(temporary, path)
            for place, files in homes.items():
                home = names.home(*place)
                if secret := files.get("identity.secret"):
                    public = public_part(secret)
                    write_atomic(home / "identity.public", str(public).encode(), 0o600)  # ztnode does not write it again
                    (home / BEFORE).unlink(missing_ok=True)  # of a bundle that is not configured; a commit would bring it back
                for directory in _directories(home, files):
                    sync(directory)

        try:
            renew(seen, replace)
        except NotNow as reason:
            raise Unavailable(str(reason)) from None
        except (systemd.SystemdError, CommitError, OSError) as error:
            raise Unavailable(f"not all identities of {', '.join(seen)} could be replaced: {error}; repeat the command") from None


def _stop(plans: Sequence[Plan], due: Sequence[tuple[str, int]]) -> None:
    for plan in plans:
        instances = [i for i in plan.instances if (plan.bundle, i.number) in due]
        with suppress(PathdError):  # they stop all the same; the commit's steps start the daemon
            drain(instances)
        if instances:
            systemd.stop(*(i.unit for i in instances))


def _directories(home: Path, files: Home) -> list[Path]:
    """Where in a home files are, each directory after the one that it is in."""
    return sorted({home / directory for name in files for directory in PurePath(name).parents})


def _stage(home: Path, files: Home, staged: ExitStack) -> list[tuple[Path, Path]]:
    """Write files beside those that they become; what makes a home complete comes last, the identity after all."""
    make_home(home)
    for directory in _directories(home, files):
        directory.mkdir(exist_ok=True, mode=0o700)
        clear_unfinished(directory)
    ready = []
    for name in sorted(files, key=lambda name: (completes(name), name)):
        path = home / name
        temporary = aside(path)
        staged.callback(temporary.unlink, missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            try:
                file.write(files[name])
                file.flush()
                os.fsync(descriptor)
            except OSError as error:
                error.filename = str(path)
                raise
        ready.append((temporary, path))
    return ready
