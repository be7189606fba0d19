"""Encrypted HELLO, as 1.16 sends it with encryptedHelloEnabled: read by ztnode, and named where it cannot be.

The packet was sent on a wire by ZeroTier's own program to a node with the identity below; both were made for it.
"""

from __future__ import annotations

import subprocess

import pytest

from lab.process import wait
from tests.engine.test_contract import PORT, Host, Node, engine, hosts, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

SENDER, RECEIVER = "a8bbc141fd", "98307c60f3"
SECRET = (
    "98307c60f3:0:8b659d295c5e987424b459927c37f0916de3dfdd47f8739a2223eeff14c0d335c9085a3fd3a45fd099d"
    "a762d0f4decc7bae58312f239c24adde086fe54ebfa2b:d4fcd38cb3cf57ccfc487755760a4916ac81109a2ff8bc8d98"
    "713dddf09b3026c04876ef4c3473f94a19c28ca4192964fd1fd749bcf2a65e967718e2b7557982"
)
PACKET = bytes.fromhex(
    "b50e31c3b2fda0f198307c60f3a8bbc141fd800c0a5cc428f4144c4a6c2b0779f91c70d6722dde934c755e767fa31927"
    "d226b67aa77ead2e732a6ed4ef4cdba2bc15f4466d34b7d88f70109f6e74beb40cd0dd1c3f603f78c87e223f7933f8ba"
    "e8d094a42fc77038cafbd76b16f706961d3381270c0e9e784fa816281261eee7a07d1e82f294ac0f084fba0c09f388ad"
    "002bc6dff3542d3c11dce281764a6c33d23549c9895cc3b665"
)
SOURCE, FLAGS = 13, 18


@pytest.fixture
def receiver(node: Node) -> Node:
    (node.home / "identity.secret").write_text(SECRET)
    (node.home / "identity.secret").chmod(0o600)
    node.start()
    code, status = node.get("/status")
    assert code == 200 and status["address"] == RECEIVER and status["unreadHello"] == []
    return node


def send(host: Host, packet: bytes, times: int = 1) -> str:
    """Send it to the receiver; the first answer within a second as hex, empty when there is none."""
    program = (
        "import socket,sys\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(1); s.bind(('198.51.100.2',0))\n"
        f"for _ in range({times}): s.sendto(bytes.fromhex(sys.argv[1]),('198.51.100.1',{PORT}))\n"
        "try: print(s.recv(2000).hex())\n"
        "except TimeoutError: pass\n"
    )
    command = ["ip", "netns", "exec", host.name, "/usr/bin/python3", "-c", program, packet.hex()]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def peers(node: Node) -> set[str]:
    return {peer["address"] for peer in node.get("/peer")[1]}


def test_it_is_read_and_answered(receiver: Node, hosts: tuple[Host, Host]) -> None:
    answer = bytes.fromhex(send(hosts[1], PACKET))
    assert answer[8:13].hex() == SENDER and answer[SOURCE:FLAGS].hex() == RECEIVER
    assert (answer[FLAGS] >> 3) & 7 in (1, 3), "an OK is encrypted for the sender"
    (peer,) = [peer for peer in receiver.get("/peer")[1] if peer["address"] == SENDER]
    assert peer["version"] == "1.15.0"
    assert receiver.get("/status")[1]["unreadHello"] == []


def test_who_cannot_be_read_is_named_and_harms_nobody(receiver: Node, hosts: tuple[Host, Host]) -> None:
    broken = PACKET[:-1] + bytes([PACKET[-1] ^ 1])  # another ephemeral key: it opens to nonsense
    assert send(hosts[1], broken, times=3) == ""
    wait(lambda: receiver.get("/status")[1]["unreadHello"], timeout=5, what="the sender named")
    (sender,) = receiver.get("/status")[1]["unreadHello"]
    assert (sender["address"], sender["count"]) == (SENDER, 3)
    # What is for another node, a fragment, or too short is none of its business.
    other = broken[:8] + bytes.fromhex("1111111111") + broken[13:]
    for packet in (other, broken[:SOURCE] + b"\xff" + broken[14:], broken[:40], broken[:19]):
        assert send(hosts[1], packet) == ""
    assert receiver.get("/status")[1]["unreadHello"][0]["count"] == 3 and SENDER not in peers(receiver)
    assert send(hosts[1], PACKET) and SENDER in peers(receiver)


def test_a_flood_of_them_is_bounded(receiver: Node, hosts: tuple[Host, Host]) -> None:
    program = (
        "import os,socket\n"
        f"p=bytes.fromhex({PACKET.hex()!r})\n"
        "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
        "for n in range(5000): s.sendto(p[:13]+(n+1).to_bytes(5,'big')+p[18:-4]+os.urandom(4),('198.51.100.1',%d))\n" % PORT
    )
    hosts[1].run("/usr/bin/python3", "-c", program)
    senders = receiver.get("/status")[1]["unreadHello"]
    assert 0 < len(senders) <= 32
    # A second later it reads those that it can again.
    wait(lambda: send(hosts[1], PACKET) != "", timeout=10, what="an answer after the flood")
