"""Routing rules as values and in messages; pure. Numbers are those of linux/fib_rules.h."""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import dataclass

from zerotier_multi.names import RT_PROTO
from zerotier_multi.netlink.messages import attribute, attributes, packed, u32

_FRA_SRC, _FRA_PRIORITY, _FRA_SUPPRESS_PREFIXLEN, _FRA_TABLE = 2, 6, 14, 15
_FRA_PROTOCOL, _FRA_IP_PROTO, _FRA_SPORT_RANGE, _FR_ACT_TO_TBL = 21, 22, 23, 1
_FRA_FWMARK, _FRA_FWMASK, _FIB_RULE_INVERT = 10, 16, 2

FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass(frozen=True)
class Rule:
    """A routing rule: what a UDP port sends from an address is looked up in a table, without its default route if so wanted.

    Without a port it takes everything, without a source what comes from anywhere.
    """

    family: int  # 4 or 6
    priority: int
    source: str
    port: int
    table: int
    no_default: bool = False


@dataclass(frozen=True, order=True)
class Mark:
    """A firewall mark that a routing rule of anybody asks for."""

    family: int  # 4 or 6
    value: int
    mask: int

    def __str__(self) -> str:
        return f"{self.value:#x}" if self.mask == 0xFFFFFFFF else f"{self.value:#x}/{self.mask:#x}"


def all_rules(family: int) -> bytes:
    """A question for the rules of a family (4 or 6)."""
    return struct.pack("=BBBBBBBBI", FAMILIES[family], 0, 0, 0, 0, 0, 0, 0, 0)


def parse_rule(family: int, body: bytes) -> Rule | None:
    """A rule with our protocol number; None for one of others."""
    values = attributes(body[12:])
    if values.get(_FRA_PROTOCOL, b"\0")[0] != RT_PROTO:
        return None
    port = struct.unpack_from("=H", values[_FRA_SPORT_RANGE])[0] if _FRA_SPORT_RANGE in values else 0
    source = str(ipaddress.ip_address(values[_FRA_SRC])) if _FRA_SRC in values else ""
    suppress = u32(values.get(_FRA_SUPPRESS_PREFIXLEN, b"\xff" * 4)) == 0
    return Rule(family, u32(values.get(_FRA_PRIORITY, bytes(4))), source, port, u32(values[_FRA_TABLE]), suppress)


def parse_mark(family: int, body: bytes) -> Mark | None:
    """The mark that a rule asks for; None where it asks for none, or for all others."""
    values = attributes(body[12:])
    value = u32(values.get(_FRA_FWMARK, bytes(4)))
    if not value or struct.unpack_from("=I", body, 8)[0] & _FIB_RULE_INVERT:
        return None
    return Mark(family, value, u32(values.get(_FRA_FWMASK, b"\xff" * 4)))


def rule_request(rule: Rule) -> bytes:
    """What makes a rule, or deletes it."""
    bits = 0 if not rule.source else 32 if rule.family == 4 else 128
    body = struct.pack("=BBBBBBBBI", FAMILIES[rule.family], 0, bits, 0, 0, 0, 0, _FR_ACT_TO_TBL, 0)
    body += attribute(_FRA_PRIORITY, rule.priority) + attribute(_FRA_TABLE, rule.table)
    body += attribute(_FRA_PROTOCOL, bytes([RT_PROTO]))
    if rule.source:
        body += attribute(_FRA_SRC, packed(rule.source))
    if rule.port:
        body += attribute(_FRA_IP_PROTO, bytes([socket.IPPROTO_UDP]))
        body += attribute(_FRA_SPORT_RANGE, struct.pack("=HH", rule.port, rule.port))
    if rule.no_default:
        body += attribute(_FRA_SUPPRESS_PREFIXLEN, 0)
    return body
