"""Packets as an attacker makes them, whole and with right checksums; pure."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address

from zerotier_multi.pathd.probe.wire import checksum

ICMP, TCP, UDP, ICMP6 = 1, 6, 17, 58
ETHERTYPE = {4: 0x0800, 6: 0x86DD}
ARP = 0x0806
BROADCAST = "ff:ff:ff:ff:ff:ff"


def mac(text: str) -> bytes:
    """Six bytes of a MAC."""
    return bytes.fromhex(text.replace(":", ""))


def frame(target: str, source: str, kind: int, payload: bytes) -> bytes:
    """An Ethernet frame; addresses as text."""
    return mac(target) + mac(source) + struct.pack("!H", kind) + payload


def _pseudo(source: str, target: str, protocol: int, length: int) -> bytes:
    ends = ip_address(source).packed + ip_address(target).packed
    return ends + (struct.pack("!BBH", 0, protocol, length) if len(ends) == 8 else struct.pack("!I3xB", length, protocol))


def ip(source: str, target: str, protocol: int, payload: bytes, hops: int = 64, options: bytes = b"") -> bytes:
    """An IP packet of the family of its addresses; ``options`` are those of IPv4, a multiple of four bytes."""
    ends = ip_address(source).packed + ip_address(target).packed
    if len(ends) == 32:
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, hops) + ends + payload
    size = 20 + len(options)
    head = struct.pack("!BBHHHBBH", 0x40 | size // 4, 0, size + len(payload), 0, 0, hops, protocol, 0) + ends + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def udp(source: str, target: str, port: int, payload: bytes, **options: object) -> bytes:
    """A UDP packet to a port, from that port too."""
    head = struct.pack("!HHHH", port, port, 8 + len(payload), 0) + payload
    sum_ = checksum(_pseudo(source, target, UDP, len(head)) + head) or 0xFFFF
    return ip(source, target, UDP, head[:6] + struct.pack("!H", sum_) + head[8:], **options)  # type: ignore[arg-type]


def icmp(source: str, target: str, message: bytes, hops: int = 64) -> bytes:
    """An ICMP or ICMPv6 packet whose message has zeros where its checksum goes."""
    six = ":" in source
    sum_ = checksum((_pseudo(source, target, ICMP6, len(message)) if six else b"") + message)
    return ip(source, target, ICMP6 if six else ICMP, message[:2] + struct.pack("!H", sum_) + message[4:], hops)


def redirect(source: str, target: str, gateway: str, quoted: bytes, gateway_mac: str) -> bytes:
    """The message that what ``target`` sends as ``quoted`` (a packet) shall go by way of ``gateway``."""
    if ":" in gateway:
        destination = quoted[24:40]
        body = bytes(4) + ip_address(gateway).packed + destination + b"\x02\x01" + mac(gateway_mac)
        return icmp(source, target, bytes([137, 0, 0, 0]) + body, 255)
    return icmp(source, target, bytes([5, 1, 0, 0]) + ip_address(gateway).packed + quoted[:28])


def router_advertisement(source: str, lifetime: int, prefix: str, mtu: int, source_mac: str) -> bytes:
    """From a router that offers itself as default and has ``prefix`` (a /64) on the link, to all nodes."""
    head = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, lifetime, 0, 0)
    options = b"\x01\x01" + mac(source_mac) + struct.pack("!BBHI", 5, 1, 0, mtu)
    options += struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 3600, 3600, 0) + ip_address(prefix).packed
    # A more specific route (RFC 4191), and a server of names.
    options += struct.pack("!BBBBI", 24, 3, 64, 0x08, 3600) + ip_address("2001:db8:bad::").packed
    return icmp(source, "ff02::1", head + options, 255)


def neighbour_advertisement(source: str, target: str, claimed: str, claimed_mac: str) -> bytes:
    """That ``claimed`` is at that MAC, and an entry that says otherwise is wrong."""
    head = struct.pack("!BBHI", 136, 0, 0, 0xA0000000 if target == "ff02::1" else 0xE0000000)
    return icmp(source, target, head + ip_address(claimed).packed + b"\x02\x01" + mac(claimed_mac), 255)


def neighbour_solicitation(source: str, target: str, asked: str, source_mac: str) -> bytes:
    """A question for the link-layer address of ``asked``, with the one's who asks."""
    body = b"\x87\0\0\0" + bytes(4) + ip_address(asked).packed + b"\x01\x01" + mac(source_mac)
    return icmp(source, target, body, hops=255)


def arp(operation: int, sender_mac: str, sender: str, target_mac: str, target: str) -> bytes:
    """An ARP request (1) or answer (2)."""
    ends = mac(sender_mac) + ip_address(sender).packed + mac(target_mac) + ip_address(target).packed
    return struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + ends


def source_route(hops: Sequence[str], strict: bool = False) -> bytes:
    """The IPv4 option by which a packet is sent on to other addresses (RFC 791), padded."""
    way = b"".join(socket.inet_aton(hop) for hop in hops)
    option = bytes([137 if strict else 131, 3 + len(way), 4]) + way
    return option + bytes(-len(option) % 4)
