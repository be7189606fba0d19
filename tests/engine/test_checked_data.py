"""Every byte that two instances carry is the one that was sent: TCP and UDP, IPv4 and IPv6, both ways at once.

``make test-data GIGABYTES=200`` sends much; ``make test`` a little of the same.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.process import run
from tests.attack.settings import ATTACK
from tests.engine.test_contract import Host, Node, engine, hosts  # noqa: F401 (fixtures)
from tests.engine.test_datagrams import TAP, UNDERLAY, Make, ends, packets  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

AMOUNT, SEED = ATTACK.gigabytes * 1e9, ATTACK.seed  # bytes
PROGRAM = Path(__file__).with_name("stream.py")
FILTER = """
add table inet wire
add chain inet wire out { type filter hook output priority 0; }
add rule inet wire out udp dport 9993 numgen random mod @MOD@ == 0 @ACTION@
"""


@dataclass(frozen=True)
class Case:
    """Conditions, and the share of all data that is sent under them; ``wire`` is what happens to one packet in a thousand."""

    name: str
    share: float
    off: tuple[str, ...] = ()
    wire: str = ""


CASES = (
    Case("all offloads", 0.4),
    Case("no shortcut", 0.2, ("shortcut",)),
    Case("frames one by one", 0.1, tuple(TAP)),
    Case("packets one by one", 0.1, ("underlay-gso", "underlay-gro")),
    Case("no offload", 0.1, (*TAP, *UNDERLAY)),
    Case("lost packets", 0.05, wire="drop"),
    Case("changed packets", 0.05, wire="@th,400,8 set 0x55"),
)
# Kind, address at the near and the far end, which end sends, and the share of a case's data.
FLOWS = (
    ("tcp", "10.14.0.1", "10.14.0.2", "near", 0.35),
    ("tcp", "2001:db8:14::1", "2001:db8:14::2", "near", 0.25),
    ("tcp", "10.14.0.1", "10.14.0.2", "far", 0.3),
    ("udp", "10.14.0.1", "10.14.0.2", "near", 0.05),
    ("udp", "2001:db8:14::1", "2001:db8:14::2", "far", 0.05),
)


def stream(host: Host, words: Sequence[object]) -> subprocess.Popen[str]:
    """One end of checked data in a namespace."""
    command = ["ip", "netns", "exec", host.name, "/usr/bin/python3", str(PROGRAM), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


@contextmanager
def traffic(a: Node, b: Node, amount: float) -> Iterator[list[dict[str, int]]]:
    """All flows at once, ``amount`` bytes together; yields what the receivers have."""
    with ExitStack() as stack:
        receivers, senders = [], []
        for number, (kind, near, far, sender, share) in enumerate(FLOWS):
            target = near if sender == "far" else far
            words = [kind, target, 7000 + number, int(amount * share), SEED + number]
            receiver = stream((a if sender == "far" else b).host, ["receive", *words])
            stack.callback(receiver.kill)
            receivers.append(receiver)
            assert receiver.stdout and receiver.stdout.readline() == "listening\n"
        for number, (kind, near, far, sender, share) in enumerate(FLOWS):
            target = near if sender == "far" else far
            process = stream(
                (b if sender == "far" else a).host, ["send", kind, target, 7000 + number, int(amount * share), SEED + number]
            )
            stack.callback(process.kill)
            senders.append(process)
        limit = 60 + amount / 5e6  # seconds: 40 Mbit/s
        assert [sender.wait(timeout=limit) for sender in senders] == [0] * len(senders)
        found = []
        for receiver, flow in zip(receivers, FLOWS, strict=True):
            if flow[0] == "udp":
                receiver.terminate()
            found.append(json.loads(receiver.communicate(timeout=30)[0]))
        yield found


def preferred(node: Node) -> list[str]:
    """The addresses that an instance sends to."""
    peers = node.get("/peer")[1]
    assert isinstance(peers, list)
    return [path["address"] for peer in peers for path in peer["paths"] if path["preferred"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_data_arrives_as_it_was_sent(ends: Make, case: Case) -> None:
    a, b = ends(case.off)
    if case.wire:
        rules = FILTER.replace("@MOD@", "1000").replace("@ACTION@", case.wire)
        for node in (a, b):
            run(["ip", "netns", "exec", node.host.name, "nft", "-f", "-"], text_input=rules)
    before, paths = packets(b, "rx"), [preferred(node) for node in (a, b)]
    with traffic(a, b, AMOUNT * case.share) as found:
        print(f"{case.name}: {sum(each['bytes'] for each in found) / 1e9:.2f} GB checked, {found}")
        print(f"preferred paths, before and after: {paths}, {[preferred(node) for node in (a, b)]}")
        assert packets(b, "rx") > before
        for (kind, *_, share), each in zip(FLOWS, found, strict=True):
            assert each["wrong"] == 0
            if kind == "tcp":
                assert each["bytes"] >= int(AMOUNT * case.share * share)
            else:
                assert each["pieces"] and each["late"] == 0
