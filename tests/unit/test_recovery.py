"""When instances are restarted because addresses have moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.engine_choice import follows_addresses
from zerotier_multi.pathd.instances.recovery import (
    ALONE,
    DEAF,
    DRAIN,
    FEW,
    GOOD,
    HEARD,
    LISTEN,
    LONGEST,
    NOTICED,
    PATIENT,
    PAUSE,
    STEP,
    TURN,
    UNSEEN,
    Recovery,
    Situation,
    situations,
    underlay,
)
from zerotier_multi.pathd.probe.prober import Silence
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.planner import make_plan

OLD, NEW = frozenset({"198.51.100.1"}), frozenset({"198.51.100.7"})


def one(
    index: int | None = 5, addresses: frozenset[str] = OLD, silent: float | None = None, up: Iterable[int] = (), **how: Any
) -> Situation:
    return Situation(
        "zt0", index, addresses, {} if silent is None else {1: Silence(silent, **how)}, frozenset(up), {1: "R2", 9: "R3"}
    )


def orders(recovery: Recovery, now: float, empty: bool = True, **seen: Situation) -> tuple[list[str], list[str]]:
    found = recovery.work(seen, now, seen if empty else ())
    return list(found.drain), [device for device, _cause in found.restart]


def test_only_ztnode_follows_by_itself() -> None:
    assert follows_addresses("/usr/sbin/ztnode") and not follows_addresses("/usr/sbin/zerotier-one")


def test_a_changed_address_and_a_silent_path_restart_at_once() -> None:
    recovery = Recovery()
    assert orders(recovery, 100.0, zt0p1=one(up=[1])) == ([], [])
    assert orders(recovery, 110.0, zt0p1=one(addresses=NEW, up=[1])) == ([], []), "it still carries"
    found = recovery.work({"zt0p1": one(addresses=NEW, silent=110.6)}, 110.6, ("zt0p1",))
    assert found.restart == (("zt0p1", "addresses have changed (gone: 198.51.100.1; new: 198.51.100.7) and a path has no answer"),)
    assert orders(recovery, 110.7, zt0p1=one(addresses=NEW, silent=110.6)) == ([], []), "once"


def test_what_stays_of_several_addresses_is_no_change() -> None:
    recovery = Recovery()
    recovery.work({"zt0p1": one(addresses=frozenset("abxyz"), up=[1])}, 0.0, ())
    ((_device, cause),) = recovery.work({"zt0p1": one(addresses=frozenset("xyzdc"), silent=0.5)}, 1.0, ()).restart
    assert cause == "addresses have changed (gone: a, b; new: c, d) and a path has no answer"
    ((_device, cause),) = recovery.work({"zt0p1": one(addresses=frozenset("xyc"), silent=0.5)}, 1.0 + PAUSE, ()).restart
    assert "(gone: d, z)" in cause


def test_a_name_that_has_another_address_counts_as_an_address() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=replace(one(up=[1]), told=frozenset({"r2.example.org is 192.0.2.1"})))
    now = replace(one(silent=0.5), told=frozenset({"r2.example.org is 192.0.2.9"}))
    assert orders(recovery, 1.0, zt0p1=now) == ([], ["zt0p1"])


def test_without_any_address_nothing_is_restarted_until_one_comes() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    for now in (1.0, 5.0, 20.0):
        assert orders(recovery, now, zt0p1=one(addresses=frozenset(), silent=0.6)) == ([], [])
        assert recovery.wake is None
    assert orders(recovery, 20.1, zt0p1=one(None, addresses=NEW, silent=0.6)) == ([], []), "nor without its device"
    assert orders(recovery, 20.1, zt0p1=one(addresses=NEW, silent=0.6)) == ([], ["zt0p1"])


def test_the_same_address_again_is_a_matter_of_time() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    orders(recovery, 1.0, zt0p1=one(addresses=frozenset(), silent=0.6))
    assert orders(recovery, 6.0, zt0p1=one(silent=0.6)) == ([], ["zt0p1"]), "its socket may be another"


def test_a_silent_path_restarts_less_and_less_often() -> None:
    recovery, now, moments = Recovery(), 0.0, []
    index = 5
    while now < 2000.0:
        if orders(recovery, now, zt0p1=one(index, silent=0.0))[1]:
            moments.append(now)
            index += 1
        now = recovery.wake if recovery.wake and recovery.wake > now else now + 0.05
    waits = [b - a for a, b in zip([0.0, *moments], moments, strict=False)]
    assert waits[:5] == pytest.approx([DEAF, DEAF, 2 * DEAF, 4 * DEAF, 8 * DEAF], abs=0.2)
    assert max(waits) == pytest.approx(LONGEST, abs=0.2) and len(moments) < 15


DAY, HOUR = 86400.0, 3600.0


class Hub:
    """An instance with a remote R2 that is silent from the beginning, and R3, which it carries unless that is cut too."""

    def __init__(self) -> None:
        self.recovery, self.now, self.moments = Recovery(), 0.0, list[float]()
        self.addresses, self.silent = OLD, {1: Silence(0.0)}
        self._index, self._drained, self._away = 5, False, False

    def run(self, seconds: float, every: float = 60.0) -> int:
        """Let time pass, with a look at least ``every`` so many seconds; how often the instance was restarted."""
        before, until = len(self.moments), self.now + seconds
        while self.now < until:
            up = frozenset({1, 9} - self.silent.keys() if not self._drained else ())
            index = None if self._away else self._index
            seen = Situation("zt0", index, self.addresses, self.silent, up, {1: "R2", 9: "R3"})
            found = self.recovery.work({"zt0p1": seen}, self.now, ("zt0p1",) if self._drained else ())
            self._drained |= bool(found.drain)
            self._away = bool(found.restart)
            if found.restart:
                self.moments.append(self.now)
                self._index, self._drained = self._index + 1, False
            wake = self.recovery.wake or self.now + every
            self.now = min(wake, self.now + every) if wake > self.now else self.now + 0.05
        return len(self.moments) - before


def test_an_instance_that_carries_others_is_left_alone_after_a_few_restarts_in_vain() -> None:
    hub = Hub()
    assert hub.run(DAY) == FEW < 15
    assert hub.moments[-1] < 3 * LONGEST


def test_an_instance_that_carries_nothing_goes_on_at_the_long_interval() -> None:
    hub = Hub()
    hub.silent = {1: Silence(0.0), 9: Silence(0.0)}
    assert hub.run(HOUR) > HOUR / LONGEST
    assert 11 <= hub.run(HOUR) <= 12


def test_one_that_was_left_alone_tries_again_once_its_addresses_have_changed() -> None:
    hub = Hub()
    hub.run(HOUR)
    hub.addresses = NEW
    began = hub.now
    assert hub.run(HOUR) == 1 + FEW and hub.moments[FEW] < began + ALONE + DRAIN


def test_one_that_was_left_alone_tries_again_once_the_remote_is_heard() -> None:
    hub = Hub()
    hub.run(HOUR)
    began = hub.now
    assert hub.recovery.wake and hub.recovery.wake <= began + PAUSE
    hub.silent = {1: Silence(0.0, heard_since=began)}
    assert hub.run(HOUR) == FEW and hub.moments[FEW] < began + PAUSE + ALONE + DRAIN


def test_one_that_was_left_alone_tries_again_after_its_path_has_been_up() -> None:
    hub = Hub()
    hub.run(HOUR)
    hub.silent = {}
    hub.run(GOOD / 2)
    hub.silent = {1: Silence(hub.now)}
    assert hub.run(HOUR) == FEW


def test_a_remote_that_is_heard_between_its_own_restarts_is_not_heard_again() -> None:
    hub = Hub()
    hub.silent = {1: Silence(0.0, heard_since=0.0)}
    hub.run(HOUR)
    for _ in range(100):
        hub.silent = {1: Silence(0.0)}
        hub.run(NOTICED / 2, every=1.0)
        hub.silent = {1: Silence(0.0, heard_since=hub.now)}
        hub.run(LONGEST, every=1.0)
    assert len(hub.moments) == FEW


def test_one_that_was_left_alone_still_helps_another_remote_and_is_not_in_a_hurry_when_it_falls() -> None:
    hub = Hub()
    hub.run(HOUR)
    fell = hub.now
    hub.silent = {1: Silence(0.0), 9: Silence(fell)}
    assert hub.run(DEAF - 0.1) == 0, "for one that it has given up, it has time"
    assert hub.run(0.5) == 1
    hub.silent = {1: Silence(0.0)}
    assert hub.run(HOUR) == 0


def test_a_process_of_somebody_else_and_a_remote_of_another_name_are_tried_for_again() -> None:
    hub = Hub()
    hub.run(HOUR)
    hub._index += 100  # a commit has told it of other endpoints
    assert hub.run(HOUR) == FEW
    silent = {"zt0p1": Situation("zt0", hub._index, OLD, hub.silent, frozenset({9}), {1: "R9", 9: "R3"})}
    assert hub.recovery.work(silent, hub.now, ()).drain == ("zt0p1",)


def test_the_two_ends_of_a_path_do_not_go_at_the_same_time() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]), zt0p2=one(up=[1]))
    both = {"zt0p1": one(silent=1.0), "zt0p2": one(silent=1.0, patient=True)}
    assert orders(recovery, 1.0 + DEAF, **both) == ([], ["zt0p1"])
    assert "zt0p2" not in orders(recovery, 1.0 + PATIENT - 0.1, **both)[1]
    assert "zt0p2" in orders(recovery, 1.0 + PATIENT, **both)[1]


def test_who_hears_the_remote_without_an_answer_goes_first() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    assert orders(recovery, 1.0 + HEARD - 0.1, zt0p1=one(silent=1.0, heard_since=0.5)) == ([], [])
    found = recovery.work({"zt0p1": one(silent=1.0, heard_since=0.5)}, 1.0 + HEARD, ())
    assert found.restart == (("zt0p1", "R2 is heard but does not answer"),)
    # It may be heard again at once, but a restart takes its time.
    again = one(6, silent=2.5, heard_since=2.5)
    assert orders(recovery, 2.5 + HEARD, zt0p1=again) == ([], [])
    assert orders(recovery, 1.0 + HEARD + DEAF, zt0p1=again) == ([], ["zt0p1"])
    found = recovery.work({"zt0p2": one(silent=1.0)}, 1.0 + DEAF, ())
    assert found.restart == (("zt0p2", "R2 does not answer"),)


def test_somebody_who_is_heard_is_noticed_soon() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    orders(recovery, 1.0, zt0p1=one(silent=1.0))
    assert recovery.wake and recovery.wake <= 1.0 + LISTEN
    orders(recovery, 1.2, zt0p1=one(silent=1.0, heard_since=1.1))
    assert recovery.wake == pytest.approx(1.1 + HEARD)
    orders(recovery, 1.2, zt0p1=one(silent=1.0, heard_since=1.1), zt0p2=one(silent=1.0, heard_since=1.15))
    assert recovery.wake == pytest.approx(1.1 + HEARD), "for the first one"


def test_a_path_that_was_good_for_a_while_begins_anew() -> None:
    recovery = Recovery()
    for now in (0.0, DEAF, 2 * DEAF, 4 * DEAF, 8 * DEAF, 16 * DEAF):
        orders(recovery, now, zt0p1=one(silent=0.0))
    well = 16 * DEAF + 1.0
    orders(recovery, well, zt0p1=one(up=[1]))
    orders(recovery, well + GOOD - 0.1, zt0p1=one(up=[1]))
    fell = well + GOOD
    assert orders(recovery, fell + DEAF, zt0p1=one(silent=fell)) == ([], []), "that was no while"
    well = fell + DEAF + 0.1
    orders(recovery, well, zt0p1=one(up=[1]))
    orders(recovery, well + GOOD, zt0p1=one(up=[1]))
    fell = well + GOOD + 1.0
    assert orders(recovery, fell + DEAF - 0.1, zt0p1=one(silent=fell)) == ([], [])
    assert orders(recovery, fell + DEAF, zt0p1=one(silent=fell)) == ([], ["zt0p1"])
    assert orders(recovery, fell + 2 * DEAF, zt0p1=one(silent=fell)) == ([], ["zt0p1"])
    assert orders(recovery, fell + 3 * DEAF, zt0p1=one(silent=fell)) == ([], []), "and less and less often again"


def test_an_address_that_came_while_all_was_well_is_known_after_a_while() -> None:
    both = OLD | NEW
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    orders(recovery, 1.0, zt0p1=one(addresses=both, up=[1]))
    orders(recovery, 1.0 + NOTICED, zt0p1=one(addresses=both, up=[1]))
    assert orders(recovery, 60.0, zt0p1=one(addresses=both, silent=60.0)) == ([], [])
    orders(recovery, 61.0, zt0p1=one(addresses=both, up=[1]))
    for now in (70.0, 69.0 + NOTICED):
        orders(recovery, now, zt0p1=one(addresses=OLD, up=[1]))
    assert orders(recovery, 69.9 + NOTICED, zt0p1=one(addresses=OLD, silent=69.5 + NOTICED)) == ([], ["zt0p1"]), "not before"


def test_addresses_that_flap_restart_no_oftener_than_a_pause_allows() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(up=[1]))
    assert orders(recovery, 1.0, zt0p1=one(addresses=NEW, silent=0.9))[1]
    assert not orders(recovery, 1.5, zt0p1=one(addresses=OLD, silent=0.9))[1]
    assert recovery.wake and recovery.wake < 1.0 + PAUSE
    assert orders(recovery, 1.0 + PAUSE, zt0p1=one(addresses=OLD, silent=0.9))[1]


def test_a_process_that_somebody_else_has_started_knows_the_addresses() -> None:
    recovery = Recovery()
    orders(recovery, 0.0, zt0p1=one(5, up=[1]))
    orders(recovery, 1.0, zt0p1=one(None, addresses=NEW, silent=None))
    assert orders(recovery, 1.2, zt0p1=one(6, addresses=NEW, silent=1.2)) == ([], [])


def test_those_that_carry_other_paths_go_in_turn_and_drained() -> None:
    recovery = Recovery()
    quiet = {f"zt0p{k}": one(k, up=[9]) for k in (1, 2)}
    orders(recovery, 0.0, **quiet)
    silent = {f"zt0p{k}": one(k, silent=1.0, up=[9]) for k in (1, 2)}
    now = 1.0 + DEAF
    assert orders(recovery, now, empty=False, **silent) == (["zt0p1"], [])
    silent["zt0p1"] = one(1, silent=1.0)  # drained: nothing of it is up
    assert orders(recovery, now + STEP, empty=False, **silent) == ([], [])
    assert orders(recovery, now + 2 * STEP, empty=True, **silent) == ([], ["zt0p1"])
    assert orders(recovery, now + 1.0, **{**silent, "zt0p1": one(None)}) == ([], [])
    assert orders(recovery, now + 1.9, **{**silent, "zt0p1": one(11, up=[1])}) == ([], [])
    assert orders(recovery, now + 1.9, **{**silent, "zt0p1": one(11, up=[1])}) == ([], []), "R3 is not back yet"
    back = {**silent, "zt0p1": one(11, up=[9])}
    assert orders(recovery, now + 2.0, **back) == ([], []), "the next one begins at the next look"
    assert recovery.wake == now + 2.0
    assert orders(recovery, now + 2.0, **back) == (["zt0p2"], [])
    assert orders(recovery, now + 2.0 + DRAIN, empty=False, **{**back, "zt0p2": one(2, silent=1.0)}) == ([], ["zt0p2"])


def test_one_that_does_not_come_back_holds_the_others_up_for_a_while_only() -> None:
    recovery = Recovery()
    silent = {f"zt0p{k}": one(k, silent=1.0, up=[9]) for k in (1, 2)}
    orders(recovery, 0.0, **{f"zt0p{k}": one(k, up=[9]) for k in (1, 2)})
    now = 1.0 + DEAF
    orders(recovery, now, **silent)
    orders(recovery, now + DRAIN, **silent)
    assert orders(recovery, now + TURN - 0.1, **{**silent, "zt0p1": one(None)}) == ([], [])
    orders(recovery, now + TURN, **{**silent, "zt0p1": one(None)})
    assert orders(recovery, now + TURN, **{**silent, "zt0p1": one(None)}) == (["zt0p2"], [])


def test_one_that_is_gone_from_the_plan_holds_nobody_up() -> None:
    recovery = Recovery()
    silent = {f"zt0p{k}": one(k, silent=1.0, up=[9]) for k in (1, 2, 3)}
    orders(recovery, 0.0, **{f"zt0p{k}": one(k, up=[9]) for k in (1, 2, 3)})
    now = 1.0 + DEAF
    assert orders(recovery, now, **silent) == (["zt0p1"], [])
    del silent["zt0p1"]
    assert orders(recovery, now + STEP, **silent) == ([], []) and recovery.wake == now + STEP
    assert orders(recovery, now + STEP, **silent) == (["zt0p2"], [])


def test_one_that_carries_the_only_path_to_another_remote_waits_for_a_second_one() -> None:
    recovery = Recovery()
    only = {"zt0p1": one(1, silent=1.0, up=[9]), "zt0p2": one(2)}  # it is being restarted at the other end
    assert orders(recovery, 1.0 + DEAF, **only) == ([], [])
    assert recovery.wake and recovery.wake <= 1.0 + DEAF + LISTEN
    elsewhere = replace(one(7, up=[9]), bundle="zt7")
    assert orders(recovery, 2.0 + DEAF, **only, zt7p1=elsewhere) == ([], []), "of its own bundle"
    both = {**only, "zt0p2": one(2, up=[9])}
    assert orders(recovery, 2.0 + DEAF, **both) == (["zt0p1"], [])
    patient = Recovery()
    orders(patient, 1.0, **only)
    assert orders(patient, 1.0 + DEAF + ALONE - 0.1, **only) == ([], [])
    assert orders(patient, 1.0 + DEAF + ALONE, **only) == (["zt0p1"], []), "not for ever"


def test_one_that_is_alone_waits_for_no_second_one() -> None:
    recovery = Recovery()
    orders(recovery, 1.0, zt0p1=one(silent=1.0, up=[9]))
    assert orders(recovery, 1.0 + DEAF, zt0p1=one(silent=1.0, up=[9])) == (["zt0p1"], [])


def test_an_instance_that_carries_nothing_waits_for_nobody() -> None:
    recovery = Recovery()
    seen = {"zt0p1": one(1, silent=1.0, up=[9]), "zt0p2": one(2, silent=1.0), "zt0p3": one(3, up=[9])}
    assert orders(recovery, 1.0 + DEAF, **seen) == (["zt0p1"], ["zt0p2"])


def test_addresses_of_tunnels_and_of_our_own_devices_are_not_the_underlay() -> None:
    links = {name: Link(n, name, None, 1500, True, True) for n, name in enumerate(["lo", "eth0", "zt0", "zt0p1", "wg0", "dum0"])}
    addresses = [Address(n, f"192.0.2.{n}/24") for n in range(6)]
    assert underlay(links, addresses) == {"eth0": frozenset({"192.0.2.1"})}


def test_what_is_known_of_instances_whose_engine_does_not_follow() -> None:
    """The first path has never been up, so nobody may be there yet; over the third one somebody is heard all the same."""
    text = (
        EXAMPLE
        + "instance 2 source-interface eth1\ninstance 3 listen-address 198.51.100.1\ninstance 3 listen-address 198.51.100.9\n"
    )
    plan = make_plan(bundle(text), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/zerotier-one")
    paths = [path.nexthop_id for path in plan.paths]
    links = {"zt0p1": Link(11, "zt0p1", "tun", 1500, True, True)}
    addresses = {"eth0": {"198.51.100.1", "198.51.100.2"}, "eth1": {"203.0.113.1"}}
    silence = {paths[0]: Silence(100.0), paths[1]: Silence(100.0), paths[2]: Silence(100.0, 101.0)}
    told = {"zt0p1": frozenset({"r2.example.org is 192.0.2.1"})}
    found = situations([plan], links, addresses, silence, {paths[3]}, {paths[1]}, told)
    assert {device: seen.addresses for device, seen in found.items()} == {
        "zt0p1": {"198.51.100.1", "198.51.100.2", "203.0.113.1"},
        "zt0p2": {"203.0.113.1"},
        "zt0p3": {"198.51.100.1"},
        "zt0p4": {"198.51.100.1", "198.51.100.2", "203.0.113.1"},
    }
    assert [seen.silent for seen in found.values()] == [
        {paths[0]: Silence(100.0 + UNSEEN)}, {paths[1]: Silence(100.0)}, {paths[2]: Silence(100.0, 101.0)}, {}
    ]  # fmt: skip
    assert [seen.carrying for seen in found.values()] == [set(), set(), set(), {paths[3]}]
    assert [seen.index for seen in found.values()] == [11, None, None, None]
    assert [seen.told for seen in found.values()] == [told["zt0p1"], set(), set(), set()]
    own = make_plan(bundle(text), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
    assert situations([own], links, addresses, silence, set(), set(), told) == {}
