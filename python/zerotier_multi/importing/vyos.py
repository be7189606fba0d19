"""Configurations of VyOS: containers with ZeroTier, one per interface, and ``interfaces zerotier`` of vyos-1x #4752."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from zerotier_multi.importing.home import is_home, read_home
from zerotier_multi.importing.process import ImportProblem, Process, port_of
from zerotier_multi.settings import ANY, SETTINGS

Words = tuple[str, ...]
_SAME = [tuple(row.path.split()) for row in SETTINGS]  # it has the names that #4752 gave
_HOME_INSIDE = "/var/lib/zerotier-one"


def is_vyos(text: str) -> bool:
    """Whether a text is a configuration of VyOS, as ``set`` commands or with braces."""
    return bool(re.search(r"^\s*(set (interfaces|container)\s|(interfaces|container) \{)", text, re.MULTILINE))


def read_vyos(text: str) -> list[Process]:
    """The ZeroTier processes of a configuration. Raises :class:`ImportProblem`."""
    lines = list(_lines(text))
    found = [*_containers(lines), *_interfaces(lines)]
    if not found:
        raise ImportProblem("the configuration has no container with ZeroTier and no interfaces zerotier; give another file")
    return found


def _lines(text: str) -> Iterable[Words]:
    """Every setting as words: of ``set`` commands, or of a configuration with braces."""
    above: list[Words] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        try:
            words = tuple(shlex.split(re.sub(r"/\*.*?\*/|^\s*//.*", "", raw)))
        except ValueError:
            raise ImportProblem(f"line {number} has a quote that does not end; correct it") from None
        if words[:1] == ("set",):
            yield words[1:]
        elif words[-1:] == ("{",):
            above.append(words[:-1])
        elif words == ("}",):
            if not above:
                raise ImportProblem(f"line {number} closes a brace that is not open; correct it")
            above.pop()
        elif words and above:
            yield (*(word for level in above for word in level), *words)


def _containers(lines: list[Words]) -> Iterable[Process]:
    names = dict.fromkeys(words[2] for words in lines if words[:2] == ("container", "name") and len(words) > 3)
    for name in names:
        own = [words[3:] for words in lines if words[:3] == ("container", "name", name) and len(words) > 3]
        image = next((words[1] for words in own if words[0] == "image" and len(words) > 1), "")
        if "zerotier" not in image:
            continue
        home, disabled = _home(own), ("disable",) in own
        networks = tuple(
            dict.fromkeys(
                re.findall(r"\b[0-9a-f]{16}\b", " ".join(" ".join(w[1:]) for w in own if w[0] in ("arguments", "command")))
            )
        )
        if home and is_home(Path(home)):
            made = read_home(Path(home))
            yield replace(made, name=name, networks=made.networks or networks, disabled=disabled)
        else:
            remark = (
                f"{home} is not a home on this router; its local.conf and identity are not taken over"
                if home
                else "no volume has its home"
            )
            yield Process(name, networks, home=home, disabled=disabled, remarks=(remark,))


def _home(own: list[Words]) -> str | None:
    """The directory that the container has as ZeroTier's home."""
    inside = {words[1]: words[3] for words in own if words[0] == "volume" and words[2:3] == ("destination",) and len(words) > 3}
    source = {words[1]: words[3] for words in own if words[0] == "volume" and words[2:3] == ("source",) and len(words) > 3}
    fitting = [volume for volume, place in inside.items() if place.rstrip("/") == _HOME_INSIDE]
    return next((source[volume] for volume in fitting if volume in source), None)


def _interfaces(lines: list[Words]) -> Iterable[Process]:
    for name in dict.fromkeys(words[2] for words in lines if words[:2] == ("interfaces", "zerotier") and len(words) > 2):
        own = [words[3:] for words in lines if words[:3] == ("interfaces", "zerotier", name) and len(words) > 3]
        settings, remarks = [], []
        for words in own:
            if words[0] in ("network-id", "description", "disable", "listen-address") or words[:2] == ("primary", "port"):
                continue
            if words[-2:] == ("port", "0"):  # ZeroTier chooses one
                continue
            if _has(words):
                settings.append(shlex.join(words))
            elif words[0] == "controller-api-key":
                remarks.append("controller-api-key is a secret; set controller type, url and api-key")
            elif words[0] != "multipath-mode":  # not read since 1.6
                remarks.append(f"{' '.join(words)} has no setting")
        yield Process(
            name,
            networks=tuple(words[1] for words in own if words[0] == "network-id" and len(words) > 1),
            port=next(
                (found for words in own if words[:2] == ("primary", "port") and (found := port_of(" ".join(words[2:])))), None
            ),
            listen=tuple(words[1] for words in own if words[0] == "listen-address" and len(words) > 1),
            settings=tuple(settings),
            home=f"/config/vyos-generated-zerotier/{name}",
            disabled=any(words[0] == "disable" for words in own),
            description=next((words[1] for words in own if words[0] == "description" and len(words) > 1), ""),
            remarks=tuple(remarks),
        )


def _has(words: Words) -> bool:
    """Whether the CLI has the setting under the same name; a value may follow."""
    return any(
        len(path) <= len(words) <= len(path) + 1 and all(want in (ANY, have) for want, have in zip(path, words, strict=False))
        for path in _SAME
    )
