"""Moments that are told since 1970, on a router whose clock is set later."""

from __future__ import annotations

import time
from unittest.mock import MagicMock

import pytest
from zerotier_multi.pathd.status import Look, Status
from zerotier_multi.pathd.tell.moment import Moment

TODAY = 1_790_000_000.0


def test_the_start_of_the_daemon_is_right_once_the_clock_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = 12.0
    monkeypatch.setattr(time, "time", lambda: wall)
    status = Status(**{**dict.fromkeys(Status.__dataclass_fields__, MagicMock(configured={})), "started": Moment()})
    assert abs(status.of(Look())["started"] - 12) <= 1
    wall = TODAY
    assert abs(status.of(Look())["started"] - TODAY) < 60


def test_it_is_told_as_the_clock_that_was_set_says() -> None:
    up = 50.0
    moment = Moment(lambda: up)
    assert moment.unix(10.0) == 10
    up = 80.0
    assert moment.unix(40.0) == 10
    assert moment.unix(TODAY) == TODAY - 30
    assert moment.unix(TODAY - 3600) == TODAY - 3630


def test_two_clocks_that_are_read_in_turn_give_one_answer() -> None:
    """Changes of it are counted, as starts of the daemon."""
    up = 50.0
    moment = Moment(lambda: up)
    told = {moment.unix(TODAY + 0.5 + step) for step in (0.0, 1e-4, -1e-4, 0.02, -0.02)}
    assert len(told) == 1
