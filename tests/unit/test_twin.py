"""One identity in two places is found, and nothing else is taken for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from zerotier_multi.pathd.probe.trust import Trust
from zerotier_multi.pathd.probe.twin import SPAN, STALE

INTERVAL = 0.2  # seconds


@dataclass
class Router:
    """A router at one end of a path; its clock began ``ahead`` of ours. It sends what it knows."""

    ahead: float = 0.0
    trust: Trust = field(default_factory=Trust)

    def probe(self, now: float) -> tuple[int, int, int]:
        return self.trust.token, self.trust.echo, int((now + self.ahead) * 1e9)


@dataclass
class Underlay:
    """R2 and who claims to be R1. Packets of R2 reach each of them, or one alone, as with ZeroTier's choice of a path."""

    remote: Router = field(default_factory=Router)
    now: float = 1000.0
    answered: Router | None = None  # None: each of them

    def run(self, seconds: float, *routers: Router) -> None:
        for _ in range(round(seconds / INTERVAL)):
            self.now += INTERVAL
            for router in routers:
                self.remote.trust.hear(*router.probe(self.now), self.now)
                if self.answered in (None, router):
                    router.trust.hear(*self.remote.probe(self.now), self.now)

    def found(self, *routers: Router) -> list[bool]:
        return [self.remote.trust.remote_twin.seen(self.now), *(r.trust.own_twin.seen(self.now) for r in routers)]


def test_a_clone_is_found_at_the_remote_and_at_the_router_that_it_was_made_of() -> None:
    link, one, clone = Underlay(), Router(), Router(ahead=-900.0)
    link.run(5, one)
    link.run(SPAN - 1, one, clone)
    assert link.found(one, clone) == [False, False, False], "a start of it would look the same so far"
    link.run(3, one, clone)
    assert link.found(one, clone) == [True, True, False]
    link.run(STALE + 1, clone)
    assert link.found(clone) == [False, False], "only one is left"


def test_a_clone_that_hears_nothing_is_found_at_the_remote() -> None:
    link, one, clone = Underlay(), Router(), Router(ahead=-900.0)
    link.run(5, one)
    link.answered = one
    link.run(SPAN - 1, one, clone)
    assert link.found() == [False]
    link.run(2, one, clone)
    assert link.found(one, clone) == [True, False, False]
    link.run(STALE + 1, one)
    assert link.found() == [False]


def test_a_router_that_starts_where_nothing_comes_back_is_no_clone() -> None:
    link, one = Underlay(), Router()
    link.run(20, one)
    link.answered = Router()  # packets to the router are lost
    link.run(60, Router())
    assert link.found() == [False]


def test_it_is_found_whichever_started_first_and_after_the_remote_has_started_again() -> None:
    link, one, clone = Underlay(), Router(ahead=-900.0), Router(ahead=5000.0)
    link.run(SPAN + 2, clone, one)
    assert link.found() == [True]
    link.remote = Router()
    link.run(SPAN + 2, one, clone)
    assert link.found() == [True]


@pytest.mark.parametrize("pause", [0.0, 1.0, 30.0, 600.0])
@pytest.mark.parametrize("ahead", [-999.0, 0.0, 9999.0])
def test_a_start_is_no_clone(pause: float, ahead: float) -> None:
    """Of the daemon, the router or the remote, again and again."""
    link, one = Underlay(), Router()
    for _ in range(5):
        link.run(20, one)
        link.now += pause
        one = Router(ahead=ahead)
        link.run(20, one)
        assert link.found(one) == [False, False]
        link.remote = Router()
        link.run(20, one)
        assert link.found(one) == [False, False]


def test_a_failover_between_two_boxes_of_which_one_runs_is_no_clone() -> None:
    link, one, other = Underlay(), Router(), Router(ahead=100.0)
    for _ in range(4):
        link.run(30, one)
        link.run(30, other)
        one, other = Router(), Router(ahead=100.0)
    assert link.found(one, other) == [False, False, False]


def test_packets_that_waited_and_recordings_are_no_clone() -> None:
    link, one = Underlay(), Router()
    recorded: list[tuple[int, int, int]] = []
    for _ in range(200):
        link.run(INTERVAL, one)
        recorded.append(one.probe(link.now))
    late = [one.probe(link.now + n * INTERVAL) for n in range(60)]  # sent before it ended, and queued on the way
    one = Router()
    link.run(2, one)
    for packet in late:
        link.remote.trust.hear(*packet, link.now)
    for packet in recorded:  # at the pace at which they were sent
        link.run(INTERVAL, one)
        link.remote.trust.hear(*packet, link.now)
    assert link.found(one) == [False, False]


def test_what_a_third_router_makes_up_is_no_clone_for_the_router_itself() -> None:
    """At the remote it is a second sender, and nothing but a sentence follows from that."""
    link, one = Underlay(), Router()
    link.run(5, one)
    for n in range(200):
        link.run(INTERVAL, one)
        for token, echo in ((1, 0), (1, 2), (n, n)):
            one.trust.hear(token, echo, int(link.now * 1e9), link.now)
            assert not link.remote.trust.hear(token, echo, int(link.now * 1e9), link.now)
    assert not one.trust.own_twin.seen(link.now)
    assert link.remote.trust.hear(*one.probe(link.now + 1), link.now)
