"""Devices, their addresses and their neighbours as values and in messages; pure.

Numbers are those of linux/if_link.h, linux/if_addr.h and linux/neighbour.h.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from zerotier_multi.netlink.messages import attribute, attributes, family_of, nested, packed, u32

_IFF_UP, _IFF_POINTOPOINT, _IFF_LOWER_UP = 0x1, 0x10, 0x10000
_IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_IFALIAS, _IFLA_AF_SPEC = 3, 4, 10, 18, 20, 26
_IFLA_GROUP = 27
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _IFLA_VRF_TABLE = 1, 2, 1
_IFLA_INET6_ADDR_GEN_MODE, _ADDR_GEN_NONE = 8, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS, _IFA_F_NODAD, IFA_F_PERMANENT = 1, 2, 8, 0x02, 0x80
_IFA_F_DADFAILED, IFA_F_TENTATIVE = 0x08, 0x40
_IFA_F_TEMPORARY, _IFA_F_DEPRECATED = 0x01, 0x20  # the first is that of a secondary address in IPv4
NDA_DST, _NDA_LLADDR, NUD_PERMANENT = 1, 2, 0x80

ALL_LINKS = struct.pack("=BxHiII", 0, 0, 0, 0, 0)
ALL_ADDRESSES = struct.pack("=BBBBi", 0, 0, 0, 0, 0)
ALL_NEIGHBOURS = struct.pack("=BxxxiHBB", 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Link:
    """A network device; ``table`` is the routing table of a VRF device, else None. ``mtu`` in bytes.

    ``master`` is 0 for a device without one.
    """

    index: int
    name: str
    kind: str | None
    mtu: int
    up: bool
    carrier: bool
    master: int = 0
    alias: str = ""
    group: int = 0
    table: int | None = None
    point_to_point: bool = False


@dataclass(frozen=True)
class Address:
    """An address with its length on a device."""

    index: int
    interface: str

    @property
    def is_global(self) -> bool:
        """Whether it is known beyond its link."""
        own = ipaddress.ip_interface(self.interface).ip
        return not (own.is_link_local or own.is_loopback)


@dataclass(frozen=True)
class Neighbour:
    """A neighbour entry with its link-layer address."""

    index: int
    address: str
    lladdr: str


def routing_domain(index: int, links: Mapping[int, Link]) -> str | None:
    """Name of the VRF that a device is in or is itself, by way of the bridge or bond that it is a port of; None where it is in none.

    ``links`` are all devices by ifindex.
    """
    passed = set[int]()
    while (link := links.get(index)) and index not in passed:
        if link.table is not None:
            return link.name
        passed.add(index)
        index = link.master
    return None


def parse_link(body: bytes) -> Link:
    """A Link out of the body of an RTM_NEWLINK or RTM_DELLINK message."""
    _family_, _type, index, flags, _change = struct.unpack_from("=BxHiII", body)
    values = attributes(body[16:])
    info = attributes(values.get(_IFLA_LINKINFO, b""))
    kind = info[_IFLA_INFO_KIND].rstrip(b"\0").decode() if _IFLA_INFO_KIND in info else None
    data = attributes(info.get(_IFLA_INFO_DATA, b"")) if kind == "vrf" else {}
    return Link(
        index=index,
        name=values.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode(),
        kind=kind,
        mtu=u32(values[_IFLA_MTU]) if _IFLA_MTU in values else 0,
        up=bool(flags & _IFF_UP),
        carrier=bool(flags & _IFF_LOWER_UP),
        master=u32(values[_IFLA_MASTER]) if _IFLA_MASTER in values else 0,
        alias=values.get(_IFLA_IFALIAS, b"").rstrip(b"\0").decode("utf-8", "replace"),
        group=u32(values[_IFLA_GROUP]) if _IFLA_GROUP in values else 0,
        table=u32(data[_IFLA_VRF_TABLE]) if _IFLA_VRF_TABLE in data else None,
        point_to_point=bool(flags & _IFF_POINTOPOINT),
    )


def link_request(index: int, values: bytes = b"", up: bool | None = None) -> bytes:
    """A message about a device (0: one that is to be made); ``up`` None leaves that as it is."""
    change = _IFF_UP if up is not None else 0
    return struct.pack("=BxHiII", 0, 0, index, _IFF_UP if up else 0, change) + values


def new_link(name: str, kind: str, group: int) -> bytes:
    """What makes a virtual device without settings, with a link group."""
    values = attribute(_IFLA_IFNAME, name) + nested(_IFLA_LINKINFO, attribute(_IFLA_INFO_KIND, kind))
    return link_request(0, values + attribute(_IFLA_GROUP, group))


def link_change(index: int, up: bool | None, mtu: int | None, master: int | None, alias: str | None) -> bytes:
    """What changes a device; None leaves a thing as it is."""
    values = b""
    if mtu is not None:
        values += attribute(_IFLA_MTU, mtu)
    if master is not None:
        values += attribute(_IFLA_MASTER, master)
    if alias is not None:
        values += attribute(_IFLA_IFALIAS, alias.encode())
    return link_request(index, values, up)


def no_link_local(index: int) -> bytes:
    """What keeps the kernel from giving a device an IPv6 link-local address by itself."""
    inet6 = nested(socket.AF_INET6, attribute(_IFLA_INET6_ADDR_GEN_MODE, bytes([_ADDR_GEN_NONE])))
    return link_request(index, nested(_IFLA_AF_SPEC, inet6))


def parse_address(body: bytes) -> tuple[Address, int] | None:
    """An address and its flags; None for one of another family, or one that another machine has too."""
    family, length, _flags, _scope, index = struct.unpack_from("=BBBBi", body)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    values = attributes(body[8:])
    flags = u32(values[_IFA_FLAGS]) if _IFA_FLAGS in values else _flags
    if flags & _IFA_F_DADFAILED:
        return None
    address = ipaddress.ip_address(values.get(_IFA_LOCAL) or values[_IFA_ADDRESS])
    return Address(index, f"{address}/{length}"), flags


def passing(address: Address, flags: int) -> str:
    """Why a device will not keep an address: it is ``temporary`` (RFC 8981) or ``deprecated``; empty for one that stays."""
    if flags & _IFA_F_DEPRECATED:
        return "deprecated"
    return "temporary" if flags & _IFA_F_TEMPORARY and ":" in address.interface else ""


def address_request(address: Address) -> bytes:
    """A message about an address, in use at once (no duplicate address detection)."""
    interface = ipaddress.ip_interface(address.interface)
    family = family_of(address.interface)
    body = struct.pack("=BBBBi", family, interface.network.prefixlen, 0, 0, address.index)
    body += attribute(_IFA_LOCAL, interface.ip.packed) + attribute(_IFA_ADDRESS, interface.ip.packed)
    if family == socket.AF_INET6:
        body += attribute(_IFA_FLAGS, _IFA_F_NODAD)
    return body


def parse_neighbour(body: bytes) -> tuple[Neighbour, int] | None:
    """A neighbour entry and its state (NUD_*); None for one without a link-layer address."""
    _family_, index, state, _flags, _type = struct.unpack_from("=BxxxiHBB", body)
    values = attributes(body[12:])
    if NDA_DST not in values or len(values.get(_NDA_LLADDR, b"")) != 6:
        return None
    return Neighbour(index, str(ipaddress.ip_address(values[NDA_DST])), values[_NDA_LLADDR].hex(":")), state


def neighbour_request(neighbour: Neighbour, *, new: bool) -> bytes:
    """What makes a permanent neighbour entry, or deletes one."""
    state = NUD_PERMANENT if new else 0
    body = struct.pack("=BxxxiHBB", family_of(neighbour.address), neighbour.index, state, 0, 0)
    body += attribute(NDA_DST, packed(neighbour.address))
    return body + attribute(_NDA_LLADDR, bytes.fromhex(neighbour.lladdr.replace(":", ""))) if new else body
