"""Instances that run but do not answer: who is killed, and who is not."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest
from zerotier_multi.pathd.hangs import PATIENCE, PERIOD, STRIKES, Hangs


class World:
    """A selector, a clock of our own, and a server that answers or not."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.hung: list[str] = []
        self.hangs = Hangs(self.selector, self.hung.append)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(2)
        self.port = self.server.getsockname()[1]
        self.now = 0.0
        self.kept: list[socket.socket] = []

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
            self.now += PATIENCE
            self.hangs.work(self.now)

    def events(self) -> None:
        for _ in range(3):
            for key, _mask in self.selector.select(0.05):
                key.data()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.hangs.configure({"a.service": made.port}, 0.0)
    yield made
    made.server.close()


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
    assert world.hung == ["a.service"]
    # What is new gets its time.
    assert world.hangs.wake == world.now + PERIOD


def test_one_that_does_not_listen_is_systemd_s_business(world: World) -> None:
    world.server.close()
    for _ in range(STRIKES * 3):
        world.step(None, listens=False)
        world.now += PATIENCE
        world.hangs.work(world.now)
    assert world.hung == []


def test_a_unit_that_is_no_longer_wanted_is_forgotten(world: World) -> None:
    world.step(None)
    world.now = world.hangs.wake or 0.0
    world.hangs.work(world.now)
    world.hangs.configure({}, world.now)
    assert world.hangs.wake is None and len(world.selector.get_map()) == 0
