"""What is dropped before zerotier-one may believe it, in the real nftables of a namespace."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest
from tests.unit.op_box import PLAN
from tests.unit.test_nft import NAMESPACE, table  # noqa: F401 (fixture)
from zerotier_multi.pathd.nftables import table as nft
from zerotier_multi.pathd.nftables.table import Table
from zerotier_multi.pathd.nftables.unsealed import chains

THEIRS = replace(PLAN, instances=tuple(replace(i, engine="/usr/sbin/zerotier-one") for i in PLAN.instances[:2]))

# Sends each datagram to a socket of its own host, and tells which have come.
PROGRAM = """
import json, socket, sys
for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
    come = []
    for port, text in json.load(open(sys.argv[1])):
        with socket.socket(family, socket.SOCK_DGRAM) as to, socket.socket(family, socket.SOCK_DGRAM) as by:
            to.bind((host, port)); to.settimeout(2)
            for data in (bytes.fromhex(text), b"end"):
                by.sendto(data, (host, port))
            come.append(to.recv(4096) != b"end")
    print(json.dumps(come))
"""


def packet(flags: int = 0x10, mac: int = 0, source: int = 0x21) -> str:
    """A FRAME, in hex digits; by trusted path 0 as it is."""
    return (bytes(8) + bytes([0x11] * 5) + bytes([source] * 5) + bytes([flags]) + mac.to_bytes(8) + bytes([6]) + bytes(60)).hex()


def test_only_zerotier_one_needs_it() -> None:
    assert chains([PLAN]) == "" and chains([]) == ""
    assert "udp dport { 9993, 9994 } " in chains([THEIRS, replace(PLAN, bundle="zt1")])


@pytest.mark.parametrize("flags", [0x10, 0x13, 0x57])
def test_what_says_that_it_came_by_trusted_path_0_does_not_come(table: Table, flags: int, tmp_path) -> None:
    subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
    assert table.hold(nft.script(chains([THEIRS])), 0.0) == ([], [])
    cases = {
        (9993, packet(flags)): False,
        (9994, packet(flags)): False,
        (9995, packet(flags)): True,  # nobody's port
        (9993, packet(flags, mac=7)): True,  # a path that is configured, or a MAC
        (9993, packet(flags, mac=1 << 63)): True,
        (9993, packet(flags & ~0x38)): True,  # other ciphers
        (9993, packet(flags & ~0x38 | 0x08)): True,
        (9993, packet(flags & ~0x38 | 0x18)): True,
        (9993, packet(flags, source=0xFF)): True,  # a later part of a packet, which has no such head
        (9993, packet(flags)[:52]): True,  # shorter than a head
    }
    (tmp_path / "cases").write_text(json.dumps(list(cases)))
    command = ["ip", "netns", "exec", NAMESPACE, "/usr/bin/python3", "-c", PROGRAM, str(tmp_path / "cases")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert [json.loads(line) for line in told.splitlines()] == [list(cases.values())] * 2
