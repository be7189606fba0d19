"""A bundle: the configuration of one ``ztN``, parsed into types. What it means together is :mod:`checks`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zerotier_multi import names, world
from zerotier_multi.cpu import parse_cpu_list
from zerotier_multi.errors import Problem, refuse_if_any
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.plan import CLAMP_TO_PMTU, NO_CLAMP
from zerotier_multi.transit import DEFAULT_LENGTH, IPAddress, IPInterface, IPNetwork, Transit

T = TypeVar("T")
ConfigTree = Mapping[str, Any]

AUTO = "auto"
PLANET_REMEDY = "give the path of the planet file of your roots, or its base64 text"


@dataclass(frozen=True)
class Endpoint:
    """UDP address of an instance of a remote on the underlay."""

    address: IPAddress
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if self.address.version == 6 else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class NamedEndpoint:
    """UDP port of an instance of a remote at a DNS name, which zerotier-pathd looks up while there is no path."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class RemoteInstance:
    """What is known beforehand of instance K of a remote (controller-free mode)."""

    identity: PublicIdentity | None = None
    endpoints: tuple[Endpoint, ...] = ()
    named: tuple[NamedEndpoint, ...] = ()  # endpoints that are DNS names


@dataclass(frozen=True)
class Remote:
    """Another router; ``site`` None means the other host of a /30."""

    name: str
    site: int | None = None
    prefixes: tuple[IPNetwork, ...] = ()
    instances: Mapping[int, RemoteInstance] = field(default_factory=dict)
    disabled: bool = False


@dataclass(frozen=True)
class InstanceOverride:
    """What differs for one instance; None means as for the others."""

    network_id: str | None = None
    port: int | None = None
    cpus: tuple[int, ...] | None = None
    listen: tuple[IPAddress, ...] = ()
    disabled: bool = False
    weight: int = 1
    source_interface: str | None = None
    gateways: tuple[IPAddress, ...] = ()


@dataclass(frozen=True)
class Bundle:
    """The parsed configuration of one ``ztN``. ``instances`` None is ``auto``, ``mtu`` None is ``auto``.

    ``affinity`` is ``auto``, ``none`` or a tuple of CPUs; times are milliseconds, ``resilient_idle`` seconds.
    """

    name: str
    disabled: bool = False
    vrf: str | None = None
    description: str = ""
    mtu: int | None = None
    addresses: tuple[IPInterface, ...] = ()
    instances: int | None = 1
    network_id: str | None = None
    overrides: Mapping[int, InstanceOverride] = field(default_factory=dict)
    transits: tuple[Transit, ...] = ()
    site: int | None = None
    remotes: tuple[Remote, ...] = ()
    affinity: str | tuple[int, ...] = AUTO
    engine: str = AUTO
    primary_port: int = 9993
    hash_policy: str = "layer4"
    resilient_buckets: int = 128
    resilient_idle: int = 10
    all_paths_down: str = "withdraw"
    weights: str = "static"
    health_disabled: bool = False
    health_interval: int = 200
    health_multiplier: int = 3
    controller_free: bool = False
    planet: str | None = None  # path of a file, or base64 text
    adjust_mss: tuple[str | int, ...] = (CLAMP_TO_PMTU, CLAMP_TO_PMTU)  # IPv4, IPv6

    @property
    def path(self) -> str:
        """Its CLI path."""
        return f"interfaces zerotier {self.name}"

    def override(self, instance: int) -> InstanceOverride:
        """What differs for ``instance`` (nothing, where nothing is configured)."""
        return self.overrides.get(instance, InstanceOverride())

    def port(self, instance: int) -> int:
        """UDP port of ``instance``."""
        return self.override(instance).port or self.primary_port + instance - 1

    def network(self, instance: int) -> str | None:
        """Network id of ``instance``, or None where none is configured."""
        return self.override(instance).network_id or self.network_id

    def remote_site(self, remote: Remote) -> int | None:
        """Site number of a remote: as configured, else the other host of a two-host transit subnet."""
        if remote.site is not None:
            return remote.site
        if self.site in (1, 2) and self.transits and all(t.sites == 2 for t in self.transits):
            return 3 - self.site
        return None


class _Reader:
    """Walks one level of the configuration and collects problems instead of stopping at the first."""

    def __init__(self, path: str, tree: ConfigTree, problems: list[Problem]):
        self.path, self.tree, self.problems = path, tree, problems

    def has(self, key: str) -> bool:
        return key in self.tree

    def one(self, key: str, convert: Callable[[str], T], remedy: str, default: T | None = None) -> T | None:
        value = self.tree.get(key)
        return default if value is None else self._convert(key, str(value), convert, remedy, default)

    def many(self, key: str, convert: Callable[[str], T], remedy: str) -> tuple[T, ...]:
        values = self.tree.get(key) or []
        values = [values] if isinstance(values, str) else values
        converted = (self._convert(key, str(value), convert, remedy, None) for value in values)
        return tuple(item for item in converted if item is not None)

    def level(self, key: str) -> _Reader:
        return _Reader(f"{self.path} {key}", self.tree.get(key) or {}, self.problems)

    def tags(self, key: str) -> list[tuple[str, _Reader]]:
        found = self.tree.get(key) or {}
        return [(tag, _Reader(f"{self.path} {key} {tag}", found[tag] or {}, self.problems)) for tag in found]

    def _convert(self, key: str, value: str, convert: Callable[[str], T], remedy: str, default: T | None) -> T | None:
        try:
            return convert(value)
        except ValueError:
            self.problems.append(Problem(f"{self.path} {key} {shown(value)}", remedy))
            return default


def shown(value: str) -> str:
    """A value as an error shows it: a long one is cut, because it may be a key; what a terminal would act on is not in it."""
    cut = value if len(value) <= 60 else f"{value[:12]}…"
    return "".join(char if char.isprintable() else "?" for char in cut)


def number(low: int, high: int) -> Callable[[str], int]:
    """A converter to an integer from ``low`` to ``high``; it raises ValueError outside."""

    def convert(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return convert


def network_id(text: str) -> str:
    """A network id in lower case. Raises ValueError unless it is 16 hex digits and not zero."""
    if not re.fullmatch(r"[0-9a-fA-F]{16}", text) or int(text, 16) == 0:
        raise ValueError(text)
    return text.lower()


def endpoint(text: str) -> Endpoint:
    """``192.0.2.1:9993`` or ``[2001:db8::1]:9993``. Raises ValueError for anything else, names included."""
    match = re.fullmatch(r"\[([0-9a-fA-F:.]+)\]:([0-9]{1,5})|([0-9.]+):([0-9]{1,5})", text)
    if not match:
        raise ValueError(text)
    address = ipaddress.ip_address(match[1] or match[3])
    if address.is_unspecified or address.is_multicast or (match[1] and address.version == 4):
        raise ValueError(text)
    return Endpoint(address, number(1, 65535)(match[2] or match[4]))


# RFC 1123, and the underscore that some have; the last label is not a number, or it would be an address.
_LABEL = r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}:)((?:{_LABEL}\.)*(?![0-9]+:){_LABEL}):([0-9]{{1,5}})")


def named_endpoint(text: str) -> NamedEndpoint:
    """``r2.example.org:9993``. Raises ValueError for anything else, addresses included."""
    match = _NAME.fullmatch(text)
    if not match:
        raise ValueError(text)
    return NamedEndpoint(match[1].lower(), number(1, 65535)(text.rpartition(":")[2]))


def _any_endpoint(text: str) -> Endpoint | NamedEndpoint:
    try:
        return endpoint(text)
    except ValueError:
        return named_endpoint(text)


def _choice(*words: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return convert


_MSS_REMEDY = "give clamp-mss-to-pmtu, disable or 536 to 65535 bytes"


def _mss(text: str) -> str | int:
    return text if text in (CLAMP_TO_PMTU, NO_CLAMP) else number(536, 65535)(text)


def _affinity(text: str) -> str | tuple[int, ...]:
    return text if text in (AUTO, "none") else parse_cpu_list(text)


def _auto_or(low: int, high: int) -> Callable[[str], int]:
    """0 stands for ``auto`` on the way through the reader."""
    return lambda text: 0 if text == AUTO else number(low, high)(text)


def parse_bundle(name: str, tree: ConfigTree) -> Bundle:
    """Parse the configuration below ``interfaces zerotier NAME``.

    ``tree`` is what ``Config.get_config_dict(path, get_first_key=True, no_tag_node_value_mangle=True,
    with_recursive_defaults=True)`` returns: the defaults of single leaves are the interface definition's.
    Raises :class:`ConfigProblems` with one sentence for every value that cannot be read.
    """
    problems: list[Problem] = []
    top = _Reader(f"interfaces zerotier {name}", tree, problems)
    try:
        default_port = names.default_primary_port(name)
    except ValueError:
        refuse_if_any([Problem(top.path, f"a bundle is named zt0 to zt{names.MAX_BUNDLE}")])
    transit, balance, health = top.level("transit"), top.level("balance"), top.level("health-check")
    fields: dict[str, Any] = dict(
        vrf=top.tree.get("vrf"),
        description=top.tree.get("description", ""),
        mtu=top.one("mtu", _auto_or(1280, 10000), "give auto or 1280 to 10000 bytes") or None,
        addresses=top.many("address", ipaddress.ip_interface, "give an address with its length, such as 10.0.55.1/32"),
        network_id=top.one("network-id", network_id, "a network id is 16 hexadecimal digits"),
        overrides=_overrides(top),
        transits=_transits(transit),
        site=transit.one("site", number(1, names.MAX_SITE), f"a site is a number from 1 to {names.MAX_SITE}"),
        remotes=tuple(_remote(tag, reader) for tag, reader in top.tags("remote")),
        affinity=top.level("cpu").one("affinity", _affinity, "give auto, none or a list such as 2-5,8", AUTO),
        engine=top.one("engine", _choice(AUTO, "zerotier-one", "ztnode"), "give auto, zerotier-one or ztnode", AUTO),
        primary_port=top.level("primary").one("port", number(1, 65535), "give a port from 1 to 65535", default_port),
        hash_policy=balance.one(
            "hash-policy", _choice("layer4", "layer3", "inner"), "give layer4, layer3 or inner", Bundle.hash_policy
        ),
        resilient_buckets=balance.level("resilient").one(
            "buckets", number(1, 65535), "give 1 to 65535 buckets", Bundle.resilient_buckets
        ),
        resilient_idle=balance.level("resilient").one(
            "idle-timer", number(0, 86400), "give 0 to 86400 seconds", Bundle.resilient_idle
        ),
        all_paths_down=balance.one(
            "all-paths-down", _choice("withdraw", "keep"), "give withdraw or keep", Bundle.all_paths_down
        ),
        weights=balance.one("weights", _choice("static", "auto"), "give static or auto", Bundle.weights),
        health_disabled=health.has("disable"),
        health_interval=health.one(
            "interval", number(50, 10000), "give 50 to 10000 milliseconds", Bundle.health_interval
        ),
        health_multiplier=health.one("multiplier", number(2, 10), "give 2 to 10", Bundle.health_multiplier),
        controller_free=top.has("controller-free"),
        adjust_mss=tuple(
            top.level(family).one("adjust-mss", _mss, _MSS_REMEDY, CLAMP_TO_PMTU) for family in ("ip", "ipv6")
        ),
    )
    fields["planet"] = _planet(top)
    instances = top.one(
        "instances", _auto_or(1, names.MAX_INSTANCES), f"give auto or 1 to {names.MAX_INSTANCES}", Bundle.instances
    )
    refuse_if_any(problems)
    return Bundle(name, disabled=top.has("disable"), instances=instances or None, **fields)


def _planet(top: _Reader) -> str | None:
    """Private roots; a text is looked into here, a file when the router is."""
    text = top.tree.get("planet")
    try:
        if text is not None and not world.is_path(text):
            world.from_text(text)
    except ValueError as error:
        top.problems.append(Problem(f"{top.path} planet {shown(text)}", f"is no planet ({error}); {PLANET_REMEDY}"))
    return text


def _overrides(top: _Reader) -> dict[int, InstanceOverride]:
    found = {}
    for tag, reader in top.tags("instance"):
        found[int(tag)] = InstanceOverride(
            network_id=reader.one("network-id", network_id, "a network id is 16 hexadecimal digits"),
            port=reader.one("port", number(1, 65535), "give a port from 1 to 65535"),
            cpus=reader.one("cpu", parse_cpu_list, "give a list of CPUs such as 2-5,8"),
            listen=reader.many("listen-address", ipaddress.ip_address, "give an IPv4 or IPv6 address of this router"),
            disabled=reader.has("disable"),
            weight=reader.one("weight", number(1, 100), "give a weight from 1 to 100", InstanceOverride.weight),
            source_interface=reader.tree.get("source-interface"),
            gateways=reader.many("gateway", ipaddress.ip_address, "give the IPv4 or IPv6 address of a router on its uplink"),
        )
    return found


def _transits(reader: _Reader) -> tuple[Transit, ...]:
    """One Transit per prefix; a subnet length up to 30 is IPv4's, one from 64 to 126 is IPv6's."""
    prefixes = reader.many("prefix", ipaddress.ip_network, "give a prefix without host bits, such as 10.14.0.0/28")
    lengths = dict(DEFAULT_LENGTH)
    for length in reader.many("subnet-length", number(8, 126), "give 8 to 30 for IPv4 or 64 to 126 for IPv6"):
        if 30 < length < 64:
            reader.problems.append(
                Problem(f"{reader.path} subnet-length {length}", "give 8 to 30 for IPv4 or 64 to 126 for IPv6")
            )
            continue
        lengths[4 if length <= 30 else 6] = length
    return tuple(Transit(prefix, lengths[prefix.version]) for prefix in sorted(prefixes, key=lambda p: p.version))


def _remote_instance(reader: _Reader) -> RemoteInstance:
    endpoints = reader.many(
        "endpoint", _any_endpoint, "give address or name and port, such as 192.0.2.1:9993, [2001:db8::1]:9993 or r2.example.org:9993"
    )
    return RemoteInstance(
        identity=reader.one(
            "identity", PublicIdentity.parse, "give the public identity, as 'show zerotier identity' there prints it"
        ),
        endpoints=tuple(e for e in endpoints if isinstance(e, Endpoint)),
        named=tuple(e for e in endpoints if isinstance(e, NamedEndpoint)),
    )


def _remote(name: str, reader: _Reader) -> Remote:
    instances = {int(tag): _remote_instance(below) for tag, below in reader.tags("instance")}
    return Remote(
        name,
        site=reader.one("site", number(1, names.MAX_SITE), f"a site is a number from 1 to {names.MAX_SITE}"),
        prefixes=reader.many("prefix", ipaddress.ip_network, "give a prefix without host bits, such as 192.0.2.0/24"),
        instances=instances,
        disabled=reader.has("disable"),
    )
