"""Echoes of two addresses in turns, without routers: both addresses are this machine's."""

from __future__ import annotations

import pytest

from bench.echoes import PORT, added, exchange
from bench.ends import End, Place
from lab.process import LabError

HERE = Place("here", ())


def test_what_one_address_adds_is_told_from_drift_and_from_what_the_scheduler_did():
    drift = [(100_000 + 50 * number, 100_000 + 50 * number + 300) for number in range(1000)]
    drift[7], drift[8] = (100_000, 9_000_000), (9_000_000, 100_000)
    assert added(drift, 100) == (300.0,) * 10
    assert len(added(drift, 300)) == 3 and added(drift[100:150], 300) == (300.0,)


def test_two_addresses_are_asked_in_turns():
    turns = exchange((End(HERE, "127.0.0.1"), End(HERE, "127.0.1.1")), (End(HERE, "127.0.0.2"), End(HERE, "127.0.1.2")), 50, 1200)
    assert len(turns) == 50 and all(0 < time < 1e9 for turn in turns for time in turn)


def test_an_address_that_cannot_be_bound_is_an_error():
    nowhere = End(HERE, "192.0.2.1")
    with pytest.raises(LabError, match=f"a server on port {PORT}|bench.echoes"):
        exchange((End(HERE, "127.0.0.1"), End(HERE, "127.0.1.1")), (nowhere, nowhere), 2, 100)
