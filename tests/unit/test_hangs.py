"""Instances that run but do not answer: who is killed, and who is not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.loop import Loop
from zerotier_multi import systemd
from zerotier_multi.pathd.instances import hangs as module
from zerotier_multi.pathd.instances.hangs import GRACE, PATIENCE, PERIOD, STRIKES, Door, Hangs
from zerotier_multi.pathd.instances.progress import progress

NOBODY = 65534


class World:
    """A loop with a clock of our own, and a server that answers or not: at the socket in the home, or over TCP."""

    def __init__(self, home: Path, at_socket: bool) -> None:
        self.loop = Loop()
        self.hung: list[str] = []
        self.busy: list[Counter[str]] = []
        self.done = 0  # what the main thread of the instance has done
        self.hangs = Hangs(self.loop, self.hung.append, lambda _unit, crowd: self.busy.append(crowd), lambda _unit: self.done)
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        if at_socket:
            self.server = socket.socket(socket.AF_UNIX)
            self.server.bind(str(home / "api.sock"))
            self.server.listen(2)
            tcp.close()
        else:
            self.server = tcp
        self.server.settimeout(2)
        self.kept: list[socket.socket] = []
        self.hangs.configure({"a.service": Door(home, self.port)}, 0.0)

    def step(self, answer: bytes | None, listens: bool = True) -> None:
        """One question: it comes, is answered or not, and time goes on."""
        self.now = self.hangs.wake or self.now
        self.hangs.work(self.now)
        if listens:
            client, _ = self.server.accept()
            self.events()
            client.recv(100)
            if answer is not None:
                client.sendall(answer)
                client.close()
            else:
                self.kept.append(client)
        self.events()
        if answer is None and listens:
            self.wait(PATIENCE + GRACE)

    def wait(self, seconds: float) -> None:
        """Time goes on, and what becomes due meanwhile is done, but for the next question."""
        end = self.now + seconds
        while (due := self.hangs.wake) is not None and due <= end and due != self.hangs._records["a.service"].next_ask:
            self.now = due
            self.hangs.work(due)
        self.now = end

    @property
    def now(self) -> float:
        return self.loop.now

    @now.setter
    def now(self, now: float) -> None:
        self.loop.now = now

    def events(self) -> None:
        for _ in range(3):
            self.loop.turn(0.02)

    def close(self) -> None:
        for one in (self.server, *self.kept, self.loop):
            one.close()


@pytest.fixture(params=["at the socket", "over TCP"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, request.param == "at the socket")
    yield made
    made.close()


@pytest.fixture
def tcp(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, False)
    yield made
    made.close()


@pytest.fixture
def crowd(tcp: World) -> Iterator[subprocess.Popen[str]]:
    """Another user holds three connections to the port."""
    program = (
        "import socket, sys\n"
        f"held = [socket.create_connection(('127.0.0.1', {tcp.port})) for _ in range(3)]\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    made = subprocess.Popen(
        ["/usr/bin/python3", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=NOBODY,
        group=NOBODY,
        env={},
    )
    assert made.stdout and made.stdout.readline() == "held\n"
    tcp.kept += [tcp.server.accept()[0] for _ in range(3)]
    yield made
    made.communicate()


def test_any_answer_is_good(world: World) -> None:
    for answer in (b"HTTP/1.0 401 Unauthorized\r\n", b"HTTP/1.0 200 OK\r\n", b"x") * 3:
        world.step(answer)
    assert world.hung == []


def test_one_that_is_silent_so_often_in_a_row_is_killed(world: World) -> None:
    for _ in range(STRIKES - 1):
        world.step(None)
    world.step(b"HTTP/1.0 401\r\n")
    for _ in range(STRIKES):
        assert world.hung == []
        world.step(None)
    assert world.hung == ["a.service"] and world.busy == []
    # What is new gets its time.
    assert (world.hangs.wake or 0) >= world.now + PERIOD - GRACE


def test_one_that_does_not_listen_is_systemd_s_business(world: World) -> None:
    world.server.close()
    for _ in range(STRIKES * 3):
        world.step(None, listens=False)
        world.wait(PATIENCE)
    assert world.hung == []


def test_a_unit_that_is_no_longer_wanted_is_forgotten(world: World) -> None:
    world.step(None)
    world.now = world.hangs.wake or 0.0
    world.hangs.work(world.now)
    world.hangs.configure({}, world.now)
    assert world.hangs.wake is None and world.loop.watched == 0


def test_one_that_takes_no_connections_at_its_socket_is_killed(tmp_path: Path) -> None:
    world = World(tmp_path, True)
    full = []
    while True:  # nobody accepts
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        full.append(one)
        if one.connect_ex(str(tmp_path / "api.sock")):
            break
    for _ in range(STRIKES * 2):
        world.now = world.hangs.wake or 0.0
        world.hangs.work(world.now)
        world.events()
    for one in full:
        one.close()
    world.close()
    assert world.hung == ["a.service"]


def test_a_crowd_on_tcp_is_no_hang_and_is_told_once(tcp: World, crowd: subprocess.Popen[str]) -> None:
    for _ in range(STRIKES * 3):
        tcp.step(None)
        tcp.done += 1
    assert tcp.hung == [] and tcp.busy == [Counter({"user nobody": 3})]
    tcp.step(b"HTTP/1.0 401\r\n")
    tcp.step(None)
    assert len(tcp.busy) == 2


def test_a_hang_in_a_crowd_is_found(tcp: World, crowd: subprocess.Popen[str]) -> None:
    for _ in range(STRIKES + 1):
        assert tcp.hung == []
        tcp.step(None)
    assert tcp.hung == ["a.service"]


def test_who_comes_and_goes_between_our_looks_causes_no_verdict(tcp: World, crowd: subprocess.Popen[str]) -> None:
    """A crowd that has just gone leaves the instance time for our question, which waits in its turn."""
    for _ in range(STRIKES * 2):
        tcp.now = tcp.hangs.wake or 0.0
        tcp.hangs.work(tcp.now)
        client, _ = tcp.server.accept()
        tcp.events()
        if crowd.poll() is None:
            crowd.communicate()
        tcp.now += PATIENCE
        tcp.hangs.work(tcp.now)
        client.sendall(b"HTTP/1.0 401\r\n")
        tcp.events()
    assert tcp.hung == []


def test_a_connection_that_never_comes_about_counts_by_what_the_instance_does(tcp: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue of connections can be full of those that others have opened and closed."""
    monkeypatch.setattr(module, "_is_in_turn", lambda _connection, _port: False)
    for _ in range(STRIKES * 2):
        tcp.step(None)
        tcp.done += 1
    assert tcp.hung == [] and tcp.busy == []
    for _ in range(STRIKES + 1):
        tcp.step(None)
    assert tcp.hung == ["a.service"]


LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    caller, _ = server.accept()
    held = caller.recv(100)
    if sys.argv[1] == "answers":
        caller.sendall(b"HTTP/1.0 200 OK\\r\\n")
"""


@pytest.mark.parametrize("how", ["answers", "silent"])
def test_somebody_else_on_the_port_is_neither_alive_nor_hangs(tmp_path: Path, how: str) -> None:
    thief = subprocess.Popen(
        ["/usr/bin/python3", "-c", LISTEN, how], stdout=subprocess.PIPE, text=True, user=NOBODY, group=NOBODY, env={}
    )
    assert thief.stdout
    port = int(thief.stdout.readline())
    loop, hung = Loop(), []
    hangs = Hangs(loop, hung.append, lambda *_: hung.append("busy"), lambda _unit: 1)
    hangs.configure({"a.service": Door(tmp_path, port)}, 0.0)
    hangs._records["a.service"].silent = STRIKES - 1
    for _ in range(STRIKES * 2):
        loop.now = hangs.wake or 0.0
        for _ in range(2):
            loop.turn(0.2)
    assert hung == [] and hangs._records["a.service"].silent == STRIKES - 1  # nor is it taken for an answer
    loop.close()
    thief.kill()
    thief.wait()


def test_progress_is_that_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = subprocess.Popen(["/usr/bin/python3", "-c", "import time\nwhile True: time.sleep(0.01)"])
    monkeypatch.setattr(systemd, "unit_states", lambda units: {units[0]: systemd.UnitState("active", busy.pid, 0)})
    try:
        first = progress("a.service")
        while (last := progress("a.service")) == first:
            assert busy.poll() is None
        assert first is not None and last is not None and last > first
        os.kill(busy.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, busy.pid, os.WSTOPPED)
        assert progress("a.service") == progress("a.service")
    finally:
        busy.kill()
        busy.wait()
    assert progress("a.service") is None
