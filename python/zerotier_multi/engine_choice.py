"""Which engine a bundle runs, and why; pure.

``auto`` is ztnode, the faster one, unless the configuration needs what only zerotier-one has: a setting of ``local.conf``
whose row in :mod:`settings` says so, or what :data:`NEEDS` lists. ``auto``, the refusal of ``engine ztnode`` and
``show zerotier`` follow from these. An instance that is the controller of other networks needs nothing for itself: ``auto``
is zerotier-one where that is installed, and ztnode is worth a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from zerotier_multi import names
from zerotier_multi.blacklist import blacklist
from zerotier_multi.bundle import AUTO, Bundle
from zerotier_multi.errors import Problem
from zerotier_multi.networks import wants_managed

ZTNODE, ZEROTIER_ONE = "ztnode", "zerotier-one"
MINIMUM_VERSION = {ZEROTIER_ONE: (1, 14, 0), ZTNODE: (1, 8, 4)}
RECENT = f"{ZEROTIER_ONE} {'.'.join(map(str, MINIMUM_VERSION[ZEROTIER_ONE][:2]))} or later"
MAX_LISTEN = 32  # addresses of one instance that ztnode binds (settings.h: MAX_BINDS)
MAX_PREFIXES = 512  # prefixes that ztnode keeps off the underlay (settings.h: MAX_PREFIXES)

_NETWORK_DIGITS = 16  # of a network ID; an address has 10

# Engines that follow addresses of the underlay by themselves when these move, their own ones and those of others. The
# instances of any other are restarted (pathd/instances/recovery.py).
FOLLOW_ADDRESSES = frozenset({ZTNODE})

# Engines that have a socket for their API in the home (apiway), and so run without their TCP port.
HAVE_SOCKET = frozenset({ZTNODE})

# Node addresses of this router, and IDs of the networks that they are the controllers of -> instance, such as zt0/2
OwnAddresses = Mapping[str, str]


@dataclass(frozen=True)
class Need:
    """Something that only zerotier-one has: which settings ask for it, and why ztnode cannot do it."""

    settings: Callable[[Bundle, OwnAddresses], Iterable[str]]  # their paths below the bundle
    why: str  # goes on after "needs zerotier-one, because ztnode …"


@dataclass(frozen=True)
class Choice:
    """A program to run. ``reason`` is what ``show`` puts in brackets; empty where the engine is configured."""

    program: str  # absolute path
    reason: str = ""


def follows_addresses(program: str) -> bool:
    """Whether an engine, given by its path, needs no restart when addresses move."""
    return PurePath(program).name in FOLLOW_ADDRESSES


def checks_trusted_paths(program: str) -> bool:
    """Whether an engine, given by its path, takes no packet for authentic that names a trusted path which nobody configured."""
    return PurePath(program).name == ZTNODE


def has_socket(program: str) -> bool:
    """Whether an engine, given by its path, can do without TCP."""
    return PurePath(program).name in HAVE_SOCKET


def _own_controller(bundle: Bundle, own: OwnAddresses) -> Iterable[str]:
    if bundle.controller_free:
        return
    for network in (bundle.network_id, *bundle.further_networks):
        if network and network[:10] in own:
            yield f"network-id {network}"
    for k, override in sorted(bundle.overrides.items()):
        if override.network_id and override.network_id[:10] in own:
            yield f"instance {k} network-id {override.network_id}"


def _many_listen_addresses(bundle: Bundle, own: OwnAddresses) -> Iterable[str]:
    if len(bundle.listen) > MAX_LISTEN:
        yield "listen-address"
    for k, override in sorted(bundle.overrides.items()):
        if len(override.listen) > MAX_LISTEN:
            yield f"instance {k} listen-address"


def _many_prefixes(bundle: Bundle, own: OwnAddresses) -> Iterable[str]:
    kept, configured = set(map(str, blacklist(bundle))), {s.key[1] for s in bundle.settings if s.key[0] == "physical"}
    if len(kept | configured) > MAX_PREFIXES:
        yield "remote" if len(kept) > len(configured) else "network-config"


NEEDS: tuple[Need, ...] = (
    Need(_own_controller, "has no controller and this router itself is the controller of that network"),
    Need(lambda bundle, own: wants_managed(bundle), "sets no addresses and routes of a controller"),
    Need(_many_listen_addresses, f"binds at most {MAX_LISTEN} addresses"),
    Need(_many_prefixes, f"keeps at most {MAX_PREFIXES} prefixes off the underlay"),
)


def needed(bundle: Bundle, own: OwnAddresses) -> list[tuple[str, str]]:
    """What of the configuration only zerotier-one can do: path below the bundle and reason of each."""
    found = [(path, need.why) for need in NEEDS for path in need.settings(bundle, own)]
    found += [(given.path, given.setting.lacks) for given in bundle.settings if given.setting.lacks]
    return found + [
        (f"instance {k} {given.path}", given.setting.lacks)
        for k, override in sorted(bundle.overrides.items())
        for given in override.settings
        if given.setting.lacks
    ]


def _controls(bundle: Bundle, own: OwnAddresses) -> tuple[str, str] | None:
    """The first instance that others have as their controller, and its networks in words; one without a controller has none."""
    networks = [] if bundle.controller_free else [address for address in own if len(address) == _NETWORK_DIGITS]
    if not networks:
        return None
    instance = own[networks[0]]
    return instance, ", ".join(network for network in networks if own[network] == instance)


def choose_engine(bundle: Bundle, engines: Mapping[str, str], own: OwnAddresses) -> Choice | None:
    """The program that the bundle runs, out of those installed (name -> path). None where there is no fit one."""
    needs = needed(bundle, own)
    if bundle.engine != AUTO:
        fits = bundle.engine in engines and not (needs and bundle.engine == ZTNODE)
        return Choice(engines[bundle.engine]) if fits else None
    controls = None if needs else _controls(bundle, own)
    if controls and ZEROTIER_ONE in engines:
        instance, networks = controls
        return Choice(engines[ZEROTIER_ONE], f"{AUTO}: {instance} is the controller of {networks}")
    if not needs and ZTNODE in engines:
        return Choice(engines[ZTNODE], AUTO)
    if ZEROTIER_ONE not in engines:
        return None
    why = f"{needs[0][0]} needs it" if needs else f"{ZTNODE} is not installed"
    return Choice(engines[ZEROTIER_ONE], f"{AUTO}: {why}")


def engine_problems(bundle: Bundle, engines: Mapping[str, str], own: OwnAddresses) -> Iterable[Problem]:
    """Why there is no fit engine; nothing where there is one."""
    if choose_engine(bundle, engines, own):
        return
    path, needs = f"{bundle.path} engine {bundle.engine}", needed(bundle, own)
    if not engines:
        yield Problem(path, f"no engine is installed; install {ZTNODE} or {RECENT}")
    elif needs and bundle.engine in (AUTO, ZTNODE):
        setting, why = needs[0]
        remedy = f"install {RECENT}" if ZEROTIER_ONE not in engines else f"set engine {AUTO}"
        yield Problem(f"{bundle.path} {setting}", f"needs {ZEROTIER_ONE}, because {ZTNODE} {why}; {remedy}")
    else:
        found = ", ".join(engines)
        wanted = RECENT if bundle.engine == ZEROTIER_ONE else bundle.engine
        yield Problem(path, f"{wanted} is not installed ({found} found); install its package or set engine {AUTO}")


def engine_warnings(bundle: Bundle, engines: Mapping[str, str], own: OwnAddresses) -> Iterable[str]:
    """What ends for others with the engine that the bundle runs; goes on after the path of the bundle."""
    choice, controls = choose_engine(bundle, engines, own), _controls(bundle, own)
    if bundle.disabled or controls is None or choice is None or PurePath(choice.program).name != ZTNODE:
        return
    instance, networks = controls
    remedies = [f"install {RECENT}"] if ZEROTIER_ONE not in engines else []
    remedies += [f"set engine {AUTO}"] if bundle.engine != AUTO else []
    yield (
        f"engine {bundle.engine}: {instance} is the controller of {networks}, and {ZTNODE} has none, so nobody answers the members "
        f"any more; {' and '.join(remedies)}, or remove {names.HOME_ROOT / instance}/controller.d if nobody needs it"
    )
