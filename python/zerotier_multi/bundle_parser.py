"""From the configuration below ``interfaces zerotier ztN`` to a :class:`Bundle`; ranges and defaults are the definition's."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from zerotier_multi import names, world
from zerotier_multi.bundle import AUTO, Bundle, InstanceOverride, NetworkOptions, Remote, RemoteInstance
from zerotier_multi.controller import settings as controllers
from zerotier_multi.cpu import parse_cpu_list
from zerotier_multi.definition import Definition, Node, definition
from zerotier_multi.errors import Problem, refuse_if_any
from zerotier_multi.identity import PublicIdentity, SecretIdentity
from zerotier_multi.invite import Invite, InvitedInstance, decode
from zerotier_multi.settings import Given, given_settings
from zerotier_multi.transit import DEFAULT_LENGTH, Transit
from zerotier_multi.values import Endpoint, NamedEndpoint, any_endpoint, network_id, shown

T = TypeVar("T")
ConfigTree = Mapping[str, Any]

PLANET_REMEDY = "give the path of the planet file of your roots, or its base64 text"
MOON_REMEDY = "give the path of the moon file, or its base64 text"


class _Reader:
    """Walks one level of the configuration and collects problems instead of stopping at the first.

    ``above`` is the path of the level in the definition, which has no values of tag nodes.
    """

    def __init__(self, path: str, tree: ConfigTree, problems: list[Problem], known: Definition, above: str = "") -> None:
        self.path, self.tree, self._problems, self._known, self._above = path, tree, problems, known, above

    def has(self, key: str) -> bool:
        return key in self.tree

    def node(self, key: str) -> Node:
        return self._known[f"{self._above} {key}".strip()]

    def one(self, key: str, convert: Callable[[str], T]) -> T | None:
        """A value, else the default of the definition, else None."""
        value = self.tree.get(key, self.node(key).default)
        return None if value is None else self._read(key, str(value), convert)

    def required(self, key: str, convert: Callable[[str], T]) -> T:
        """A value or the default, which the definition has; no Bundle is made of what stands for one that is wrong."""
        value = self.one(key, convert)
        return value if value is not None else convert(self.node(key).default or "")

    def many(self, key: str, convert: Callable[[str], T]) -> tuple[T, ...]:
        values = self.tree.get(key) or []
        values = [values] if isinstance(values, str) else values
        converted = (self._read(key, str(value), convert) for value in values)
        return tuple(item for item in converted if item is not None)

    def number(self, key: str) -> int | None:
        return self.one(key, lambda text: _integer(self.node(key).read(text)))

    def required_number(self, key: str) -> int:
        return self.required(key, lambda text: _integer(self.node(key).read(text)))

    def number_or_word(self, key: str) -> str | int:
        return self.required(key, self.node(key).read)

    def number_or_auto(self, key: str) -> int | None:
        value = self.number_or_word(key)
        return None if value == AUTO else _integer(value)

    def word(self, key: str) -> str:
        return str(self.number_or_word(key))

    def level(self, key: str) -> _Reader:
        return self._below(key, key, self.tree.get(key) or {})

    def tags(self, key: str) -> list[tuple[str, _Reader]]:
        found = self.tree.get(key) or {}
        return [(tag, self._below(key, f"{key} {tag}", found[tag] or {})) for tag in found]

    def numbered(self, key: str) -> list[tuple[int, _Reader]]:
        """The levels of a tag node whose tags are numbers. None may come twice, as with a leading zero it could."""
        found = self.tags(key)
        numbers = [int(tag) for tag, _reader in found]
        for tag, _reader in found:
            if tag != str(int(tag)) and numbers.count(int(tag)) > 1:
                self.problem(f"{key} {tag}", f"is another {key} {int(tag)}; delete one of them")
        return [(int(tag), reader) for tag, reader in found]

    def settings(self) -> tuple[Given, ...]:
        """Those of ``local.conf``."""

        def wrong(path: str, value: str, remedy: str) -> None:
            self.problem(f"{path} {shown(value)}", remedy)

        return given_settings(self.tree, self._known, self._above, wrong)

    def problem(self, where: str, text: str) -> None:
        self._problems.append(Problem(f"{self.path} {where}", text))

    def _below(self, key: str, path: str, tree: ConfigTree) -> _Reader:
        return _Reader(f"{self.path} {path}", tree, self._problems, self._known, f"{self._above} {key}".strip())

    def _read(self, key: str, value: str, convert: Callable[[str], T]) -> T | None:
        try:
            return convert(value)
        except ValueError:
            self.problem(f"{key} {shown(value)}", self.node(key).remedy)
            return None


def _integer(value: str | int) -> int:
    return int(value)


def _affinity(text: str) -> str | tuple[int, ...]:
    return text if text in (AUTO, "none") else parse_cpu_list(text)


def parse_bundle(name: str, tree: ConfigTree) -> Bundle:
    """Parse the configuration below ``interfaces zerotier NAME``.

    ``tree`` is what ``Config.get_config_dict(path, get_first_key=True, no_tag_node_value_mangle=True,
    with_recursive_defaults=True)`` returns. Raises :class:`ConfigProblems` with one sentence for every value that cannot
    be read.
    """
    problems: list[Problem] = []
    known = definition()
    top = _Reader(f"interfaces zerotier {name}", tree, problems, known)
    try:
        default_port = names.default_primary_port(name)
    except ValueError:
        refuse_if_any([Problem(top.path, f"a bundle is named zt0 to zt{names.MAX_BUNDLE}")])
    transit, balance, health = top.level("transit"), top.level("balance"), top.level("health-check")
    resilient = balance.level("resilient")
    ip, ipv6 = top.level("ip"), top.level("ipv6")
    joined = tuple(dict.fromkeys(top.many("network-id", network_id)))
    bundle = Bundle(
        name=name,
        disabled=top.has("disable"),
        vrf=top.tree.get("vrf"),
        description=top.tree.get("description", ""),
        mtu=top.number_or_auto("mtu"),
        addresses=top.many("address", ipaddress.ip_interface),
        instances=top.number_or_auto("instances"),
        network_id=joined[0] if joined else None,
        further_networks=joined[1:],
        networks=_networks(top),
        overrides={number: _override(reader) for number, reader in top.numbered("instance")},
        listen=top.many("listen-address", ipaddress.ip_address),
        transits=_transits(transit),
        site=transit.number("site"),
        remotes=tuple(_remote(tag, reader) for tag, reader in top.tags("remote")),
        affinity=top.level("cpu").required("affinity", _affinity),
        engine=top.word("engine"),
        primary_port=top.level("primary").number("port") or default_port,
        hash_policy=balance.word("hash-policy"),
        resilient_buckets=resilient.required_number("buckets"),
        resilient_idle=resilient.required_number("idle-timer"),
        all_paths_down=balance.word("all-paths-down"),
        weights=balance.word("weights"),
        default_weight=int(known["instance weight"].default or ""),
        health_disabled=health.has("disable"),
        health_interval=health.required_number("interval"),
        health_multiplier=health.required_number("multiplier"),
        controller_free=top.has("controller-free"),
        controller=_controller(top.level("controller")) if top.has("controller") else None,
        planet=_world(top, "planet", top.tree.get("planet"), PLANET_REMEDY),
        moons=tuple(given for text in top.many("moon", str) if (given := _world(top, "moon", text, MOON_REMEDY))),
        adjust_mss=(ip.number_or_word("adjust-mss"), ipv6.number_or_word("adjust-mss")),
        source_validation=(ip.word("source-validation"), ipv6.word("source-validation")),
        disable_forwarding=(ip.has("disable-forwarding"), ipv6.has("disable-forwarding")),
        mirror_ingress=top.level("mirror").tree.get("ingress"),
        mirror_egress=top.level("mirror").tree.get("egress"),
        redirect=top.tree.get("redirect"),
        settings=top.settings(),
    )
    refuse_if_any(problems)
    return bundle


def _world(top: _Reader, key: str, text: str | None, remedy: str) -> str | None:
    """Roots that are given; a text is looked into here, a file when the router is."""
    if text is None or world.is_path(text):
        return text
    try:
        world.from_text(text, world.MOON if key == "moon" else world.PLANET)
    except ValueError as error:
        top.problem(f"{key} {shown(text)}", f"is not a valid {key} ({error}); {remedy}")
    return text


def _controller(reader: _Reader) -> controllers.Settings:
    """A URL is looked into here; a key that is no good is not shown."""
    kind, url, key = (reader.tree.get(name) for name in ("type", "url", "api-key"))
    if kind is not None and kind not in controllers.KINDS:
        reader.problem(f"type {shown(kind)}", reader.node("type").remedy)
        kind = None
    if url is not None:
        try:
            controllers.place(controllers.ZEROTIER_ONE, url)
        except ValueError:
            reader.problem(f"url {shown(url)}", reader.node("url").remedy)
    if key is not None and not controllers.is_key(key):
        reader.problem("api-key", reader.node("api-key").remedy)
    return controllers.Settings(
        kind=kind,
        url=url,
        api_key=key,
        authorize=reader.has("authorize"),
        assign_addresses=reader.has("assign-addresses"),
        ca_certificate=reader.tree.get("ca-certificate"),
        insecure=reader.has("insecure"),
    )


def _networks(top: _Reader) -> dict[str, NetworkOptions]:
    found = {}
    for tag, reader in top.tags("network"):
        try:
            network = network_id(tag)
        except ValueError:
            top.problem(f"network {shown(tag)}", top.node("network").remedy)
            continue
        found[network] = NetworkOptions(
            addresses=reader.many("address", ipaddress.ip_interface),
            allow_managed=reader.has("allow-managed"),
            allow_global=reader.has("allow-global"),
            allow_default=reader.has("allow-default"),
            allow_dns=reader.has("allow-dns"),
            bridge=reader.tree.get("bridge"),
        )
    return found


def _override(reader: _Reader) -> InstanceOverride:
    return InstanceOverride(
        network_id=reader.one("network-id", network_id),
        port=reader.number("port"),
        cpus=reader.one("cpu", parse_cpu_list),
        listen=reader.many("listen-address", ipaddress.ip_address),
        disabled=reader.has("disable"),
        weight=reader.number("weight"),
        backup=reader.has("backup"),
        source_interface=reader.tree.get("source-interface"),
        gateways=reader.many("gateway", ipaddress.ip_address),
        settings=reader.settings(),
        identity=_secret(reader.level("identity")),
    )


def _secret(reader: _Reader) -> SecretIdentity | None:
    """An identity; no sentence has a word of it."""
    text: str | None = reader.tree.get("secret")
    if text is None:
        return None
    try:
        return SecretIdentity.parse(text)
    except ValueError as error:
        reader.problem("secret", str(error))
        return None


def _transits(reader: _Reader) -> tuple[Transit, ...]:
    """One Transit per prefix; a subnet length that an IPv4 address can have is IPv4's."""
    prefixes = reader.many("prefix", ipaddress.ip_network)
    lengths = dict(DEFAULT_LENGTH)
    for length in reader.many("subnet-length", lambda text: _integer(reader.node("subnet-length").read(text))):
        lengths[4 if length <= ipaddress.IPV4LENGTH else 6] = length
    return tuple(Transit(prefix, lengths[prefix.version]) for prefix in sorted(prefixes, key=lambda p: p.version))


def _remote_instance(reader: _Reader, invited: InvitedInstance | None) -> RemoteInstance:
    """What is configured overrides what an invite says."""
    endpoints = reader.many("endpoint", any_endpoint) or (invited.endpoints if invited else ())
    return RemoteInstance(
        identity=reader.one("identity", PublicIdentity.parse) or (invited.identity if invited else None),
        endpoints=tuple(e for e in endpoints if isinstance(e, Endpoint)),
        named=tuple(e for e in endpoints if isinstance(e, NamedEndpoint)),
    )


def _remote(name: str, reader: _Reader) -> Remote:
    invite = _invite(reader)
    instances = {k: RemoteInstance(one.identity, one.endpoints) for k, one in invite.instances.items()} if invite else {}
    for number, below in reader.numbered("instance"):
        instances[number] = _remote_instance(below, invite.instances.get(number) if invite else None)
    return Remote(
        name,
        site=reader.number("site") or (invite.site if invite else None),
        prefixes=tuple(dict.fromkeys((*reader.many("prefix", ipaddress.ip_network), *(invite.prefixes if invite else ())))),
        instances=instances,
        disabled=reader.has("disable"),
        network=invite.network if invite else None,
    )


def _invite(reader: _Reader) -> Invite | None:
    text: str | None = reader.tree.get("invite")
    if text is None:
        return None
    try:
        return decode(text)
    except ValueError as error:
        reader.problem(f"invite {shown(text)}", str(error))
        return None
