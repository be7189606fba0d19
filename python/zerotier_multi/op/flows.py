"""Conversations that lead to the remotes, and the device that the kernel sends each of them to."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from zerotier_multi.netlink.links import Link
from zerotier_multi.netlink.routes import Flow
from zerotier_multi.netlink.rtnl import Rtnl

LIMIT = 4096  # flows that are looked at
_ESTABLISHED = "01"
_TCP, _UDP = int(socket.IPPROTO_TCP), int(socket.IPPROTO_UDP)
_PROTOCOLS = {"tcp": _TCP, "tcp6": _TCP, "udp": _UDP, "udp6": _UDP}

Inside = Callable[[str], bool]


@dataclass(frozen=True)
class FlowCount:
    """Flows on each device by name; ``source`` is ``conntrack`` or ``sockets``.

    ``elsewhere`` is how many the kernel sends to no member device or has no way for; ``capped`` says that there
    may be more than were looked at.
    """

    source: str
    by_device: dict[str, int]
    elsewhere: int
    capped: bool


def inside(prefixes: Iterable[str]) -> Inside:
    """Test whether an address lies in one of the prefixes."""
    networks = [ipaddress.ip_network(prefix) for prefix in prefixes]

    def test(address: str) -> bool:
        parsed = ipaddress.ip_address(address)
        return any(parsed.version == n.version and parsed in n for n in networks)

    return test


def conntrack_flows(lines: Iterable[str], wanted: Inside) -> Iterator[Flow]:
    """The direction towards the remotes of every entry of ``/proc/net/nf_conntrack``."""
    for line in lines:
        words = line.split()
        if len(words) < 4 or not words[3].isdigit():
            continue
        pairs = [word.partition("=") for word in words if "=" in word]
        for begin in [at for at, (key, _, _) in enumerate(pairs) if key == "src"][:2]:
            one = {key: value for key, _, value in reversed(pairs[begin : begin + 4])}
            try:
                if not wanted(one["dst"]):
                    continue
                ports = int(words[3]) in (_TCP, _UDP)
                sport, dport = (int(one[key]) if ports else None for key in ("sport", "dport"))
                yield Flow(int(words[3]), _plain(one["src"]), _plain(one["dst"]), sport, dport)
            except (KeyError, ValueError):
                continue
            break


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address))


def socket_flows(table: str, lines: Iterable[str], wanted: Inside) -> Iterator[Flow]:
    """Connected sockets of ``/proc/net/{tcp,tcp6,udp,udp6}``, ``table`` being the file's name."""
    for line in lines:
        words = line.split()
        if len(words) < 4 or words[3] != _ESTABLISHED:
            continue
        try:
            (source, sport), (destination, dport) = (_socket_address(word) for word in words[1:3])
            if wanted(destination):
                yield Flow(_PROTOCOLS[table], source, destination, sport, dport)
        except ValueError:
            continue


def _socket_address(text: str) -> tuple[str, int]:
    """An address as /proc writes it: words of 32 bits in the byte order of this machine, in hex."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def read_flows(wanted: Inside, proc: Path = Path("/proc/net")) -> tuple[str, list[Flow], bool]:
    """Flows of this router, from connection tracking where that is in use, otherwise those of its own sockets.

    Returns the source, at most :data:`LIMIT` flows, and whether there may be more.
    """
    for source, found in (("conntrack", _tracked(wanted, proc)), ("sockets", _own(wanted, proc))):
        try:
            flows = list(islice(found, LIMIT + 1))
        except OSError:
            continue
        return source, flows[:LIMIT], len(flows) > LIMIT
    return "sockets", [], False


def _tracked(wanted: Inside, proc: Path) -> Iterator[Flow]:
    """Raises OSError where no connection is tracked: no such file, or an empty one."""
    with (proc / "nf_conntrack").open() as file:
        first = file.readline()
        if not first:
            raise FileNotFoundError("no connection is tracked")
        yield from conntrack_flows([first], wanted)
        yield from conntrack_flows(file, wanted)


def _own(wanted: Inside, proc: Path) -> Iterator[Flow]:
    for table in _PROTOCOLS:
        try:
            with (proc / table).open() as file:
                yield from socket_flows(table, file, wanted)
        except FileNotFoundError:  # no IPv6 on this box
            continue


class Placement:
    """Asks the kernel where it sends flows; forwarded ones are asked for as they come in."""

    def __init__(self, rtnl: Rtnl, links: Mapping[str, Link], own: Iterable[str], vrf: str | None) -> None:
        """``own`` are the addresses of this router, ``vrf`` is the VRF that the flows are in."""
        self._rtnl = rtnl
        self._names = {link.index: name for name, link in links.items()}
        self._vrf = links[vrf].index if vrf and vrf in links else 0
        self._incoming = dict.fromkeys(own, 0)

    def device(self, flow: Flow) -> str | None:
        """Name of the device that packets of a flow leave by, or None where there is no way."""
        incoming = self._comes_in_by(flow.source)
        found = self._rtnl.egress(flow, iif=incoming, oif=0 if incoming else self._vrf)
        return None if found is None else self._names.get(found)

    def _comes_in_by(self, source: str) -> int:
        """ifindex that packets from an address come in by, 0 for this router's own addresses."""
        if source not in self._incoming:
            anybody = "::" if ":" in source else "0.0.0.0"
            self._incoming[source] = self._rtnl.egress(Flow(0, anybody, source, None, None), oif=self._vrf) or 0
        return self._incoming[source]


def count_flows(source: str, placed: Sequence[str | None], members: Iterable[str], capped: bool) -> FlowCount:
    """Flows per member device, given the device of each flow."""
    by_device = dict.fromkeys(members, 0)
    elsewhere = 0
    for device in placed:
        if device in by_device:
            by_device[device] += 1
        else:
            elsewhere += 1
    return FlowCount(source, by_device, elsewhere, capped)
