"""Homes of zerotier-one: ``/var/lib/zerotier-one``, or a directory that holds several."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from zerotier_multi import world
from zerotier_multi.importing.process import ImportProblem, Process, of_local_conf, port_of
from zerotier_multi.planet import is_our_planet

MOST = 1 << 20  # bytes of a file
TOOK = (
    "network {network} took addresses and routes from its controller; set address, transit and remote instead, "
    "or network {network} allow-managed"
)
_NETWORK = re.compile(r"([0-9a-f]{16})\.conf")
_CONTROLLED = re.compile(r"[0-9a-f]{16}\.json")
_DEEP = 16  # levels of a file that somebody means; its own have six
_PARTS = ("identity.public", "identity.secret", "local.conf", "networks.d", "zerotier-one.port")


def is_home(path: Path) -> bool:
    """Whether a directory is a home."""
    return any((path / part).exists() for part in _PARTS)


def read_homes(path: Path) -> list[Process]:
    """The home that ``path`` is, or those below it, in the order of their names. Raises :class:`ImportProblem`."""
    found = [path] if is_home(path) else sorted((one for one in path.iterdir() if one.is_dir() and is_home(one)), key=_natural)
    if not found:
        raise ImportProblem(f"{path} is not a home of zerotier-one and has none below; give the directory that has identity.secret")
    return [read_home(one) for one in found]


def _natural(path: Path) -> tuple[str, int]:
    match = re.fullmatch(r"(.*?)(\d*)", path.name)
    assert match is not None, "the pattern fits any name"
    return match[1], int(match[2] or 0)


def read_home(path: Path) -> Process:
    """What the files of a home say. Raises :class:`ImportProblem`."""
    networks = sorted(match[1] for file in _listed(path / "networks.d") if (match := _NETWORK.fullmatch(file.name)))
    remarks = [line for network in networks for line in _allowed(network, _text(path / "networks.d" / f"{network}.local.conf"))]
    worlds = [f"moon {text}" for file in _listed(path / "moons.d") if (text := _moon(file))]
    planet = _bytes(path / "planet")
    if planet and not world.is_public(planet) and not is_our_planet(planet):
        try:
            world.check(planet)
            worlds.append(f"planet {base64.b64encode(planet).decode()}")
        except ValueError as error:
            remarks.append(f"{path}/planet is not taken over, because it is no planet ({error})")
    own = controlled(path)
    if own:
        remarks.append(
            f"{path} has the controller of {', '.join(own)}, and no instance here is one: leave that zerotier-one running with its "
            "identity, and let this router have a new node (and another port, where both run here)"
        )
    home = None if own else str(path)
    made = of_local_conf(read_json(path / "local.conf"), path.name, networks=tuple(networks), home=home)
    port = made.port or _port(path)
    return replace(made, port=port, settings=(*made.settings, *worlds), remarks=(*made.remarks, *remarks))


def _allowed(network: str, text: str) -> Iterable[str]:
    """What a controller may set, by a ``NWID.local.conf``; without a word, or a file, addresses and routes."""
    given = dict(line.strip().partition("=")[::2] for line in text.splitlines())
    if given.get("allowManaged", "1") != "0":  # a list of what is allowed, for one
        yield TOOK.format(network=network)
    for key, word in (("allowGlobal", "allow-global"), ("allowDefault", "allow-default"), ("allowDNS", "allow-dns")):
        if given.get(key, "0") == "1":
            yield f"{key} of {network} is not taken over; if its controller is to do that again, set network {network} {word}"


def controlled(path: Path, node: str = "") -> list[str]:
    """The networks whose controller has this home; those that ``node`` answers for have its address in front."""
    found = (file.name for file in _listed(path / "controller.d" / "network") if _CONTROLLED.fullmatch(file.name))
    return [name.removesuffix(".json") for name in found if name.startswith(node)]


def _moon(file: Path) -> str | None:
    """A moon as text for the configuration; None for any other file. Raises :class:`ImportProblem`."""
    data = _bytes(file)
    try:
        world.check(data, world.MOON)
    except ValueError:
        return None
    return base64.b64encode(data).decode()


def _bytes(file: Path) -> bytes:
    """What is in the file of a world; empty where there is none. Raises :class:`ImportProblem`."""
    try:
        with file.open("rb") as opened:
            return opened.read(world.MAX_SIZE + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ImportProblem(f"{file} cannot be read ({error.strerror})") from None


def _port(path: Path) -> int | None:
    return port_of(_text(path / "zerotier-one.port").strip())


def _listed(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []


def _text(path: Path) -> str:
    """A file's text; empty where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(MOST).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ImportProblem(f"{path} cannot be read ({error.strerror})") from None


def read_json(path: Path) -> dict[str, object]:
    """A JSON object; empty where there is no file. Raises :class:`ImportProblem`."""
    text = _text(path)
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        raise ImportProblem(f"{path} is not JSON, so zerotier-one ignores it too; correct or remove it") from None
    if not isinstance(read, dict):
        raise ImportProblem(f"{path} is not a JSON object; correct or remove it")
    level: list[object] = [read]
    for _ in range(_DEEP):
        level = [below for one in level for below in _below(one)]
    if level:
        raise ImportProblem(f"{path} is nested more than {_DEEP} levels deep, which no local.conf is; correct or remove it")
    return read


def _below(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
