"""From a fleet, as ``sites.yml`` has it, to the lines of each router's configuration; pure, and all that the role decides.

Every site has a path to every other one over each instance. A site is known to the others by the identities that its
router reports, and looked for where ``underlay`` says; a site without ``underlay`` finds the others.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Path = tuple[str, ...]
Fleet = Mapping[str, Any]
# Answers of `show zerotier ztN identity` with --raw by site; a site whose router was not asked has none.
Identities = Mapping[str, Mapping[str, Any]]

MAX_SITES = 32  # a controller-free bundle has up to 31 remotes
MAX_INSTANCES = 32
_DEFAULTS = {"bundle": "zt0", "instances": 1, "subnet_length": [26, 122], "primary_port": 9993, "settings": []}
_FLEET = {"network_id", "transit", "sites", *_DEFAULTS}
_SITE = {"name", "number", "underlay", "addresses", "prefixes", "instances", "primary_port", "settings"}


class FleetError(ValueError):
    """Something in sites.yml that cannot be; the text is one sentence."""


# -- what sites.yml says


def fleet_of(given: Fleet) -> dict[str, Any]:
    """The fleet with its defaults. Raises :class:`FleetError` for what cannot be."""
    _known("the fleet", given, _FLEET)
    fleet = {**_DEFAULTS, **given}
    for key in ("network_id", "transit", "sites"):
        if not fleet.get(key):
            raise FleetError(f"the fleet has no {key}")
    if isinstance(fleet["network_id"], int):
        raise FleetError("network_id needs quotes in YAML, or it is read as a number")
    fleet["sites"] = [_site(site, fleet) for site in fleet["sites"]]
    for key in ("name", "number"):
        values = [site[key] for site in fleet["sites"]]
        if twice := sorted({str(value) for value in values if values.count(value) > 1}):
            raise FleetError(f"the {key} {twice[0]} is that of two sites; give each site its own")
    if len(fleet["sites"]) > MAX_SITES:
        raise FleetError(f"{len(fleet['sites'])} sites are too many for one full mesh; make fleets of up to {MAX_SITES} sites")
    return fleet


def _known(what: str, given: Fleet, keys: set[str]) -> None:
    if unknown := sorted(set(given) - keys):
        raise FleetError(f"{what} has the unknown key {unknown[0]}; the keys are {', '.join(sorted(keys))}")


def _site(given: Fleet, fleet: Fleet) -> dict[str, Any]:
    name = str(given.get("name", ""))
    if not name:
        raise FleetError("a site has no name")
    _known(f"site {name}", given, _SITE)
    lists: dict[str, list[str]] = {"underlay": [], "addresses": [], "prefixes": [], "settings": []}
    site = {**lists, "instances": fleet["instances"], "primary_port": fleet["primary_port"], **given, "name": name}
    for key in lists:
        if not isinstance(site[key], list):
            raise FleetError(f"{key} of site {name} must be a list")
    if not isinstance(site.get("number"), int) or site["number"] < 1:
        raise FleetError(f"site {name} has no number; give it one from 1 up that no other site has")
    if not isinstance(site["instances"], int) or not 1 <= site["instances"] <= MAX_INSTANCES:
        raise FleetError(f"instances of site {name} must be 1 to {MAX_INSTANCES}")
    site["loopbacks"] = [_loopback(name, text) for text in site["addresses"]]
    return site


def _loopback(name: str, text: str) -> str:
    try:
        return str(ipaddress.ip_network(ipaddress.ip_interface(text).ip))
    except ValueError:
        raise FleetError(f"address {text} of site {name} must be like 10.0.55.1/32") from None


def site_of(fleet: Fleet, name: str) -> Mapping[str, Any]:
    """A site by its name, which is that of its host in the inventory. Raises :class:`FleetError`."""
    for site in fleet["sites"]:
        if site["name"] == name:
            return site
    raise FleetError(f"{name} is no site; add it to sites.yml, or take it out of the inventory")


# -- lines


def own_paths(fleet: Fleet, name: str) -> list[Path]:
    """What a site's router is by itself; its identities are made of it."""
    site = site_of(fleet, name)
    found: list[Path] = [("address", address) for address in site["addresses"]]
    found += [("instances", str(site["instances"])), ("network-id", fleet["network_id"].lower()), ("controller-free",)]
    found += [("primary", "port", str(site["primary_port"])), ("transit", "site", str(site["number"]))]
    found += [("transit", "prefix", prefix) for prefix in fleet["transit"]]
    found += [("transit", "subnet-length", str(length)) for length in fleet["subnet_length"]]
    found += [tuple(shlex.split(line)) for line in (*fleet["settings"], *site["settings"])]
    return [(*_base(fleet), *path) for path in found]


def _base(fleet: Fleet) -> Path:
    return ("interfaces", "zerotier", fleet["bundle"])


def remote_paths(fleet: Fleet, name: str, identities: Identities, running: Iterable[Path]) -> list[Path]:
    """What a site's router knows of the other sites.

    Identities of a site whose router was not asked stay as ``running`` has them, so that a site that cannot be reached
    today keeps its paths.
    """
    site_of(fleet, name)
    running, found = list(running), []
    for site in fleet["sites"]:
        if site["name"] == name:
            continue
        remote = (*_base(fleet), "remote", site["name"])
        found.append((*remote, "site", str(site["number"])))
        found += [(*remote, "prefix", prefix) for prefix in dict.fromkeys((*site["loopbacks"], *site["prefixes"]))]
        known = {int(entry["instance"]): entry["identity"] for entry in identities.get(site["name"], {}).get("instances", [])}
        for number in range(1, site["instances"] + 1):
            instance = (*remote, "instance", str(number))
            if number in known:
                found.append((*instance, "identity", known[number]))
            else:
                found += [path for path in running if path[:-1] == (*instance, "identity")]
            found += [(*instance, "endpoint", endpoint(host, site["primary_port"] + number - 1)) for host in site["underlay"]]
    return found


def endpoint(host: str, port: int) -> str:
    """An address or a name with a port: ``192.0.2.1:9993``, ``[2001:db8::1]:9993``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def lines(paths: Iterable[Path], verb: str = "set") -> list[str]:
    """Paths as commands; a word is quoted where a shell needs it."""
    return [" ".join([verb, *map(shlex.quote, path)]) for path in paths]


# -- what a router has, and the way from there


def paths_of(text: str, bundle: str) -> list[Path]:
    """Paths of a bundle in the text of ``show configuration commands``."""
    words = (tuple(shlex.split(line)) for line in text.splitlines() if line.startswith("set interfaces zerotier "))
    return [path[1:] for path in words if path[3:4] == (bundle,)]


def of_bundle(running: str, given: Fleet) -> str:
    """The lines of the fleet's bundle in the text of ``show configuration commands``; the rest is not the role's to keep."""
    start = f"set interfaces zerotier {fleet_of(given)['bundle']} "
    return "\n".join(line for line in running.splitlines() if f"{line} ".startswith(start))


def difference(running: Sequence[Path], wanted: Sequence[Path], top: int) -> list[str]:
    """The commands from what runs to what is wanted: as few deletions as possible, then what is missing.

    A path is deleted by its shortest part below the first ``top`` words that no wanted path has, so that nothing empty
    is left.
    """
    parts = {path[:length] for path in wanted for length in range(1, len(path) + 1)}
    have = {path[:length] for path in running for length in range(1, len(path) + 1)}
    gone = (next((path[:n] for n in range(top + 1, len(path) + 1) if path[:n] not in parts), None) for path in running)
    return [
        *lines(dict.fromkeys(path for path in gone if path), "delete"),
        *lines(dict.fromkeys(path for path in wanted if path not in have)),
    ]


# -- filters


def own_lines(given: Fleet, name: str) -> list[str]:
    """The lines from which a site's router makes its identities; the fleet is checked on the way."""
    return lines(own_paths(fleet_of(given), name))


def introduction(own: Sequence[str], given: Fleet, running: str) -> list[str]:
    """All lines of the bundle from which a router makes its identities: the site's own, and the remotes that it has now.

    Nothing else of what runs may stay. It can contradict the site's lines, as a second transit prefix does.
    """
    fleet = fleet_of(given)
    remotes = (*_base(fleet), "remote")
    return [*own, *lines(path for path in paths_of(running, fleet["bundle"]) if path[: len(remotes)] == remotes)]


def introduced(identities: Mapping[str, Any], given: Fleet, name: str) -> bool:
    """Whether a site's router has an identity for each instance."""
    return len(identities["instances"]) >= site_of(fleet_of(given), name)["instances"]


def site_lines(given: Fleet, name: str, identities: Identities, running: str) -> list[str]:
    """All lines of a site's bundle; ``running`` is what its router shows for ``show configuration commands``."""
    fleet = fleet_of(given)
    have = paths_of(running, fleet["bundle"])
    return lines([*own_paths(fleet, name), *remote_paths(fleet, name, identities, have)])


def whole(site: Sequence[str], given: Fleet) -> list[str]:
    """Lines of a file for ``ztsh apply`` that is all of the bundle."""
    return [*lines([_base(fleet_of(given))], "delete"), *site]


def changes(site: Sequence[str], given: Fleet, running: str) -> list[str]:
    """The lines that lead from what runs to the site's, for VyOS, whose own comparison does not see what is to go."""
    bundle = fleet_of(given)["bundle"]
    wanted = [tuple(shlex.split(line))[1:] for line in site]
    return difference(paths_of(running, bundle), wanted, len(("interfaces", "zerotier", bundle)))


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., object]]:
        return {
            "zerotier_multi_own_lines": own_lines,
            "zerotier_multi_introduction": introduction,
            "zerotier_multi_introduced": introduced,
            "zerotier_multi_lines": site_lines,
            "zerotier_multi_of_bundle": of_bundle,
            "zerotier_multi_whole": whole,
            "zerotier_multi_changes": changes,
        }
