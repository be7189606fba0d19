"""The settings of ``local.conf`` that the CLI has: one row each, in :data:`SETTINGS`.

To add one:

1. Write its node into ``interface-definitions/interfaces_zerotier.xml.in``, with its range, message and help; below
   ``instance`` too where it may differ for one instance (a value there overrides the bundle's). Type and range are
   taken from there: a node without a value is a boolean, one with a numeric range a number, one with several values a
   list, any other a text.
2. Add a row here: its CLI path, its key, whether the engines take it while they run, and why ztnode cannot do it, if so.
3. ``make reference``, which writes ``docs/cli-reference.rst`` and the templates in ``tests/vyos/golden``.

The rest follows: ``local.conf`` gets the key, an instance is restarted when the value changes unless it is ``live``,
``engine auto`` takes zerotier-one where ztnode lacks the setting, and ``engine ztnode`` is refused. ``tests/unit/test_settings.py``
tries every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zerotier_multi.definition import Definition, Node
from zerotier_multi.values import address_and_port

Value = bool | int | float | str | tuple[str, ...]
Key = tuple[str, ...]  # of nested objects in local.conf, from the outside in
ANY = "*"  # the value of a tag node, in a path and in a key


@dataclass(frozen=True)
class Setting:
    """One row. A valueless node has ``when_set`` as its value; an empty ``lacks`` means that both engines can do it."""

    path: str  # CLI path below the bundle, such as "network-config * mtu"
    key: Key  # such as ("physical", "*", "mtu")
    live: bool = False  # the engines take it while they run; otherwise they read it at the start alone
    lacks: str = ""  # what goes on after "needs zerotier-one, because ztnode …"
    when_set: bool = True
    counted: bool = False  # instance K has the bundle's value + K - 1
    convert: Callable[[str], Value] | None = None  # makes the value of the text; raises ValueError
    since: tuple[int, ...] = ()  # version of zerotier-one that has it; older ones ignore it


_POLICY = ("settings", "policies", ANY)
_QUALITY = (*_POLICY, "linkQuality")
_LINK = (*_POLICY, "links", ANY)
_NO_BONDING = "has no bonding"
_ONE_THREAD = "works with one thread"
_ONE_PORT = "has one UDP port"
_NO_RELAY = "has no TCP relay"
_NO_MAPPING = "maps no ports"

# By CLI path.
SETTINGS = (
    Setting("allow-mgmt-from", ("settings", "allowManagementFrom"), lacks="has an API for this router alone"),
    Setting("bonding-policy", ("settings", "defaultBondingPolicy"), lacks=_NO_BONDING),
    Setting("custom-policy * base-policy", (*_POLICY, "basePolicy"), lacks=_NO_BONDING),
    Setting("custom-policy * down-delay", (*_POLICY, "downDelay"), lacks=_NO_BONDING),
    Setting("custom-policy * failover-interval", (*_POLICY, "failoverInterval"), lacks=_NO_BONDING),
    Setting("custom-policy * link-quality latency-weight", (*_QUALITY, "lat_weight"), lacks=_NO_BONDING, convert=float),
    Setting("custom-policy * link-quality max-latency", (*_QUALITY, "lat_max"), lacks=_NO_BONDING),
    Setting("custom-policy * link-quality max-variance", (*_QUALITY, "pdv_max"), lacks=_NO_BONDING),
    Setting("custom-policy * link-quality variance-weight", (*_QUALITY, "pdv_weight"), lacks=_NO_BONDING, convert=float),
    Setting("custom-policy * link-select-method", (*_POLICY, "linkSelectMethod"), lacks=_NO_BONDING),
    Setting("custom-policy * links * capacity", (*_LINK, "capacity"), lacks=_NO_BONDING),
    Setting("custom-policy * links * failover-to", (*_LINK, "failoverTo"), lacks=_NO_BONDING),
    Setting("custom-policy * links * ip-pref", (*_LINK, "ipvPref"), lacks=_NO_BONDING, convert=int),
    Setting("custom-policy * links * mode", (*_LINK, "mode"), lacks=_NO_BONDING),
    Setting("custom-policy * up-delay", (*_POLICY, "upDelay"), lacks=_NO_BONDING),
    Setting("disable-port-mapping", ("settings", "portMappingEnabled"), when_set=False),
    Setting("disable-secondary-port", ("settings", "allowSecondaryPort"), when_set=False),
    Setting("disable-tcp-fallback", ("settings", "allowTcpFallbackRelay"), live=True, when_set=False),
    Setting("enable-metrics", ("settings", "enableMetrics"), lacks="writes no metrics", since=(1, 16, 1)),
    Setting("enable-port-mapping", ("settings", "portMappingEnabled"), lacks=_NO_MAPPING),
    Setting("encrypted-hello", ("settings", "encryptedHelloEnabled"), lacks="sends no encrypted HELLO", since=(1, 16, 0)),
    Setting("force-tcp-relay", ("settings", "forceTcpRelay"), live=True, lacks=_NO_RELAY),
    Setting("interface-blacklist", ("settings", "interfacePrefixBlacklist")),
    Setting("low-bandwidth-mode", ("settings", "lowBandwidthMode"), lacks="has no mode of low bandwidth"),
    Setting("multicore-options core-count", ("settings", "concurrency"), lacks=_ONE_THREAD),
    Setting("multicore-options cpu-pinning", ("settings", "cpuPinningEnabled"), lacks=_ONE_THREAD),
    Setting("multicore-options enabled", ("settings", "multicoreEnabled"), lacks=_ONE_THREAD),
    Setting("network-config * blacklist", ("physical", ANY, "blacklist"), live=True),
    Setting("network-config * mtu", ("physical", ANY, "mtu"), live=True),
    Setting("network-config * trusted-path", ("physical", ANY, "trustedPathId"), live=True),
    Setting("offload disable", ("settings", "offloadDisable")),  # zerotier-one has none and ignores it
    Setting(
        "peer-config * blacklist", ("virtual", ANY, "blacklist"), live=True, lacks="knows no networks to avoid for a single node"
    ),
    Setting("peer-config * try", ("virtual", ANY, "try"), live=True, convert=address_and_port),
    Setting("peer-specific-bonds * bonding-policy", ("settings", "peerSpecificBonds", ANY), lacks=_NO_BONDING),
    Setting("secondary port", ("settings", "secondaryPort"), lacks=_ONE_PORT, counted=True),
    Setting("tcp-relay", ("settings", "tcpFallbackRelay"), lacks=_NO_RELAY, convert=address_and_port),
    Setting("tertiary port", ("settings", "tertiaryPort"), lacks=_NO_MAPPING, counted=True),
)

# What stands in local.conf in any case and is read again by both engines.
LIVE: tuple[Key, ...] = (("physical",), ("virtual",))


@dataclass(frozen=True)
class Given:
    """A setting that is configured, with the tags of its path and key filled in."""

    setting: Setting
    path: str
    key: Key
    value: Value

    def for_instance(self, instance: int) -> Value:
        """What an instance has of a bundle's value."""
        return int(self.value) + instance - 1 if self.setting.counted and isinstance(self.value, int) else self.value


def given_settings(
    tree: Mapping[str, Any],
    definition: Definition,
    above: str,
    wrong: Callable[[str, str, str], None],
    table: Iterable[Setting] = SETTINGS,
) -> tuple[Given, ...]:
    """The settings that a level of the configuration has.

    ``above`` is the path of that level in the definition, empty for a bundle and ``instance`` for an instance. A value
    that the definition does not take is told to ``wrong`` (path, value, remedy) and left out.
    """
    found = []
    for setting in table:
        words = setting.path.split()
        node = definition.get(" ".join([*above.split(), *(word for word in words if word != ANY)]))
        if node is None:
            continue  # it cannot differ for one instance
        for path, tags, value in _configured(tree, words):
            try:
                read = _value(setting, node, value)
            except ValueError as error:
                wrong(path, str(error.args[-1]), node.remedy)
                continue
            rest = iter(tags)
            found.append(Given(setting, path, tuple(next(rest) if part == ANY else part for part in setting.key), read))
    return tuple(found)


def _value(setting: Setting, node: Node, value: Any) -> Value:
    """Raises ValueError whose last argument is the text that is wrong."""
    if node.valueless:
        return setting.when_set
    if node.multi:
        return tuple(str(_converted(setting, node, text)) for text in ([value] if isinstance(value, str) else value))
    return _converted(setting, node, str(value))


def _converted(setting: Setting, node: Node, text: str) -> Value:
    try:
        return setting.convert(text) if setting.convert else node.read(text)
    except ValueError as error:
        raise ValueError(error, text) from None


def _configured(tree: Any, words: list[str], path: str = "", tags: Key = ()) -> Iterator[tuple[str, Key, Any]]:
    """Where a path leads in the configuration: the path with its tags, these alone, and what is there."""
    if not words:
        yield path.strip(), tags, tree
        return
    first, *rest = words
    level = tree if isinstance(tree, Mapping) else {}
    for word in level if first == ANY else [first] if first in level else []:
        yield from _configured(level[word], rest, f"{path} {word}", (*tags, word) if first == ANY else tags)


def put(conf: dict[str, Any], key: Key, value: object) -> None:
    """Write a value into nested objects."""
    for part in key[:-1]:
        conf = conf.setdefault(part, {})
    conf[key[-1]] = list(value) if isinstance(value, tuple) else value


def without_live(conf: Mapping[str, Any], table: Iterable[Setting] = SETTINGS) -> dict[str, Any]:
    """What of a ``local.conf`` the engines read at their start alone."""
    return _without(conf, [*LIVE, *(setting.key for setting in table if setting.live)])


def _without(level: Mapping[str, Any], keys: Iterable[Key]) -> dict[str, Any]:
    keys = list(keys)
    kept = {}
    for name, value in level.items():
        matching = [key[1:] for key in keys if key[0] in (name, ANY)]
        if () in matching:
            continue
        rest = _without(value, matching) if matching and isinstance(value, Mapping) else value
        if rest or rest == value:  # nothing that there is for a live key alone
            kept[name] = rest
    return kept
