"""Who has the port of an instance, what is told of that, and when the instance is started again."""

from __future__ import annotations

import os
import socket
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.op_box import PLAN, box
from zerotier_multi.cpu import Cpu
from zerotier_multi.op import data, gather
from zerotier_multi.pathd.tell import events
from zerotier_multi.pathd.instances.squatted import LONGEST, PERIOD, Squatted
from zerotier_multi.planner import make_plan
from zerotier_multi.plan import InstancePlan
from zerotier_multi.ports import Holder, holder, process_with, udp_places
from zerotier_multi.systemd import UnitState

INSTANCE = make_plan(bundle(EXAMPLE), (Cpu(0, 0),), "/usr/sbin/ztnode").instances[0]


@pytest.mark.parametrize("kind", ["TCP", "UDP"])
def test_who_has_a_port(kind: str) -> None:
    program = (
        f"import socket, sys; s = socket.socket(2, {1 if kind == 'TCP' else 2}); s.bind(('127.0.0.1', 0)); s.{'listen()' if kind == 'TCP' else 'fileno()'}\n"
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        ["/usr/bin/python3", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=65534,
        group=65534,
        env={},
    )
    assert other.stdout
    port = int(other.stdout.readline())
    found = holder(port)
    assert found == Holder(kind, "nobody", other.pid, "python3") and str(found) == f"python3 (pid {other.pid}) of user nobody"
    ours, stock = (replace(INSTANCE, port=port, engine=f"/usr/sbin/{engine}") for engine in ("ztnode", "zerotier-one"))
    why = f"{kind} port {port} is taken by {found}"
    assert gather.obstacle(stock, UnitState("failed")) == why
    assert gather.obstacle(ours, UnitState("failed")) == (why if kind == "UDP" else None)  # it runs without its TCP port
    assert udp_places(port) == []  # not root's
    other.communicate()
    # Of TCP with UDP's number others may have connections that have just ended.
    free = stock if kind == "TCP" else ours
    assert holder(port, tcp=kind == "TCP") is None and gather.obstacle(free, UnitState("failed")) is None


def test_connections_that_have_just_ended_hold_a_port_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        with socket.create_connection(place) as caller:
            server.accept()[0].close()  # the server closes first, so that it has to wait
            assert caller.recv(1) == b""
    found = holder(place[1])
    assert found == Holder("TCP", "") and str(found) == "connections that have just ended"


def test_a_program_s_name_is_no_way_to_write_on_a_terminal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = "\x1b[2Jx"
        comm = Path("/proc/self/comm")
        before = comm.read_text()
        comm.write_text(name)
        try:
            assert process_with(os.fstat(server.fileno()).st_ino) == (os.getpid(), "?[2Jx")
        finally:
            comm.write_text(before)
    assert str(Holder("TCP", "nobody")) == "user nobody"


def test_what_others_do_is_part_of_the_warning() -> None:
    unit = PLAN.instances[0].unit
    told = "TCP port 9993 is taken by x (pid 7) of user nobody"
    stopped = box(units={**box().units, unit: UnitState("failed", result="exit-code", exit_status=1)}, obstacles={unit: told})
    (warning,) = [text for text in data.bundle_warnings(stopped, PLAN) if "does not run" in text]
    assert warning == f"zt0/1 does not run (failed, exit code 1): {told}; see: journalctl -u zerotier-multi@zt0-1"


def test_the_events() -> None:
    told = events.blocked("zt0", INSTANCE, Holder("UDP", "nobody"))
    assert told.message == (
        "instance zt0/1: zerotier-multi@zt0-1.service cannot start: UDP port 9993 is taken by user nobody; "
        "it is started as soon as the port is free"
    )
    assert events.busy("zt0", INSTANCE, "40 connections of user nobody").message == (
        "instance zt0/1: 40 connections of user nobody to TCP port 9993 keep its API from answering; it is not restarted"
    )
    assert events.freed("zt0", INSTANCE).kind == events.REVIVED


def test_a_unit_whose_port_is_free_again_is_started_at_once() -> None:
    failed: set[str] = set()
    held: dict[str, Holder] = {}
    told: Counter[str] = Counter()
    named: list[bool] = []

    def holder(instance: InstancePlan, with_name: bool) -> Holder | None:
        named.append(with_name)
        return held.get(instance.device)

    blocked = Squatted(lambda units: failed & set(units), holder, lambda unit, _by: told.update([unit]))
    missing = {"a": INSTANCE, "b": replace(INSTANCE, device="zt0p2")}
    assert blocked.due({}, 0.0) == [] and blocked.wake is None
    now, waits = 0.0, []
    for _ in range(8):  # they may be waiting for their controller: looked at less and less often
        assert blocked.due(missing, now) == []
        waits.append((blocked.wake or 0.0) - now)
        now = blocked.wake or 0.0
    assert waits[:3] == [2, 4, 8] and waits[-1] == LONGEST
    failed.update("ab")
    held["zt0p1"] = Holder("TCP", "nobody")
    for _ in range(3):
        assert blocked.due(missing, now) == []  # b has failed for another reason
        assert blocked.wake == now + PERIOD and blocked.due(missing, now + PERIOD / 2) == []
        now = blocked.wake
    # The program that has a port is named once; where nobody has it, nothing is looked for.
    assert told == {"a": 1} and named == [True, True, False, True, False, True]
    del held["zt0p1"]
    assert blocked.due(missing, now) == ["a"]
    assert blocked.due(missing, now + PERIOD) == [], "once"
    # Taken again, and gone meanwhile: whoever has the port then is another matter.
    held["zt0p1"] = Holder("TCP", "nobody")
    assert blocked.due(missing, now + 2 * PERIOD) == [] and told == {"a": 2}
    assert blocked.due({"b": missing["b"]}, now + 3 * PERIOD) == []
    del held["zt0p1"]
    assert blocked.due(missing, now + 4 * PERIOD) == []
    failed.clear()
    assert blocked.due(missing, now + 5 * PERIOD) == [] and blocked.due({}, now + 6 * PERIOD) == [] and blocked.wake is None
