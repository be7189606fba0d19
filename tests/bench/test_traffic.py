"""What measuring programs print, and the commands that run them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bench.budget import words
from bench.ends import Cost, End, Place
from bench.machine import machine
from bench.measure.commit import configuration
from bench.measure.latency import round_trips
from bench.measure.profile import fold
from bench.measure.stalls import SECOND, readings, timeline
from bench.traffic import (
    KINDS, SEARCH, Carried, Senders, client_commands, combine, highest, over, received, received_iperf2, scaled, whole,
)  # fmt: skip
from lab.flows import Seen
from lab.link import Witness
from lab.process import LabError

TCP = {"end": {"sum_sent": {"bits_per_second": 9e8}, "sum_received": {"bits_per_second": 8e8}}}
UDP = {"end": {"sum": {"bits_per_second": 5e8, "lost_percent": 25.0}, "sum_received": {"bits_per_second": 4e8}}}
IPERF2 = """------------------------------------------------------------
Server listening on TCP port 5201
[  1] local 10.20.0.2 port 5201 connected with 10.20.0.1 port 35352
[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-2.0010 sec   120 MBytes   503 Mbits/sec
[  2] 0.0000-2.0010 sec   100 MBytes   419 Mbits/sec
"""


def test_what_arrived_counts():
    assert received(TCP) == (800, 0)
    assert received(UDP) == (400, 0.25)
    assert combine([TCP, UDP]) == (1200, 0.125)


def test_the_error_of_iperf3_is_told():
    with pytest.raises(LabError, match="iperf3: unable to connect"):
        received({"error": "unable to connect"})


def test_iperf2():
    assert received_iperf2(IPERF2) == 419
    assert received_iperf2(IPERF2 + "[SUM] 0.0000-2.0010 sec   220 MBytes   922 Mbits/sec\n") == 922
    with pytest.raises(LabError, match="printed no rate"):
        received_iperf2("connect failed")


def test_streams_are_shared_by_processes_with_a_port_each():
    commands = client_commands(KINDS["tcp-16"], "10.0.0.2", "10.0.0.1", 4)
    assert len(commands) == 4
    assert [c[c.index("-p") + 1] for c in commands] == ["5201", "5202", "5203", "5204"]
    assert all(c[c.index("-P") + 1] == "4" for c in commands)


def test_both_ways_are_two_processes():
    commands = client_commands(KINDS["tcp-bidir"], "10.0.0.2", "10.0.0.1", 4)
    assert ["-R" in command for command in commands] == [False, True]


def test_udp_is_sent_as_fast_as_possible():
    (command,) = client_commands(KINDS["udp-64"], "10.0.0.2", "10.0.0.1", 4)
    assert " ".join(command).endswith("-u -l 64 -b 0")


def test_a_rate_is_of_each_stream():
    commands = client_commands(KINDS["tcp-8"], "10.0.0.2", "10.0.0.1", 4, rate_mbit=12.5)
    assert all(c[c.index("-b") + 1] == "12.5M" for c in commands)


def test_udp_can_have_a_rate():
    kind = replace(KINDS["udp-1200 lossless"], buffer=4096)
    (command,) = client_commands(kind, "10.0.0.2", "10.0.0.1", 4, rate_mbit=300)
    assert " ".join(command).endswith("-u -l 1200 -b 300M -w 4096")


def link(carries: float, floods: float) -> Callable[[float], Carried]:
    """A link that loses what is beyond its capacity, and that carries less of a flood (rate 0)."""

    def send(rate: float) -> Carried:
        arrives = min(rate, carries) if rate else floods
        return Carried(arrives, 1 - arrives / (rate or 2 * floods), 1.0, Cost(1, 1), (f"-b {rate}",))

    return send


@pytest.mark.parametrize(("carries", "floods"), [(800, 500), (500, 500), (300, 500), (40, 500), (990, 500)])
def test_the_highest_rate_without_loss_is_found_in_steps_of_a_64th(carries, floods):
    send = link(carries, floods)
    found = highest(send, send(0), 0.005)
    assert carries - floods / 2 ** (SEARCH - 1) <= found.mbit <= carries
    assert found.lost <= 0.005


def test_a_flood_that_arrives_is_the_highest_rate():
    flood = Carried(1500, 0.004, 1.0, Cost(1, 1), ())
    assert highest(lambda rate: pytest.fail("tried"), flood, 0.005) is flood


def test_loss_at_any_rate_is_said():
    with pytest.raises(LabError, match=r"more than 0\.5% is lost at any rate down to 8 Mbit/s"):
        highest(lambda rate: Carried(rate / 2, 0.5, 1.0, Cost(1, 1), ()), link(500, 500)(0), 0.005)


@pytest.mark.parametrize("times", [1, 2, 3, 4, 6, 8, 16])
def test_streams_grow_with_the_instances_over_four_processes_at_most(times):
    kind = scaled(KINDS["tcp-8"], times)
    assert (kind.streams, kind.processes) == (8 * times, 2 if times == 1 else 4) and kind.streams % kind.processes == 0


def test_kinds_share_their_streams_evenly():
    assert all(kind.streams % kind.processes == 0 for kind in KINDS.values())


def test_cpu_time_per_gbit():
    carried = Carried(mbit=500, lost=0, seconds=4, cost=Cost(3.0, 1.0), commands=())
    assert (carried.cpu_per_gbit, carried.process_cpu_per_gbit) == (1.5, 0.5)


def test_a_share_of_a_core():
    assert words(0.1) == "1000 10000"
    assert words(0.05) == "1000 20000"  # the kernel takes no quota below 1 ms
    assert words(1.5) == "15000 10000"


def test_round_trips_of_ping():
    text = "64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.123 ms\n64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=12 ms\n"
    assert round_trips(text) == (0.123, 12.0)
    assert round_trips("100% packet loss") == ()


def test_timeline_is_the_share_of_answers():
    line = dict(timeline([0.5, 0.51, 0.52, 0.53, 0.54], flows=2, seconds=1.0))
    assert line[-0.5] == 100
    assert line[0.0] == 50
    assert line[0.05] == 100
    assert set(dict(timeline([], flows=0, seconds=0.1)).values()) == {100.0}


def test_the_machine():
    text = "model name\t: Intel(R) N100\nflags\t\t: fpu aes avx2 vaes rdtscp\n"
    found = machine(text)
    assert (found.cpu, found.cpu_features) == ("Intel(R) N100", ("aes", "avx2", "vaes"))
    assert found.cores >= 1
    assert found.memory_bytes > 1 << 20


def test_configuration_of_a_large_bundle():
    text = configuration(32, 100, 1000)
    assert text.count(" prefix 172.") == 1000
    assert len({line.split()[-1] for line in text.splitlines() if " prefix 172." in line}) == 1000
    assert "remote R101 site 101" in text


PERF = """ztnode
\t    55d0c0 ZeroTier::AES::GMAC::update(void const*, unsigned int)+0x1f (/usr/lib/ztnode/libztcore.so)
\t    55d0aa main+0x10 (/usr/sbin/ztnode)

ztnode
\tffffffff81 udp_sendmsg+0x3 ([kernel.kallsyms])
\t    7f0012 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)

ztnode
\tffffffff81 udp_sendmsg+0x9 ([kernel.kallsyms])
\t    7f0013 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)

"""


def test_stacks_of_perf_are_folded():
    assert fold(PERF).splitlines() == ["ztnode;[libc.so.6];udp_sendmsg_[k] 2", "ztnode;main;ZeroTier::AES::GMAC::update 1"]
    assert fold("") == ""


def test_times_are_whole_seconds_and_never_for_ever():
    assert [whole(seconds) for seconds in (0.2, 1.4, 1.6, 4.0)] == [1, 1, 2, 4]


def test_a_flow_is_hit_when_it_used_a_member_of_the_uplink_that_has_gone() -> None:
    assert SECOND == ["zt0p3", "zt0p4"]
    flows = [
        Witness(("zt0p1", "zt0p2"), ("", ""), Seen(350, [], 0.02, 0.0)),
        Witness(("zt0p1", "zt0p4"), ("", ""), Seen(350, [10.6] * 58, 0.6, 0.6)),
        Witness(("zt0p3", "zt0p3"), ("", ""), Seen(350, [10.7] * 70, 0.7, 0.6)),
    ]
    found = {one.metric: one for one in readings("uplink-gone", flows, 10.0, 3.5, SECOND, ())}
    assert found["stall"].value == 0.7 and found["stall"].parameters["event"] == "uplink-gone"
    assert found["packets lost of flows that are hit"].value == 128 and found["packets lost of the others"].value == 0


def test_streams_over_several_pairs_of_addresses_use_all_of_them_alike() -> None:
    assert over(KINDS["tcp-16"], 1) == KINDS["tcp-16"] and over(KINDS["tcp-1"], 4) == KINDS["tcp-1"]
    for ways in range(2, 17):
        kind = over(KINDS["tcp-16"], ways)
        assert kind.processes % ways == 0 and kind.streams % kind.processes == 0 and 16 <= kind.streams <= 32, (ways, kind)


@dataclass(frozen=True)
class Playing(Place):
    """A place where each program of iperf 2 prints a rate at once, if there is one."""

    has: bool = True
    started: list[list[str]] = field(default_factory=list)

    def run(self, command: Sequence[str], **_options: Any) -> subprocess.CompletedProcess[str]:
        assert list(command) == ["which", "iperf"]
        return subprocess.CompletedProcess(command, 0 if self.has else 1)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        self.started.append(list(command))
        return subprocess.Popen(["echo", "[SUM] 0.0000-2.0010 sec   220 MBytes   900 Mbits/sec"], text=True, **options)

    def listens(self, port: int, protocol: str = "t") -> None:
        assert str(port) in self.started[-1]


def test_iperf2_uses_every_pair_of_addresses_too_and_all_of_them_count() -> None:
    here, there = Playing("R1", ()), Playing("R2", ())
    ends = End(here, "10.14.0.1", ("10.14.0.5",)), End(there, "10.14.0.2", ("10.14.0.6",))
    assert Senders(KINDS["tcp-16 iperf2"], *ends, 2).end() == (1800, 0)

    def given(place: Playing, *options: str) -> list[tuple[str, ...]]:
        return [tuple(command[command.index(option) + 1] for option in options) for command in place.started]

    assert given(here, "-B", "-c", "-p", "-P") == [
        ("10.14.0.1", "10.14.0.2", "5201", "8"),
        ("10.14.0.5", "10.14.0.6", "5202", "8"),
    ]
    assert given(there, "-B", "-p", "-P") == [("10.14.0.2", "5201", "8"), ("10.14.0.6", "5202", "8")]


def test_a_box_without_iperf2_is_named_before_anything_is_started() -> None:
    here, there = Playing("R1", ()), Playing("R2", (), has=False)
    with pytest.raises(LabError, match=r"R2 has no iperf \(2\); install it there: apt install iperf"):
        Senders(KINDS["tcp-16 iperf2"], End(here, "10.14.0.1"), End(there, "10.14.0.2"), 2)
    assert here.started == there.started == []
