"""The plan: the whole wanted state of a bundle as plain data, and its form on disk.

The conf script publishes it, the daemon and op mode read it. Everything in it is a string, a number, a
boolean or a list of those, so that the JSON is the same thing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

SCHEMA = 1
STRICT, LOOSE, NO_VALIDATION = "strict", "loose", "disable"  # source-validation
CLAMP_TO_PMTU, NO_CLAMP = "clamp-mss-to-pmtu", "disable"  # adjust-mss, where it is no number


class PlanError(ValueError):
    """A plan file that cannot be used; the text says why in one sentence."""


@dataclass(frozen=True)
class SettingPlan:
    """A setting of ``local.conf``: where it stands in it, from the outside in, and its value."""

    key: tuple[str, ...]
    value: bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True)
class NetworkPlan:
    """A network that an instance joins: its TAP, the addresses that are configured for it, and what its controller may do."""

    network_id: str
    device: str
    addresses: tuple[str, ...] = ()  # with length, beside those of the transit
    allow_managed: bool = False
    allow_global: bool = False
    allow_default: bool = False
    allow_dns: bool = False
    bridge: str | None = None  # that its TAP is a port of


@dataclass(frozen=True)
class InstancePlan:
    """One process: where it lives, what it runs, its TAP and its addresses in the transit subnets."""

    number: int
    network_id: str
    port: int
    home: str
    unit: str
    device: str
    engine: str  # absolute path of the program
    cpus: tuple[int, ...]  # empty: not pinned
    listen: tuple[str, ...]  # empty: every address of the underlay
    transit: tuple[str, ...]  # own addresses with length, IPv4 first
    source_interface: str | None = None  # the only device of the underlay; a plan of an earlier version has no word on it
    gateways: tuple[str, ...] = ()  # of its uplink, at most one of each family; empty: as the router knows them
    settings: tuple[SettingPlan, ...] = ()  # of local.conf, as configured
    identity: str = ""  # the public part of the one that is configured; empty: the home's own
    networks: tuple[NetworkPlan, ...] = ()  # all of them, its own first; a plan of an earlier version has no word on it

    @property
    def joined(self) -> tuple[NetworkPlan, ...]:
        """All its networks, its own first."""
        return self.networks or (NetworkPlan(self.network_id, self.device),)

    @property
    def devices(self) -> tuple[str, ...]:
        """The TAPs of all its networks."""
        return tuple(network.device for network in self.joined)

    @property
    def ports(self) -> tuple[int, ...]:
        """All its ports that are configured."""
        further = [s.value for s in self.settings if s.key in (("settings", "secondaryPort"), ("settings", "tertiaryPort"))]
        return (self.port, *(port for port in further if isinstance(port, int)))


@dataclass(frozen=True)
class PathPlan:
    """Instance K to one remote in one address family: a next hop."""

    remote: str
    instance: int
    family: int
    device: str
    via: str
    nexthop_id: int
    lladdr: str | None  # MAC of the remote's TAP where its identity is known: a permanent neighbour
    weight: int = 1  # share of the traffic; a plan of an earlier version has no word on it, nor on what follows
    backup: bool = False  # it carries traffic while no other path to the remote does


@dataclass(frozen=True)
class GroupPlan:
    """All paths to one remote in one family: a next-hop group. ``idle_timer`` is in seconds."""

    remote: str
    family: int
    group_id: int
    members: tuple[int, ...]  # next-hop ids in the order of the instances
    buckets: int
    idle_timer: int


@dataclass(frozen=True)
class RoutePlan:
    """One prefix of a remote, reached over a group."""

    prefix: str
    group_id: int
    source: str | None  # preferred source address: the loopback address of that family


@dataclass(frozen=True)
class HealthPlan:
    """How the paths are probed: milliseconds and a count."""

    enabled: bool
    interval_ms: int
    multiplier: int


@dataclass(frozen=True)
class ControllerPlan:
    """The API of a controller, and what is to be done there; its key is in a file of its own."""

    kind: str
    url: str | None  # None: the hosted one of its kind
    authorize: bool
    assign_addresses: bool
    ca_certificate: str | None
    insecure: bool

    @property
    def place(self) -> str:
        """What it is called in sentences."""
        return self.url or self.kind


@dataclass(frozen=True)
class PeerPlan:
    """Instance K of a remote, as the instance K here has to know it in controller-free mode."""

    remote: str
    instance: int
    identity: str
    endpoints: tuple[str, ...]  # addresses and names, each with its port; hosts.py makes addresses of the names


@dataclass(frozen=True)
class RemotePlan:
    """A remote that nothing leads to yet, because in controller-free mode no identity of it is configured."""

    name: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The wanted state of one bundle. ``mtu`` None means the best size the network allows."""

    bundle: str
    vrf: str | None
    mtu: int | None
    controller_free: bool
    addresses: tuple[str, ...]
    hash_policy: int | None  # None: one instance, the bundle needs none
    instances: tuple[InstancePlan, ...]
    paths: tuple[PathPlan, ...]
    groups: tuple[GroupPlan, ...]
    routes: tuple[RoutePlan, ...]
    peers: tuple[PeerPlan, ...]
    blacklist: tuple[str, ...]  # prefixes that are never the underlay
    health: HealthPlan
    keep_routes: bool = False  # also when all paths to a remote are down; a plan of an earlier version has no word on it
    description: str = ""
    auto_weights: bool = False  # shares of the paths follow what is measured
    engine_reason: str = ""  # why the engine was taken, such as "auto"; empty where it is configured
    planet: str = ""  # private roots: their planet file as base64 text
    moons: tuple[str, ...] = ()  # further roots: the same of each moon file
    adjust_mss: tuple[str | int, str | int] = (CLAMP_TO_PMTU, CLAMP_TO_PMTU)  # of forwarded TCP over IPv4 and IPv6, bytes
    controller: ControllerPlan | None = None  # whose API is used
    mirror_ingress: str | None = None  # the device that gets copies of what comes in
    mirror_egress: str | None = None  # and of what goes out
    redirect: str | None = None  # the device that takes what comes in
    source_validation: tuple[str, str] = (NO_VALIDATION, NO_VALIDATION)  # of IPv4 and IPv6
    disable_forwarding: tuple[bool, bool] = (False, False)
    without_identity: tuple[
        RemotePlan, ...
    ] = ()  # they have no path, group or route; a plan of an earlier version has no word on them
    left_out: tuple[int, ...] = ()  # instances that a boot had to leave out, because their homes cannot be used

    @property
    def nowhere(self) -> dict[str, str]:
        """Prefixes of remotes that nothing leads to yet, and why."""
        return {
            prefix: f"no identity of {r.name} is configured for an instance that runs here"
            for r in self.without_identity
            for prefix in r.prefixes
        }

    def instance(self, number: int) -> InstancePlan | None:
        """The instance with that number, or None."""
        return next((i for i in self.instances if i.number == number), None)


def to_json(plan: Plan) -> str:
    """The plan file's text; equal plans give equal texts."""
    return json.dumps({"schema": SCHEMA, **asdict(plan)}, indent=1) + "\n"


def from_json(text: str) -> Plan:
    """Read a plan file's text. Raises :class:`PlanError` for a truncated, foreign or newer one."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"not a complete JSON document ({error})") from None
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise PlanError(f"not a plan of schema {SCHEMA}")
    try:
        made = _build(Plan, data)
    except (TypeError, AttributeError) as error:
        raise PlanError(f"not a plan of schema {SCHEMA} ({error})") from None
    assert isinstance(made, Plan)
    return made


def _build(kind: type, data: Any) -> Any:
    if not isinstance(data, dict):
        raise TypeError(f"{kind.__name__} is not an object")
    unknown = set(data) - {f.name for f in fields(kind)}
    if unknown:
        raise TypeError(f"unknown field {sorted(unknown)[0][:40]!r}")
    hints = _hints(kind)
    made = kind(**{key: _value(value, hints[key]) for key, value in data.items()})
    for name, hint in hints.items():
        if not _fits(getattr(made, name), hint):
            raise TypeError(f"{name} is of another type")
    return made


def _value(value: Any, hint: Any) -> Any:
    """A value of a field out of JSON, where lists stand for tuples and objects for parts of a plan."""
    if is_dataclass(hint):
        return _build(hint, value)  # type: ignore[arg-type]
    part = next((kind for kind in get_args(hint) if is_dataclass(kind)), None)
    if not isinstance(value, list):
        return _build(part, value) if part and isinstance(value, dict) else value  # type: ignore[arg-type]
    return tuple(_build(part, item) if part else item for item in value)  # type: ignore[arg-type]


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type that a field of a plan has."""
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        if kinds[-1] is ...:
            kinds = kinds[:1] * len(value) if isinstance(value, tuple) else ()
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if get_args(hint):  # one of several
        return any(_fits(value, choice) for choice in get_args(hint))
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
