"""One ZeroTier process as it was configured elsewhere, and what of a ``local.conf`` the CLI has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from zerotier_multi.local_conf import LOCAL, TUNNEL_PREFIXES
from zerotier_multi.settings import ANY, SETTINGS, Setting

# Keys that every instance has from the product, or that it has no use for; they need no remark.
_OURS = {
    ("settings", "primaryPort"), ("settings", "bind"), ("settings", "softwareUpdate"), ("settings", "softwareUpdateChannel"),
    ("settings", "allowSecondaryPort"), ("settings", "multipathMode"), ("settings", "activeReselect"),
}  # fmt: skip


class ImportProblem(ValueError):
    """What keeps a source from being read; the text is one sentence."""


@dataclass(frozen=True)
class Process:
    """What one process does. ``settings`` are lines below ``interfaces zerotier ztN``, ``remarks`` what was left out."""

    name: str
    networks: tuple[str, ...] = ()
    port: int | None = None
    listen: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    home: str | None = None  # where its identity is, as identity.secret
    secret: str = ""  # what else has its identity, in words
    disabled: bool = False
    description: str = ""
    remarks: tuple[str, ...] = ()


def port_of(text: str) -> int | None:
    """The port that a text is; None for 0, which leaves the choice to ZeroTier, and for any other text."""
    number = int(text) if re.fullmatch("[0-9]{1,5}", text) else 0
    return number if 0 < number < 65536 else None


def of_local_conf(conf: Mapping[str, Any], name: str, **known: Any) -> Process:
    """A process by its ``local.conf``; ``known`` is what other sources say of it."""
    settings = conf.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    lines, remarks = [], []
    for key, value in _leaves(conf):
        if key in _OURS or key[:2] == ("settings", "bind"):
            continue
        if key == ("settings", "secondaryPort") and value == settings.get("primaryPort"):
            continue  # of a home of ours: none (local_conf)
        found = next((read for row in SETTINGS if (read := _line(row, key, value)) is not None), None)
        if found is None:
            remarks.append(f"{'.'.join(key)} of local.conf has no setting")
        lines += found or []
    bind = settings.get("bind")
    made = Process(
        name,
        port=port_of(str(settings.get("primaryPort"))),
        listen=tuple(map(str, bind)) if isinstance(bind, list) else (),
        settings=tuple(dict.fromkeys(lines)),
    )
    return replace(made, **{**known, "port": known.get("port") or made.port, "remarks": (*known.get("remarks", ()), *remarks)})


def _leaves(level: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(level, Mapping):
        for name, below in level.items():
            yield from _leaves(below, (*key, str(name)))
    elif level is not None:
        yield key, level


def _line(row: Setting, key: tuple[str, ...], value: Any) -> list[str] | None:
    """The lines of a row for a key and its value; none where the value is the default, None where it is another key."""
    if len(key) != len(row.key) or any(want not in (ANY, have) for want, have in zip(row.key, key, strict=True)):
        return None
    tags = iter(have for want, have in zip(row.key, key, strict=True) if want == ANY)
    path = " ".join(shlex.quote(next(tags)) if word == ANY else word for word in row.path.split())
    if isinstance(value, bool):
        return [path] if value == row.when_set else _the_other_way(row, value)
    if isinstance(value, list):
        return [f"{path} {shlex.quote(item)}" for item in _added(row.key[-1], value)]
    if row.path.endswith(" port") and str(value) == "0":
        return []  # ZeroTier chooses one, as it does without the key
    return [f"{path} {shlex.quote(str(value))}"]


def _the_other_way(row: Setting, value: bool) -> list[str]:
    """A boolean that this row does not set: another row may, or it is the default."""
    other = next((r for r in SETTINGS if r.key == row.key and r.path != row.path and r.when_set == value), None)
    return [other.path] if other and not other.path.startswith("disable-") else []


def _added(key: str, values: Iterable[Any]) -> list[str]:
    """Of a list what the product does not add by itself."""
    texts = [str(value) for value in values]
    if key == "allowManagementFrom":
        return [text for text in texts if text not in LOCAL and not text.startswith(("127.0.0.1", "::1"))]
    if key == "interfacePrefixBlacklist":
        return [text for text in texts if not text.startswith(TUNNEL_PREFIXES)]
    return texts
