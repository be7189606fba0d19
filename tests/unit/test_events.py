"""What is told of two looks at the router, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.pathd.tell.chronicle import Chronicle
from zerotier_multi.pathd.tell.events import INFO, NOTICE, WARNING, Event, Seen, events, hang, path_cause, recovery, revival
from zerotier_multi.pathd.instances.healing import cause
from zerotier_multi.plan import Plan
from zerotier_multi.planner import make_plan

PLAN = make_plan(bundle(EXAMPLE), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
OTHER = make_plan(replace(bundle(EXAMPLE), name="zt1"), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")
IDS = [path.nexthop_id for path in PLAN.paths]
DEVICES = {f"zt0p{k}": 10 + k for k in range(1, 5)}


def seen(*words: str, ready: Sequence[int] = (), **devices: int) -> Seen:
    """A look at the four paths; those that are not named are up."""
    states = dict(zip(IDS, [*words, *["up"] * (4 - len(words))], strict=True))
    return Seen(states, {**DEVICES, **devices}, frozenset(ready))


def told(before: Seen, after: Seen) -> list[Event]:
    return list(events([PLAN], before, after))


def test_a_backup_tells_when_it_begins_to_carry_traffic_and_when_it_ends() -> None:
    rest, used = seen("backup"), seen("up", "down", "down", "down")
    assert path_cause(PLAN, PLAN.paths[0], rest, used) == "it is a backup, and no other path to the remote works"
    begun, ended = (next(e for e in found if e.instance == 1) for found in (told(rest, used), told(used, rest)))
    assert (begun.kind, begun.priority, ended.kind, ended.priority) == ("path-up", NOTICE, "path-backup", NOTICE)
    back = next(e for e in told(seen("down"), rest) if e.instance == 1)
    assert back.kind == "path-backup", "who was told that it is down is told that it is not"


def test_nothing_has_happened_where_nothing_differs() -> None:
    assert told(seen(), seen()) == [] and told(Seen(), seen("down")) == []


def test_a_path_that_falls_is_told_with_its_bundle() -> None:
    path, whole = told(seen(), seen("up", "down"))
    assert path.fields() == {
        "ZEROTIER_EVENT": "path-down", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_REMOTE": "R2", "ZEROTIER_INSTANCE": "2",
        "ZEROTIER_FAMILY": "4", "ZEROTIER_DEVICE": "zt0p2", "ZEROTIER_FROM": "up", "ZEROTIER_TO": "down",
        "ZEROTIER_CAUSE": "no answer to 3 probes",
    }  # fmt: skip
    assert path.message == "path zt0/2 to R2 (IPv4): up -> down: no answer to 3 probes" and path.priority == WARNING
    assert whole.fields() == {
        "ZEROTIER_EVENT": "bundle-degraded", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_FROM": "up", "ZEROTIER_TO": "degraded",
        "ZEROTIER_CAUSE": "3 of 4 paths are up",
    }  # fmt: skip
    assert whole.message == "bundle zt0: up -> degraded: 3 of 4 paths are up" and whole.priority == WARNING


@pytest.mark.parametrize(
    ("was", "word", "cause"),
    [
        ("down", "up", "its probes are answered"),
        ("waiting", "up", "its probes are answered"),
        ("remote down", "up", "the remote hears us over it again"),
        ("held down", "up", "it has answered for long enough"),
        ("held down", "down", "no answer to 3 probes"),
        ("waiting", "down", "no answer to its probes yet"),
        ("up", "held down", "it fell too often and is held for a while"),
        ("up", "remote down", "the remote does not hear us over it"),
        ("up", "narrow", "packets of full size are lost on it, and not on other paths"),
        ("narrow", "up", "packets of full size arrive again, or on no other path either"),
        ("narrow", "down", "no answer to 3 probes"),
        ("up", "backup", "it is a backup, and another path to the remote works"),
        ("backup", "up", "it is no backup any more, or several are in use"),
        ("backup", "down", "no answer to 3 probes"),
        ("up", "drained", "drained for a restart"),
        ("up", "no device", "the device is gone"),
        ("no device", "waiting", "the device is not ready"),
    ],
)
def test_every_change_has_a_cause(was: str, word: str, cause: str) -> None:
    assert path_cause(PLAN, PLAN.paths[0], seen(was), seen(word)) == cause


def test_causes_that_need_more_than_the_two_words() -> None:
    path = PLAN.paths[0]
    anew = path_cause(PLAN, path, seen(), seen("down", zt0p1=99))
    assert anew == "the device was created again; no answer over it yet"
    ready = seen("waiting", ready=[path.nexthop_id])
    assert path_cause(PLAN, path, seen("down"), ready) == "it waits for the other paths to the remote"
    unprobed = replace(PLAN, health=replace(PLAN.health, enabled=False))
    assert path_cause(unprobed, path, seen("waiting"), seen()) == "the device is ready"
    assert path_cause(PLAN, path, Seen(), seen("down")) == "no answer to its probes"
    assert path_cause(PLAN, path, Seen(), seen("no device")) == "the device is not there"


def test_what_passes_is_told_once_and_so_is_its_end() -> None:
    def look(passes: int | None, wide: bool = False) -> Seen:
        return replace(seen(), passes={} if passes is None else {IDS[1]: passes}, wide=frozenset([IDS[1]] if wide else []))

    (narrow,) = told(look(None, True), look(1374))
    assert narrow.kind == "path-narrow" and narrow.priority == WARNING
    assert narrow.message == "path zt0/2 to R2 (IPv4): probes of more than 1374 bytes are lost"
    assert narrow.fields()["ZEROTIER_DEVICE"] == "zt0p2" and "ZEROTIER_FROM" not in narrow.fields()
    assert told(look(1374), look(1374)) == [] and [event.kind for event in told(look(1374), look(0))] == ["path-narrow"]
    assert told(look(None), look(0))[0].cause == "probes of full size are lost"
    (wide,) = told(look(1374), look(None, True))
    assert wide.kind == "path-wide" and wide.priority == NOTICE


def test_a_path_is_narrow_until_full_packets_come() -> None:
    """A smaller MTU, which is the remedy, and a restart of the instance begin with nothing known."""
    heard: list[str] = []
    made = Chronicle([lambda event: heard.append(event.kind)])

    def look(passes: int | None = None, wide: bool = False) -> None:
        found = replace(seen(), passes={} if passes is None else {IDS[1]: passes}, wide=frozenset([IDS[1]] if wide else []))
        made.look([PLAN], found, {})

    for step in (dict(wide=True), {}, dict(passes=1374), {}, dict(passes=1374), {}, dict(wide=True), {}, dict(wide=True)):
        look(**step)
    assert heard == ["path-narrow", "path-wide"]


def test_another_remote_in_the_place_of_one_that_was_narrow_is_not_wide_again() -> None:
    heard: list[str] = []
    made = Chronicle([lambda event: heard.append(event.kind)])
    made.look([PLAN], seen(), {})
    made.look([PLAN], replace(seen(), passes={IDS[1]: 1374}), {})
    other = replace(PLAN, paths=tuple(replace(path, remote="R9") for path in PLAN.paths))
    made.look([other], replace(seen(), wide=frozenset(IDS)), {})
    made.look([other], replace(seen(), passes={IDS[1]: 1374}), {})
    assert heard == ["path-narrow", "path-narrow"]


def test_the_end_of_a_device_comes_before_that_of_its_path() -> None:
    found = told(seen(), seen("no device", zt0p1=0))
    assert [e.kind for e in found] == ["device-gone", "path-down", "bundle-degraded"]
    assert found[0].message == "device zt0p1 of zt0/1: present -> absent: the instance has ended or left its network"
    assert (found[0].device, found[0].instance, found[0].remote) == ("zt0p1", 1, None)


def test_a_member_without_paths_has_not_been_drained() -> None:
    alone = replace(PLAN, paths=(), groups=(), routes=())
    (event,) = events([alone], seen(), seen(zt0p1=0))
    assert (event.kind, event.priority, event.cause) == ("device-gone", WARNING, "the instance has ended or left its network")


def test_a_restart_on_purpose_warns_of_no_path_and_no_device() -> None:
    first = told(seen(), seen("drained"))
    then = told(seen("drained"), seen("no device", zt0p1=0))
    back = told(seen("no device", zt0p1=0), seen("waiting", zt0p1=50)) + told(seen("waiting"), seen())
    assert [(e.kind, e.priority) for e in first] == [("path-down", NOTICE), ("bundle-degraded", WARNING)]
    assert [(e.kind, e.priority, e.cause) for e in then] == [
        ("device-gone", NOTICE, "drained for a restart"),
        ("path-state", INFO, "the device is gone"),
    ]
    assert [(e.kind, e.priority) for e in back] == [
        ("device-appeared", NOTICE), ("path-state", INFO), ("path-up", NOTICE), ("bundle-up", NOTICE),
    ]  # fmt: skip


def test_a_device_made_anew_between_two_looks_is_told() -> None:
    assert [(e.kind, e.cause) for e in told(seen(), seen(zt0p1=99))] == [("device-appeared", "the instance has created it again")]


@pytest.mark.parametrize(
    ("was", "word", "kind", "priority"),
    [
        (["up"], ["down"] * 4, "bundle-down", WARNING),
        (["down"] * 4, ["down"] * 3, "bundle-degraded", NOTICE),
        (["down"], ["up"], "bundle-up", NOTICE),
    ],
)
def test_a_bundle_is_told_when_its_word_changes(was: list[str], word: list[str], kind: str, priority: int) -> None:
    last = told(seen(*was), seen(*word))[-1]
    assert (last.kind, last.priority) == (kind, priority)


def test_another_bundle_is_not_concerned() -> None:
    others = {path.nexthop_id: "up" for path in OTHER.paths}
    before, after = seen(), seen("down")
    both = [replace(look, states={**look.states, **others}) for look in (before, after)]
    assert {e.bundle for e in events([PLAN, OTHER], *both)} == {"zt0"}


def test_what_a_plan_no_longer_has_goes_without_a_word() -> None:
    shorter = replace(PLAN, paths=PLAN.paths[:3], instances=PLAN.instances[:3])
    after = Seen(dict.fromkeys(IDS[:3], "up"), {d: n for d, n in DEVICES.items() if d != "zt0p4"})
    assert list(events([shorter], seen(), after)) == []
    assert list(events([replace(PLAN, paths=(), instances=())], seen(), Seen())) == []


# -- remotes

THREE = make_plan(
    bundle(
        EXAMPLE.replace("instances 4", "instances 2").replace("/28", "/26")
        + "transit prefix fd00:14::/56\ntransit subnet-length 28\ntransit subnet-length 64\n"
        + "remote R2 site 2\nremote R3 site 3\nremote R3 prefix 10.0.55.3/32"
    ),
    tuple(Cpu(n, n) for n in range(4)),
    "/usr/sbin/ztnode",
)


def paths_of(plan: Plan, remote: str) -> list[int]:
    return [path.nexthop_id for path in plan.paths if path.remote == remote]


class Sites:
    """A chronicle of R2 and R3, over two instances and two families each."""

    def __init__(self, **memory: str) -> None:
        self.heard: list[Event] = []
        self.time = 1000.0
        self._made = Chronicle([self.heard.append], lambda: self.time)
        self._memory = self._states(THREE, **memory) if memory else {}

    @staticmethod
    def _states(plan: Plan, **words: str) -> dict[int, str]:
        """Each remote's words in the order of its paths, the last one for all that follow; "" is none."""
        found = {}
        for remote, text in words.items():
            given = text.split(", ")
            for number, path in enumerate(paths_of(plan, remote)):
                found[path] = given[min(number, len(given) - 1)]
        return found

    def look(self, plan: Plan = THREE, after: float = 1.0, **words: str) -> list[Event]:
        """Events of remotes and bundles of a look; remotes that are not named are up."""
        self.heard.clear()
        self.time += after
        remotes = dict.fromkeys(path.remote for path in plan.paths)
        states = self._states(plan, **{remote: words.get(remote, "up") for remote in remotes})
        self._made.look([plan], Seen(states, {}), self._memory)
        return [event for event in self.heard if not event.kind.startswith("path")]


def kinds(found: list[Event]) -> list[str]:
    return [event.kind for event in found]


def test_a_site_is_gone_once_its_last_path_of_either_family_is_and_not_before() -> None:
    sites = Sites()
    assert len({path.family for path in THREE.paths}) == 2 and len(paths_of(THREE, "R3")) == 4
    assert sites.look() == []
    assert kinds(sites.look(R3="down, down, down, up")) == ["bundle-degraded"]
    (down,) = sites.look(R3="down")
    assert down.fields() == {
        "ZEROTIER_EVENT": "remote-down", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_REMOTE": "R3",
        "ZEROTIER_FROM": "up", "ZEROTIER_TO": "down", "ZEROTIER_CAUSE": "0 of 4 paths are up: no answer to 3 probes",
    }  # fmt: skip
    assert down.message == "remote R3 of zt0: up -> down: 0 of 4 paths are up: no answer to 3 probes" and down.priority == WARNING
    assert sites.look(R3="down", after=700.0) == [] == sites.look(R3="held down", after=40.0)
    (up,) = sites.look(R3="up, down, held down, down", after=14.0)
    assert up.fields() == {
        "ZEROTIER_EVENT": "remote-up", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_REMOTE": "R3",
        "ZEROTIER_FROM": "down", "ZEROTIER_TO": "up", "ZEROTIER_CAUSE": "1 of 4 paths are up, after 754 s",
    }  # fmt: skip
    assert up.priority == NOTICE
    assert kinds(sites.look()) == ["bundle-up"]


def test_paths_that_fall_together_tell_the_site_before_the_bundle_and_each_cause_once() -> None:
    sites = Sites()
    sites.look()
    found = sites.look(R2="no device, down", R3="down, remote down, down, down")
    assert kinds(found) == ["remote-down", "remote-down", "bundle-down"]
    assert [e.cause for e in found[:2]] == [
        "0 of 4 paths are up: the device is gone; no answer to 3 probes",
        "0 of 4 paths are up: no answer to 3 probes; the remote does not hear us over it",
    ]
    assert [e.cause for e in sites.look(R3="up, down", R2="down")] == ["1 of 4 paths are up, after 1 s", "1 of 8 paths are up"]


def test_a_site_without_traffic_for_a_restart_on_purpose_is_no_warning() -> None:
    sites = Sites()
    sites.look()
    down = sites.look(R2="drained")[0]
    assert (down.kind, down.priority, down.cause) == ("remote-down", NOTICE, "0 of 4 paths are up: drained for a restart")
    sites = Sites()
    sites.look()
    assert sites.look(R2="drained, down")[0].priority == WARNING


def test_a_site_that_was_never_up_is_not_gone() -> None:
    """One in a bundle that is new, and one that a commit adds to a bundle."""
    sites = Sites()
    for word in ("no device", "waiting", "down", "held down"):
        assert sites.look(R3=word) == []
    sites = Sites()
    other = replace(THREE, paths=tuple(path for path in THREE.paths if path.remote == "R2"))
    assert sites.look(other) == [] == sites.look(R3="waiting") == sites.look(R3="down") == sites.look(R3="up, down")
    assert kinds(sites.look(R3="down")) == ["remote-down", "bundle-degraded"], "now it was"


def test_a_site_that_gets_the_numbers_of_another_one_is_not_gone() -> None:
    sites = Sites()
    sites.look()
    renamed = replace(THREE, paths=tuple(replace(p, remote="R9") if p.remote == "R3" else p for p in THREE.paths))
    assert kinds(sites.look(renamed, R9="down")) == ["bundle-degraded"]
    sites.look(R3="down")
    (up, _bundle) = sites.look()
    assert (up.kind, up.cause) == ("remote-up", "4 of 4 paths are up"), "it was not seen going"


def test_a_site_whose_last_path_up_is_no_longer_configured_is_gone() -> None:
    sites = Sites()
    sites.look(R3="up, down")
    fewer = replace(THREE, paths=tuple(path for path in THREE.paths if path.nexthop_id != paths_of(THREE, "R3")[0]))
    (down,) = sites.look(fewer, R3="down")
    assert (down.kind, down.cause, down.priority) == ("remote-down", "0 of 3 paths are up", WARNING)
    assert sites.look(replace(THREE, paths=())) == []


def test_a_daemon_started_anew_tells_of_sites_only_what_has_changed() -> None:
    sites = Sites(R2="up", R3="down")
    assert sites.look(R3="down") == []
    assert [(e.kind, e.cause) for e in sites.look()][0] == ("remote-up", "4 of 4 paths are up")
    sites = Sites(R2="up", R3="up")
    assert kinds(sites.look(R3="no device")) == ["remote-down", "bundle-degraded"]


# -- over the daemon's life


def chronicle() -> tuple[Chronicle, list[Event]]:
    heard: list[Event] = []
    return Chronicle([heard.append]), heard


def states(look: Seen) -> dict[int, str]:
    return dict(look.states)


@pytest.mark.parametrize("word", ["no device", "waiting", "down"])
def test_paths_that_are_new_in_the_configuration_make_no_bundle_degraded(word: str) -> None:
    """A commit of more instances, or of one more remote, whose router may stand much later."""
    made, heard = chronicle()
    few = replace(seen(), states=dict.fromkeys(IDS[:2], "up"))

    def look(now: Seen) -> list[str]:
        heard.clear()
        made.look([PLAN], now, {})
        return [event.kind for event in heard]

    made.look([replace(PLAN, paths=PLAN.paths[:2])], few, states(few))
    assert look(seen("up", "up", word, word)) == [] == look(seen("up", "up", word, word))
    # What was there before is judged as ever, and so is a prefix.
    assert look(seen("up", "down", word, word)) == ["path-down", "bundle-degraded"]
    assert look(seen("down", "down", word, word)) == ["path-down", "remote-down", "bundle-down"]
    assert look(seen("up", "up", word, word)) == ["path-up", "path-up", "remote-up", "bundle-up"]
    elsewhere = replace(seen("up", "up", word, word), unrouted={"zt0": {"10.0.55.2/32": "so it is"}})
    assert look(elsewhere) == ["bundle-degraded"] and look(seen("up", "up", word, word)) == ["bundle-up"]
    # One that has been up once is as the others.
    assert look(seen("up", "up", "up", word)) == ["path-up"]
    assert look(seen("up", "up", "down", word)) == ["path-down", "bundle-degraded"]
    assert look(seen()) == ["path-up", "path-up", "bundle-up"]


def test_a_new_bundle_is_told_as_its_paths_come_up() -> None:
    made, heard = chronicle()
    made.look([], Seen(), {})
    for now in (seen("waiting", "waiting", "waiting", "waiting"), seen("up", "waiting", "waiting", "waiting"), seen()):
        made.look([PLAN], now, {})
    assert [event.kind for event in heard if event.kind.startswith("bundle")] == ["bundle-degraded", "bundle-up"]


def test_a_daemon_started_anew_says_nothing_of_what_has_not_changed() -> None:
    made, heard = chronicle()
    look = seen("down", "no device", "drained", zt0p2=0)
    made.look([PLAN], look, states(look))
    assert heard == [] and [made.changes(path) for path in IDS] == [0] * 4
    assert [made.cause(path) for path in IDS] == [
        "no answer to its probes", "the device is not there", "drained for a restart", None,
    ]  # fmt: skip


def test_a_daemon_started_anew_tells_what_has_changed_meanwhile() -> None:
    made, heard = chronicle()
    made.look([PLAN], seen("no device", zt0p1=0), states(seen()))
    assert [e.kind for e in heard] == ["device-gone", "path-down", "bundle-degraded"]
    made, heard = chronicle()
    made.look([PLAN], seen("waiting"), states(seen("no device")))
    assert [e.kind for e in heard] == ["device-appeared", "path-state"]


def test_a_daemon_started_anew_remembers_what_goes_elsewhere() -> None:
    """All paths are up, and the word of the bundle depends on its prefixes alone."""
    elsewhere = {"zt0": {"10.0.55.2/32": "the route 10.0.55.2/32 over eth1 of another program (protocol static) is used instead"}}
    made, heard = chronicle()
    made.look([PLAN], replace(seen(), unrouted=elsewhere), states(seen()), elsewhere)
    assert heard == []
    made, heard = chronicle()
    made.look([PLAN], seen(), states(seen()), elsewhere)
    assert [(e.kind, e.before, e.after) for e in heard] == [("bundle-up", "degraded", "up")]


def test_the_first_look_ever_is_no_event() -> None:
    made, heard = chronicle()
    made.look([PLAN], seen(*["no device"] * 4, **dict.fromkeys(DEVICES, 0)), {})
    assert heard == []
    made.look([PLAN], seen(), {})
    assert [e.kind for e in heard] == ["device-appeared"] * 4 + ["path-up"] * 4 + ["remote-up", "bundle-up"]


def test_changes_are_counted_and_forgotten_with_their_path() -> None:
    made, _heard = chronicle()
    for look in (seen(), seen("down"), seen("remote down"), seen()):
        made.look([PLAN], look, states(seen()))
    assert (made.changes(IDS[0]), made.cause(IDS[0])) == (3, "the remote hears us over it again")
    assert (made.changes(IDS[1]), made.cause(IDS[1])) == (0, None)
    made.look([], Seen(), {})
    assert (made.changes(IDS[0]), made.cause(IDS[0])) == (0, None)


def test_what_happens_on_purpose_is_no_fall() -> None:
    """A restart here goes through several words; one of the far end is one fall."""
    made, _heard = chronicle()
    here = [seen(word) for word in ("up", "drained", "no device", "waiting", "down", "up")]
    there = [seen(word) for word in ("remote down", "down", "up")]
    for look in (*here, *here, *there):
        made.look([PLAN], look, states(seen()))
    assert (made.changes(IDS[0]), made.falls(IDS[0]), made.falls(IDS[1])) == (13, 1, 0)
    made.look([], Seen(), {})
    assert made.falls(IDS[0]) == 0


def test_what_the_daemon_does_to_an_instance_is_told() -> None:
    made, heard = chronicle()
    instance: Any = PLAN.instances[1]
    marker = f"networks.d/{instance.network_id}.conf"
    lost, left = cause(instance, ()), cause(instance, ("planet", marker))
    for event in (revival("zt0", instance, lost), hang("zt0", instance), revival("zt0", instance, left)):
        made.tell(event)
    assert (made.revivals("zt0", 2), made.revivals("zt0", 1)) == (3, 0)  # systemd starts a killed one
    assert [e.message for e in heard[:3]] == [
        "instance zt0/2: zerotier-multi@zt0-2.service is started again: its device zt0p2 is missing",
        "instance zt0/2: zerotier-multi@zt0-2.service is killed: it runs but does not answer",
        f"instance zt0/2: zerotier-multi@zt0-2.service is started again: it is not on its network: {marker} in its home did not match"
        " the plan",
    ]
    made.tell(recovery("zt0", instance, "an address of this router has changed"))
    assert made.revivals("zt0", 2) == 4
    assert heard[0].fields()["ZEROTIER_INSTANCE"] == "2" and "ZEROTIER_TO" not in heard[0].fields()
