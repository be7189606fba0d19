"""Values of the configuration out of their texts, and a value as an error shows it; pure."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from zerotier_multi.transit import IPAddress


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


def shown(value: str) -> str:
    """A value as an error shows it: a long one is cut, because it may be a key; what a terminal would act on is not in it."""
    cut = value if len(value) <= 60 else f"{value[:12]}..."
    return "".join(char if char.isprintable() else "?" for char in cut)


def port(text: str) -> int:
    """A UDP or TCP port. Raises ValueError for any other text."""
    value = int(text)
    if not 1 <= value <= 65535:
        raise ValueError(text)
    return value


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
    return Endpoint(address, port(match[2] or match[4]))


def address_and_port(text: str) -> str:
    """``192.0.2.1/9993`` as ZeroTier writes it, in its shortest form. Raises ValueError."""
    address, slash, number = text.partition("/")
    if not slash:
        raise ValueError(text)
    return f"{ipaddress.ip_address(address)}/{port(number)}"


# RFC 1123, and the underscore that some have; the last label is not a number, or it would be an address.
_LABEL = r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}:)((?:{_LABEL}\.)*(?![0-9]+:){_LABEL}):([0-9]{{1,5}})")


def named_endpoint(text: str) -> NamedEndpoint:
    """``r2.example.org:9993``. Raises ValueError for anything else, addresses included."""
    match = _NAME.fullmatch(text)
    if not match:
        raise ValueError(text)
    return NamedEndpoint(match[1].lower(), port(text.rpartition(":")[2]))


def any_endpoint(text: str) -> Endpoint | NamedEndpoint:
    """An endpoint by address or by name. Raises ValueError."""
    try:
        return endpoint(text)
    except ValueError:
        return named_endpoint(text)
