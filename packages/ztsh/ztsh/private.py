"""What ``strip-private`` does: a configuration, as text or JSON, or the output of a command, without private data; pure.

Text is taken by the line, whichever form it has: the braces of config.boot, set commands, or lines that ``match`` has left of
JSON. Whole JSON is read, because only its structure says what is the name of a remote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "xxxxxx"

# The value of a node whose name ends with one of these is hidden as a whole. Every secret leaf of the definitions is among
# them; invites, planets and moons have addresses and identities in another coding.
_WORDS = r"description|comment|api-key|url|password|secret|key|invite|planet|moon"
_NAMED = re.compile(rf"(?:.*\b)?(?:{_WORDS})")
_REMOTE = "remote"  # its tags are names

_IDENTITY = (r"\b[0-9a-f]{10}:0:[0-9a-f]{128}(:[0-9a-f]{128})?\b", "xxxxxxxxxx:0:xxxxxx")
_IPV4 = (r"\b(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\b", r"xxx.xxx.\3.\4")
_IPV6 = (r"(?<!\w)(?=:{0,2}[0-9a-fA-F])(?:[0-9a-fA-F]{0,4}:){2,}[0-9a-fA-F]{0,4}(?!\w)", "xxxx:xxxx::xxxx")
_NETWORK = (r"\b[0-9a-fA-F]{16}\b", "xxxxxxxxxxxxxxxx")
# The address of a node is ten digits. Without a letter a number looks like one, so there what is around it decides.
_NODE = r"[0-9a-f]{10}"
_NODES = [
    (rf"(\bpeer-(?:config|specific-bonds)\s+){_NODE}\b", r"\1xxxxxxxxxx"),
    (rf"\b(?=[0-9]*[a-f]){_NODE}\b", "xxxxxxxxxx"),
]
_LABEL = r"(?=[\w-]*[A-Za-z_])[\w-]++"  # the last one of a DNS name; that of an IPv4 address has no letter
_PORT = r"(?=:[0-9])"
_HOSTS = [
    (r"""\b([a-z]{2,8}://)[^\s"'\\]+""", rf"\1{HIDDEN}"),
    (rf"(?<![\w.-])(?:[\w-]+\.)++{_LABEL}{_PORT}", HIDDEN),
    (rf"""(\bendpoint\s+["']?){_LABEL}{_PORT}""", rf"\1{HIDDEN}"),
]
_QUOTED = [(rf'"{_NODE}"', '"xxxxxxxxxx"'), (rf'"{_LABEL}(:[0-9]{{1,5}}")', rf'"{HIDDEN}\1')]  # whole strings of JSON
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_PATTERNS = [
    _IDENTITY,  # first, because a part of it looks like an IPv6 address
    *_QUOTED,
    *_HOSTS,
    _IPV4,
    _IPV6,
    _NETWORK,
    *_NODES,
    (rf'("(?:[^"\\\n]*\b)?(?:{_WORDS}|{_REMOTE})"\s*:\s*){_STRING}', rf'\1"{HIDDEN}"'),
    (rf"(?m)(\b(?:{_WORDS})\s+)(\S.*)$", rf"\1{HIDDEN}"),
    (rf"(\b{_REMOTE}\s+)([\w.-]+)", rf"\1{HIDDEN}"),
    (r"/\*.*?\*/", f"/* {HIDDEN} */"),
]


def strip_private(text: str) -> str:
    """The text without addresses, networks, identities, names and secrets; JSON stays JSON."""
    try:
        data = json.loads(text)
        if isinstance(data, dict | list):
            return json.dumps(_stripped(data), indent=4) + "\n"
    except (ValueError, RecursionError):
        pass
    return _hidden(text)


def _hidden(text: str) -> str:
    for pattern, instead in _PATTERNS:
        text = re.sub(pattern, instead, text)
    return text


def _string(text: str) -> str:
    """A string of JSON."""
    quoted = f'"{text}"'
    for pattern, instead in _QUOTED:
        quoted = re.sub(pattern, instead, quoted)
    return _hidden(quoted[1:-1])


def _stripped(data: Any, name: str = "") -> Any:
    """JSON below the node ``name`` without what is private."""
    private = _NAMED.fullmatch(name) is not None
    match data:
        case {}:
            return _named(data, private or name == _REMOTE, name if private else "")
        case list():
            return [_stripped(value, name) for value in data]
        case None:
            return None
        case _ if private or (name == _REMOTE and isinstance(data, str)):
            return HIDDEN
        case str():
            return _string(data)
    return data


def _named(data: Mapping[str, Any], names: bool, outer: str) -> dict[str, Any]:
    """An object; with ``names`` its own keys are private. Two that look alike then are told apart by a number."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        shown = HIDDEN if names else _string(key)
        alike = shown
        number = 1
        while shown in found:
            number += 1
            shown = f"{alike}-{number}"
        found[shown] = _stripped(value, outer or ("" if names else key))
    return found
