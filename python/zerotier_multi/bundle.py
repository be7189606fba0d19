"""A bundle: the configuration of one ``ztN`` in types.

:mod:`bundle_parser` makes it of the configuration; what it means together is :mod:`checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zerotier_multi.controller.settings import Settings as ControllerSettings
from zerotier_multi.identity import PublicIdentity, SecretIdentity
from zerotier_multi.settings import Given
from zerotier_multi.transit import IPAddress, IPInterface, IPNetwork, Transit
from zerotier_multi.values import Endpoint, NamedEndpoint

AUTO = "auto"
MAPPED = 10000  # from the port of an instance to that for port mapping


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
    network: str | None = None  # of the router whose invite it is


@dataclass(frozen=True)
class InstanceOverride:
    """What differs for one instance; None means as for the others."""

    network_id: str | None = None
    port: int | None = None
    cpus: tuple[int, ...] | None = None
    listen: tuple[IPAddress, ...] = ()
    disabled: bool = False
    weight: int | None = None
    backup: bool = False
    source_interface: str | None = None
    gateways: tuple[IPAddress, ...] = ()
    settings: tuple[Given, ...] = ()  # of local.conf
    identity: SecretIdentity | None = None  # None: the one of its home


@dataclass(frozen=True)
class NetworkOptions:
    """What is configured for one network: addresses on its device, and what its controller may do to this router."""

    addresses: tuple[IPInterface, ...] = ()
    allow_managed: bool = False
    allow_global: bool = False
    allow_default: bool = False
    allow_dns: bool = False
    bridge: str | None = None  # that its device is a port of

    @property
    def allowed(self) -> tuple[str, ...]:
        """The settings that let the controller do something."""
        words = ("allow-managed", "allow-global", "allow-default", "allow-dns")
        return tuple(word for word in words if getattr(self, word.replace("-", "_")))


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The parsed configuration of one ``ztN``. ``instances`` None is ``auto``, ``mtu`` None is ``auto``.

    ``affinity`` is ``auto``, ``none`` or a tuple of CPUs; times are milliseconds, ``resilient_idle`` seconds. Fields
    without a default have it in the interface definition.
    """

    name: str
    disabled: bool = False
    vrf: str | None = None
    description: str = ""
    mtu: int | None = None
    addresses: tuple[IPInterface, ...] = ()
    instances: int | None
    network_id: str | None = None
    further_networks: tuple[str, ...] = ()  # that its only instance joins, too
    networks: Mapping[str, NetworkOptions] = field(default_factory=dict)  # by network id
    overrides: Mapping[int, InstanceOverride] = field(default_factory=dict)
    listen: tuple[IPAddress, ...] = ()  # of instances that have none of their own
    transits: tuple[Transit, ...] = ()
    site: int | None = None
    remotes: tuple[Remote, ...] = ()
    affinity: str | tuple[int, ...]
    engine: str
    primary_port: int
    hash_policy: str
    resilient_buckets: int
    resilient_idle: int
    all_paths_down: str
    weights: str
    default_weight: int  # of an instance that has none of its own
    health_disabled: bool = False
    health_interval: int
    health_multiplier: int
    controller_free: bool = False
    controller: ControllerSettings | None = None
    planet: str | None = None  # path of a file, or base64 text
    moons: tuple[str, ...] = ()  # the same of each
    adjust_mss: tuple[str | int, str | int]  # IPv4, IPv6
    source_validation: tuple[str, str]
    disable_forwarding: tuple[bool, bool]
    mirror_ingress: str | None = None  # the device that gets copies of what comes in
    mirror_egress: str | None = None  # and of what goes out
    redirect: str | None = None  # the device that takes what comes in
    settings: tuple[Given, ...] = ()  # of local.conf, for all instances

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

    def port_path(self, instance: int) -> str:
        """CLI path of what gives ``instance`` its port."""
        if self.override(instance).port:
            return f"{self.path} instance {instance} port {self.port(instance)}"
        return f"{self.path} primary port {self.primary_port}"

    def ports(self, instance: int) -> tuple[tuple[int, str], ...]:
        """All ports of ``instance``, each with the CLI path of what gives it."""
        further = [s for s in self.settings if s.setting.counted]
        mapped = self.mapped_port(instance)
        return (
            (self.port(instance), self.port_path(instance)),
            *((int(str(s.for_instance(instance))), f"{self.path} {s.path} {s.value}") for s in further),
            *([(mapped, f"{self.path} enable-port-mapping")] if mapped else ()),
        )

    def mapped_port(self, instance: int) -> int | None:
        """Port for port mapping of ``instance`` where none is configured, and zerotier-one would take a random one; else None."""
        given = {s.path for s in self.settings}
        if "enable-port-mapping" not in given or "tertiary port" in given:
            return None
        port = self.port(instance)
        return port + MAPPED if port + MAPPED <= 65535 else port - MAPPED

    def listening(self, instance: int) -> tuple[IPAddress, ...]:
        """Addresses of the underlay that ``instance`` listens on; empty: all."""
        return self.override(instance).listen or self.listen

    def weight(self, instance: int) -> int:
        """Share of ``instance`` in the traffic, compared with the others."""
        return self.override(instance).weight or self.default_weight

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
