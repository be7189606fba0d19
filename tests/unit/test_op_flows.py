"""Flows out of the kernel's tables, and where they are asked for."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from zerotier_multi.netlink.messages import attribute, attributes
from zerotier_multi.netlink.sockets import KernelError
from zerotier_multi.op import flows
from zerotier_multi.op.flows import Placement, conntrack_flows, inside, read_flows, socket_flows
from zerotier_multi.netlink.links import Link
from zerotier_multi.netlink.routes import Flow
from zerotier_multi.netlink.rtnl import Rtnl

WANTED = inside(["10.0.55.2/32", "10.9.0.0/16", "2001:db8:55::/64"])
TCP, UDP, ICMP = 6, 17, 1
TRACKED = """\
ipv4     2 tcp      6 431999 ESTABLISHED src=192.0.2.7 dst=10.9.1.1 sport=40000 dport=443 src=10.9.1.1 dst=192.0.2.7 sport=443 dport=40000 [ASSURED] mark=0 use=1
ipv4     2 udp      17 29 src=10.9.3.3 dst=192.0.2.8 sport=5000 dport=53 [UNREPLIED] src=192.0.2.8 dst=10.9.3.3 sport=53 dport=5000 mark=0 use=1
ipv4     2 icmp     1 29 src=192.0.2.7 dst=10.0.55.2 type=8 code=0 id=7 src=10.0.55.2 dst=192.0.2.7 type=0 code=0 id=7 mark=0 use=1
ipv4     2 tcp      6 1 ESTABLISHED src=192.0.2.7 dst=203.0.113.9 sport=1 dport=2 src=203.0.113.9 dst=192.0.2.7 sport=2 dport=1 use=1
ipv6     10 tcp      6 9 ESTABLISHED src=2001:0db8:0001:0000:0000:0000:0000:0001 dst=2001:0db8:0055:0000:0000:0000:0000:0002 sport=1 dport=2 src=2001:0db8:0055:0000:0000:0000:0000:0002 dst=2001:0db8:0001:0000:0000:0000:0000:0001 sport=2 dport=1 use=2
garbage
ipv4     2 tcp      6 1 ESTABLISHED src=192.0.2.7 dst=10.9.1.1 sport=x dport=2
"""


def test_tracked_flows_are_taken_in_the_direction_of_the_remotes() -> None:
    assert list(conntrack_flows(TRACKED.splitlines(), WANTED)) == [
        Flow(TCP, "192.0.2.7", "10.9.1.1", 40000, 443),
        Flow(UDP, "192.0.2.8", "10.9.3.3", 53, 5000),
        Flow(ICMP, "192.0.2.7", "10.0.55.2", None, None),
        Flow(TCP, "2001:db8:1::1", "2001:db8:55::2", 1, 2),
    ]


@pytest.mark.skipif(sys.byteorder != "little", reason="the samples are those of a little-endian machine")
def test_connected_sockets() -> None:
    v4 = [
        "  sl  local_address rem_address   st",
        "   0: 0137000A:9C40 0237000A:1451 0A 00000000:00000000",  # listens
        "   1: 0137000A:9C40 0237000A:1451 01 00000000:00000000",
        "   2: 0137000A:9C40 0101A8C0:1451 01 00000000:00000000",  # leads elsewhere
        "   3: nonsense nonsense 01",
    ]
    assert list(socket_flows("tcp", v4, WANTED)) == [Flow(TCP, "10.0.55.1", "10.0.55.2", 40000, 5201)]
    v6 = "   1: B80D0120000055000000000001000000:0001 B80D0120000055000000000002000000:0002 01"
    assert list(socket_flows("udp6", [v6], WANTED)) == [Flow(UDP, "2001:db8:55::1", "2001:db8:55::2", 1, 2)]
    mapped = "   1: 0000000000000000FFFF00000137000A:0001 0000000000000000FFFF00000237000A:0002 01"
    assert list(socket_flows("tcp6", [mapped], WANTED)) == [Flow(TCP, "10.0.55.1", "10.0.55.2", 1, 2)]


def test_the_source_of_flows_is_connection_tracking_where_it_is_in_use(tmp_path: Path, monkeypatch) -> None:
    assert read_flows(WANTED, tmp_path) == ("sockets", [], False)
    (tmp_path / "nf_conntrack").write_text("")
    assert read_flows(WANTED, tmp_path)[0] == "sockets"
    (tmp_path / "nf_conntrack").write_text(TRACKED)
    source, found, capped = read_flows(WANTED, tmp_path)
    assert (source, len(found), capped) == ("conntrack", 4, False)
    monkeypatch.setattr(flows, "LIMIT", 3)
    assert len(read_flows(WANTED, tmp_path)[1]) == 3 and read_flows(WANTED, tmp_path)[2]


class FakeRtnl:
    """Answers from a table, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Flow, int, int]] = []

    def egress(self, flow: Flow, *, iif: int = 0, oif: int = 0) -> int | None:
        self.asked.append((flow, iif, oif))
        return {"192.0.2.7": 2, "10.9.1.1": 11}.get(flow.destination)


def test_a_forwarded_flow_is_asked_for_as_it_comes_in() -> None:
    links = {"eth0": Link(2, "eth0", None, 1500, True, True), "zt0p1": Link(11, "zt0p1", "tun", 1394, True, True)}
    rtnl = FakeRtnl()
    placement = Placement(rtnl, links, ["10.0.55.1"], None)
    forwarded, own = Flow(TCP, "192.0.2.7", "10.9.1.1", 1, 2), Flow(TCP, "10.0.55.1", "10.9.1.1", 1, 2)
    assert placement.device(forwarded) == placement.device(own) == "zt0p1"
    assert rtnl.asked[1:] == [(forwarded, 2, 0), (own, 0, 0)]
    assert placement.device(Flow(TCP, "10.0.55.1", "203.0.113.1", 1, 2)) is None


class FakeSocket:
    def __init__(self) -> None:
        self.body = b""

    def answer(self, _kind: int, body: bytes) -> bytes:
        self.body = body
        return bytes(12) + attribute(4, 12)


def test_the_question_to_the_kernel_names_protocol_and_ports() -> None:
    rtnl = object.__new__(Rtnl)
    rtnl._socket = FakeSocket()
    assert rtnl.egress(Flow(TCP, "10.0.55.1", "10.0.55.2", 40000, 5201), iif=3) == 12
    body = rtnl._socket.body
    assert struct.unpack_from("=BBB", body) == (2, 32, 32)
    values = attributes(body[12:])
    assert values[1] == bytes([10, 0, 55, 2]) and values[2] == bytes([10, 0, 55, 1])
    assert values[3] == struct.pack("=I", 3)
    assert (values[27], values[28], values[29]) == (b"\x06", struct.pack(">H", 40000), struct.pack(">H", 5201))
    rtnl.egress(Flow(ICMP, "10.0.55.1", "10.0.55.2", None, None))
    assert not {27, 28, 29} & set(attributes(rtnl._socket.body[12:]))


def test_a_flow_without_a_way_has_no_device() -> None:
    def refuse(_kind: int, _body: bytes) -> bytes:
        raise KernelError(101, "Network is unreachable")

    rtnl = object.__new__(Rtnl)
    rtnl._socket = FakeSocket()
    rtnl._socket.answer = refuse
    assert rtnl.egress(Flow(ICMP, "10.0.55.1", "203.0.113.1", None, None)) is None
