"""One identity in two places is found, and nothing else is taken for it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace

import pytest
from zerotier_multi.pathd.probe.trust import RENEWAL, Trust
from zerotier_multi.pathd.probe.twin import SPAN, STALE

INTERVAL = 0.2  # seconds


@dataclass
class Router:
    """A router at one end of a path; its clock is ``ahead`` of ours. It sends what it knows."""

    ahead: float = 0.0
    trust: Trust = field(default_factory=Trust)

    def probe(self, now: float) -> tuple[int, int, int]:
        return self.trust.token, self.trust.echo, int((now + self.ahead) * 1e9)

    def hear(self, probe: tuple[int, int, int], now: float) -> bool:
        return self.trust.hear(*probe, now + self.ahead)

    def back(self, seconds: float) -> Router:
        """What a snapshot of it, with memory, is that is so old."""
        return replace(deepcopy(self), ahead=self.ahead - seconds)


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
                self.remote.hear(router.probe(self.now), self.now)
                if self.answered in (None, router):
                    router.hear(self.remote.probe(self.now), self.now)

    def found(self, *routers: Router) -> list[bool]:
        remote = self.remote.trust.remote_twin.seen(self.now + self.remote.ahead)
        return [remote, *(r.trust.own_twin.seen(self.now + r.ahead) for r in routers)]

    def told(self, router: Router) -> bool:
        """Whether either of the two says anything of a twin."""
        return any(t.seen(self.now + r.ahead) for r in (self.remote, router) for t in (r.trust.remote_twin, r.trust.own_twin))

    def agreed(self, router: Router) -> bool:
        """Whether each believes the other now."""
        self.now += INTERVAL
        forth = self.remote.hear(router.probe(self.now), self.now)
        return router.hear(self.remote.probe(self.now), self.now) and forth


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


@pytest.mark.parametrize("age", [8.0, 30.0, 900.0, 86400.0])
@pytest.mark.parametrize("starts", ["", "R2", "R1", "R1 R2", "R2 R1", "R2 R1 R1"])
def test_a_virtual_machine_that_goes_back_to_a_snapshot_is_no_clone(starts: str, age: float) -> None:
    """With memory, so with the token and the clock of then; ``starts`` are those of the daemons since."""
    link, one = Underlay(), Router()
    link.run(30, one)
    snapshot, begun = deepcopy(one), link.now
    link.run(3, one)
    for name in starts.split():
        if name == "R2":
            one = Router()
        else:
            link.remote = Router(ahead=50.0)
        link.run(1, one)
    link.now = max(link.now, begun + age - 5)
    link.run(5, one)
    assert link.agreed(one)
    one = snapshot.back(link.now - begun)
    for _ in range(20):
        link.run(1, one)
        assert not link.told(one)
    assert link.agreed(one)
    for _ in range(75):
        link.run(1, one)
        assert link.agreed(one) and not link.told(one)


def test_both_ends_go_back() -> None:
    """To snapshots of different moments."""
    link, one = Underlay(), Router()
    link.run(30, one)
    first, first_at = deepcopy(one), link.now
    link.run(600, one)
    second, second_at = deepcopy(link.remote), link.now
    link.run(30, one)
    one, link.remote = first.back(link.now - first_at), second.back(link.now - second_at)
    for _ in range(30):
        link.run(1, one)
        assert not link.told(one)
    assert link.agreed(one)


def test_both_ends_go_back_to_what_the_other_takes_for_a_former_start() -> None:
    link, one = Underlay(), Router()
    link.run(30, one)
    first = deepcopy(one)
    one = Router()
    link.run(30, one)
    second = deepcopy(link.remote)  # it knows the first start of the one as a former one
    one = first
    link.run(30, one)
    link.remote = Router()
    link.run(30, one)  # and that knows this of the remote as one
    link.remote = second
    for _ in range(30):
        link.run(1, one)
    assert link.agreed(one)
    for _ in range(round(STALE) + 1):
        link.run(1, one)
        assert link.agreed(one)
    assert not link.told(one)


def test_one_that_its_clone_has_taken_the_place_of_is_believed_when_that_has_gone() -> None:
    link, one, clone = Underlay(), Router(), Router(ahead=-900.0)
    link.run(5, one)
    link.run(30, one, clone)
    assert link.found() == [True] and not link.agreed(one)
    link.run(20, one)
    assert link.agreed(one)
    link.run(STALE + 1, one)
    assert not link.told(one)


@pytest.mark.parametrize("hears", [True, False])
def test_a_clone_is_found_after_a_router_has_gone_back(hears: bool) -> None:
    link, one = Underlay(), Router()
    link.run(30, one)
    one, clone = one.back(20), Router(ahead=-900.0)
    link.run(30, one)
    link.answered = None if hears else one
    link.run(SPAN + 2, one, clone)
    assert link.found() == [True]
    for _ in range(200):
        link.run(1, one, clone)
        assert link.found() == [True]


@pytest.mark.parametrize("hears", [True, False])
def test_a_clone_that_was_away_for_a_while_is_found_again(hears: bool) -> None:
    """Meanwhile the remote has taken the first one back, with a new token that the clone does not know."""
    link, one, clone = Underlay(), Router(), Router(ahead=-900.0)
    link.run(5, one)
    link.run(20, one, clone)
    link.run(STALE + 20, one)
    assert link.found() == [False] and link.agreed(one)
    link.answered = None if hears else one
    link.run(SPAN + 15, one, clone)
    assert link.found() == [True]


def test_what_is_repeated_after_a_router_has_gone_back_is_not_believed() -> None:
    link, one = Underlay(), Router()
    recorded: list[tuple[int, int, int]] = []
    for n in range(600):
        if n == 300:
            snapshot, begun = deepcopy(one), link.now
        if n == 450:
            one = Router()
        link.run(INTERVAL, one)
        recorded.append(one.probe(link.now))
    one = snapshot.back(link.now - begun)
    link.run(20, one)
    assert link.agreed(one)
    for packet in recorded:
        link.run(INTERVAL, one)
        assert not link.remote.hear(packet, link.now) and not link.told(one)
        assert link.remote.trust.echo == one.trust.token
    assert link.agreed(one)


@pytest.mark.parametrize("apart", [1, 50])
def test_what_is_repeated_while_a_router_is_there_does_nothing(apart: int) -> None:
    """``apart``: a probe of the router comes after so many repeated ones."""
    link, one = Underlay(), Router()
    recorded: list[tuple[int, int, int]] = []
    for n in range(300):
        if n == 150:
            one = Router()
        link.run(INTERVAL, one)
        recorded.append(one.probe(link.now))
    for _ in range(5):
        link.now += INTERVAL * apart
        assert link.agreed(one)
    token = link.remote.trust.token
    for n, packet in enumerate(recorded[:299]):
        link.now += INTERVAL
        link.remote.hear(packet, link.now)
        assert n % apart or link.agreed(one)
    assert link.agreed(one) and link.remote.trust.token == token


def test_what_is_repeated_while_a_router_is_away_is_not_believed_and_leaves_no_trace() -> None:
    link, one = Underlay(), Router()
    recorded: list[tuple[int, int, int]] = []
    for n in range(900):
        if n == 200:
            one = Router()
        link.run(INTERVAL, one)
        recorded.append(one.probe(link.now))
    tokens = {link.remote.trust.token}
    for n in range(3):
        for packet in recorded:
            link.now += INTERVAL
            assert not link.remote.hear(packet, link.now)
            tokens.add(link.remote.trust.token)
    assert len(tokens) <= 2 + 3 * 900 * INTERVAL / RENEWAL
    link.run(3, one)
    assert link.agreed(one)
    assert not any(link.remote.hear(packet, link.now) for packet in recorded)


def test_an_answer_that_was_on_its_way_when_the_token_changed_is_ours() -> None:
    link, one = Underlay(), Router()
    link.run(30, one)
    before = link.remote.trust.token
    one = one.back(20)
    link.run(12, one)
    now = link.remote.trust.token
    assert now != before and link.remote.trust.mine(before) and link.remote.trust.mine(now)
    assert not link.remote.trust.mine(one.trust.token) and not one.trust.mine(0)


def test_a_start_that_is_forgotten_is_not_believed_when_it_is_repeated() -> None:
    link, one = Underlay(), Router()
    link.run(1, one)
    first = one.probe(link.now)
    for _ in range(200):
        one = Router()
        link.run(1, one)
        assert link.agreed(one) and not link.remote.hear(first, link.now)


@pytest.mark.parametrize("interval", [0.2, 10.0])
def test_a_third_router_is_echoed_only_while_the_remote_is_silent(interval: float) -> None:
    link, one = Underlay(), Router()
    link.run(30, one)
    for n in range(100):
        link.now += interval
        link.remote.hear((n + 1, 0, 1), link.now - 0.01)
        assert n < 3 or link.remote.trust.echo == one.trust.token
        assert link.remote.hear(one.probe(link.now), link.now) and one.hear(link.remote.probe(link.now), link.now)
    for n in range(500):  # it is not held up by that when it comes back
        link.now += INTERVAL
        forth, back = one.probe(link.now), link.remote.probe(link.now)
        for router, probe in ((link.remote, forth), (one, back)):
            if n > 400:
                router.hear(probe, link.now)
            router.hear((n + 1, 0, 1), link.now)
    assert link.agreed(one)
