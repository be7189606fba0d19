"""Endpoints that are DNS names: in the configuration, in the files of a home, and how they are looked up."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.loop import Loop
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.homefiles import HomeFiles
from zerotier_multi.hosts import current_files, named_peers, read_hosts, store_hosts, with_hosts
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.pathd.instances import endpoints
from zerotier_multi.pathd.instances.endpoints import Endpoints
from zerotier_multi.pathd.instances.resolver import AT_ONCE, FIRST, LONGEST, MOST, PATIENCE, Resolver, addresses
from zerotier_multi.plan import Plan, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.values import named_endpoint

A = PublicIdentity("89e92ceee5", bytes(range(64)))
B = PublicIdentity("1d20db2f58", bytes(range(64, 128)))
CPUS = tuple(Cpu(n, n) for n in range(4))
NAMED = EXAMPLE + f"controller-free\nremote R2 instance 1 identity {B}\nremote R2 instance 1 endpoint R2.example.org:9993\n"


def plan_of(text: str, engine: str = "/usr/sbin/ztnode") -> Plan:
    return make_plan(bundle(text), CPUS, engine)


def tried(plan: Plan, hosts: dict[str, tuple[str, ...]]) -> list[str]:
    virtual = json.loads(current_files(plan, plan.instances[0], A, hosts, {}).have["local.conf"])["virtual"]
    return virtual.get(B.address, {}).get("try", [])


@pytest.mark.parametrize("text", ["r2.example.org:9993", "R2:1", "a_b.example:65535", "1and1.example:1", "7a:9"])
def test_names_that_are_endpoints(text: str) -> None:
    assert str(named_endpoint(text)) == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "198.51.100.2:9993",
        "300.1.1.1:9",
        "a.3:9",
        "-a:9",
        "a..b:9",
        "a.:9",
        ".a:9",
        f"{'a' * 64}:9",
        "a:0",
        "a:65536",
        "a",
        "a b:1",
    ],
)
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        named_endpoint(text)


def test_a_name_goes_from_the_configuration_into_the_plan_and_out_of_its_file() -> None:
    parsed = bundle(NAMED + "remote R2 instance 1 endpoint 198.51.100.2:9993\n")
    assert not check_bundle(parsed, CPUS)
    plan = make_plan(parsed, CPUS, "/usr/sbin/ztnode")
    assert plan.peers[0].endpoints == ("198.51.100.2:9993", "r2.example.org:9993")
    assert [(peer.remote, name) for _plan, peer, name in named_peers([from_json(to_json(plan))])] == [("R2", "r2.example.org")]


def test_a_name_needs_controller_free_mode_as_an_address_does() -> None:
    problems = check_bundle(bundle(NAMED.replace("controller-free\n", "")), CPUS)
    assert any("endpoint" in problem.path for problem in problems)


def test_the_files_have_the_addresses_that_are_known() -> None:
    plan = plan_of(NAMED)
    assert tried(plan, {}) == []
    assert tried(plan, {"r2.example.org": ("198.51.100.2", "2001:db8::2")}) == ["198.51.100.2/9993", "2001:db8::2/9993"]
    assert tried(plan, {"other.example.org": ("198.51.100.3",)}) == []


def test_what_a_name_stands_for_is_not_kept_off_the_underlay() -> None:
    plan = plan_of(NAMED + "remote R2 prefix 203.0.113.2/32\nremote R3 site 2\nremote R3 prefix 203.0.113.3/32\n")

    def kept_off(hosts: dict[str, tuple[str, ...]]) -> set[str]:
        return set(json.loads(current_files(plan, plan.instances[0], A, hosts, {}).have["local.conf"])["physical"])

    always = {"10.14.0.0/28", "10.0.55.1/32", "10.0.55.2/32", "203.0.113.3/32"}
    assert kept_off({}) == kept_off({"other.example.org": ("203.0.113.2",)}) == always | {"203.0.113.2/32"}
    assert kept_off({"r2.example.org": ("203.0.113.2", "2001:db8::2")}) == always


@pytest.mark.parametrize("engine", ["/usr/sbin/ztnode", "/usr/sbin/zerotier-one"])
def test_an_address_that_a_name_gets_is_no_reason_for_a_commit_to_restart(engine: str) -> None:
    plan = plan_of(NAMED, engine)
    digests = {
        current_files(plan, plan.instances[0], A, hosts, {}).restart_digest
        for hosts in ({}, {"r2.example.org": ("198.51.100.2",)}, {"r2.example.org": ("198.51.100.3",)})
    }
    assert len(digests) == 1


def test_addresses_that_are_configured_come_first_and_there_are_no_more_than_an_engine_takes() -> None:
    plan = plan_of(NAMED + "remote R2 instance 1 endpoint 203.0.113.9:9993\n")
    many = {"r2.example.org": tuple(f"198.51.100.{n}" for n in range(1, 60))}
    endpoints = with_hosts(plan, many).peers[0].endpoints
    assert len(endpoints) == 32 and endpoints[0] == "203.0.113.9:9993"


def test_what_is_written_down_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "hosts.json"
    assert read_hosts(path) == {}
    assert store_hosts({"a.example": ("198.51.100.2",)}, path) == []
    assert read_hosts(path) == {"a.example": ("198.51.100.2",)}
    path.write_text('{"a.example": "x", "b')
    assert read_hosts(path) == {}


def test_what_getent_says() -> None:
    said = (
        "nonsense\n2001:db8::2     STREAM r2.example.org\n2001:db8::2     DGRAM\n198.51.100.12   STREAM\nfe80::1%eth0 STREAM\n"
        "127.0.1.1 STREAM\n0.0.0.0 RAW\n\n224.0.0.5 STREAM\n198.51.100.2   STREAM\n"
    )
    assert addresses(said) == ("198.51.100.2", "198.51.100.12", "2001:db8::2")
    assert len(addresses("".join(f"198.51.100.{n} STREAM\n" for n in range(50)))) == MOST


class Zone:
    """Name servers: a program in place of getent for each lookup, and what the resolver told."""

    def __init__(self, known: dict[str, tuple[str, ...]] | None = None) -> None:
        self.answers: dict[str, str] = {}
        self.asked: list[str] = []
        self.told: list[str] = []
        self.loop = Loop()
        self.resolver = Resolver(self.loop, self.told.append, known or {}, self.start)

    def start(self, name: str) -> subprocess.Popen[bytes]:
        self.asked.append(name)
        text = self.answers.get(name)
        script = "sleep 600" if text == "silence" else f"printf '{text} STREAM\\n'" if text else "exit 2"
        return subprocess.Popen(["sh", "-c", f"exec {script}"], stdout=subprocess.PIPE)

    def work(self, now: float, until: Callable[[], bool] = lambda: True) -> None:
        self.loop.now = now
        self.resolver.work(now)
        end = time.monotonic() + 10
        while not until() and time.monotonic() < end:
            self.loop.turn(0.1)
        assert until()


def test_a_name_is_looked_up_at_once_and_again_less_and_less_often_while_a_path_is_down() -> None:
    zone, now, moments = Zone(), 100.0, []
    zone.answers["a"] = "198.51.100.2"
    open_files = len(os.listdir("/proc/self/fd"))
    for count in range(1, 9):
        zone.resolver.configure({"a": True}, now)  # of a commit, or a change of another path
        assert zone.resolver.wake is not None
        now = max(now, zone.resolver.wake)
        moments.append(now)
        zone.work(now, lambda c=count: len(zone.asked) == c and not zone.loop.watched)
    assert zone.resolver.hosts() == {"a": ("198.51.100.2",)} and zone.told == ["a"]
    waits = [b - a for a, b in zip(moments, moments[1:], strict=False)]
    assert len(os.listdir("/proc/self/fd")) == open_files
    assert waits == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, 16 * FIRST, LONGEST, LONGEST]


def test_a_name_is_left_alone_while_its_paths_are_up() -> None:
    zone = Zone()
    zone.answers["a"] = "198.51.100.2"
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0, lambda: bool(zone.resolver.hosts()))
    zone.resolver.configure({"a": False}, 1.0)
    assert zone.resolver.wake is None
    zone.resolver.configure({"a": True}, 1.5)
    assert zone.resolver.wake == FIRST, "a path that comes and goes asks no oftener"
    zone.resolver.configure({"a": False}, 1.6)
    zone.resolver.hurry(1.7)
    assert zone.resolver.wake is None
    zone.answers["a"] = "198.51.100.7"
    zone.resolver.configure({"a": True}, 50.0)
    assert zone.resolver.wake == 50.0
    zone.work(50.0, lambda: zone.resolver.hosts() == {"a": ("198.51.100.7",)})
    assert zone.told == ["a", "a"]


def test_a_name_that_does_not_resolve_keeps_its_address_and_says_so_once() -> None:
    zone = Zone(known={"a": ("198.51.100.2",)})
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0, lambda: zone.resolver.fault("a") is not None)
    assert zone.resolver.fault("a") == "a does not resolve to an address"
    assert zone.resolver.hosts() == {"a": ("198.51.100.2",)}
    zone.work(FIRST, lambda: len(zone.asked) == 2 and not zone.loop.watched)
    assert zone.told == ["a"]
    zone.answers["a"] = "198.51.100.2"
    zone.work(3 * FIRST, lambda: zone.resolver.fault("a") is None)
    assert zone.told == ["a", "a"]


def test_silent_name_servers_hold_nobody_up() -> None:
    zone = Zone()
    zone.answers = {"a": "silence", "b": "198.51.100.3"}
    zone.resolver.configure({"a": True, "b": True}, 0.0)
    zone.work(0.0, lambda: zone.resolver.hosts() == {"b": ("198.51.100.3",)})
    assert zone.resolver.wake is not None and zone.resolver.wake <= PATIENCE
    zone.work(PATIENCE)
    assert zone.resolver.fault("a") == f"the name servers do not answer for a within {PATIENCE:g} s"
    zone.resolver.configure({}, PATIENCE)
    assert not zone.loop.watched and zone.resolver.wake is None


def test_a_few_names_are_looked_up_at_a_time() -> None:
    zone, names = Zone(), [f"n{n}" for n in range(AT_ONCE + 3)]
    zone.answers = dict.fromkeys(names, "silence")
    zone.resolver.configure(dict.fromkeys(names, True), 0.0)
    zone.work(0.0)
    assert zone.asked == names[:AT_ONCE] and zone.resolver.wake == PATIENCE
    zone.work(5.0)
    assert zone.asked == names[:AT_ONCE] and zone.loop.watched == AT_ONCE and zone.resolver.fault("n0") is None
    zone.work(PATIENCE)
    assert zone.asked == names and zone.loop.watched == 3 and zone.resolver.wake == PATIENCE + FIRST
    zone.resolver.configure({}, PATIENCE)


def test_a_lookup_that_is_under_way_is_not_begun_again() -> None:
    zone = Zone()
    zone.answers["a"] = "silence"
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0)
    zone.resolver.configure({"a": False}, 0.5)
    zone.resolver.configure({"a": True}, 1.0)
    zone.work(FIRST)
    assert zone.asked == ["a"] and zone.resolver.wake == PATIENCE
    zone.resolver.configure({}, FIRST)


@pytest.mark.parametrize(
    ("known", "answer", "again"), [((), "198.51.100.2", False), ((), None, True), (("198.51.100.2",), None, False)]
)
def test_a_name_whose_paths_are_up_is_looked_up_until_there_is_an_address(
    known: tuple[str, ...], answer: str | None, again: bool
) -> None:
    zone = Zone(known={"a": known} if known else {})
    if answer:
        zone.answers["a"] = answer
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0)
    zone.resolver.configure({"a": False}, 0.0)
    zone.work(0.0, lambda: not zone.loop.watched)
    assert zone.resolver.wake == (FIRST if again else None)
    zone.resolver.configure({"a": False, "b": False}, 1.0)
    assert zone.resolver.wake == 1.0, "of one that is new, nothing is known"


def test_where_no_lookup_can_be_begun_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_name: str) -> subprocess.Popen[bytes]:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    zone = Zone()
    monkeypatch.setattr(zone.resolver, "_start", start)
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0)
    assert zone.resolver.fault("a") == "a cannot be looked up (Cannot allocate memory)" and zone.told == ["a"]
    assert zone.resolver.wake == FIRST and zone.resolver.fault("b") is None
    zone.resolver.hurry(0.5)
    assert zone.resolver.wake == FIRST, "addresses that come and go ask no oftener"
    zone.resolver.configure({"a": False}, 1.0)
    assert zone.resolver.wake == FIRST, "there is no address yet"


def test_another_address_of_the_router_ends_the_wait() -> None:
    """An uplink that comes minutes after the boot brings name servers."""
    zone, now = Zone(known={"b": ("198.51.100.3",)}), 0.0
    zone.resolver.configure({"a": True, "b": False}, now)
    for count in range(1, 7):
        now = max(now, zone.resolver.wake or 0.0)
        zone.work(now, lambda c=count: len(zone.asked) == c and not zone.loop.watched)
    assert zone.resolver.wake == now + 32 * FIRST if 32 * FIRST < LONGEST else now + LONGEST
    zone.answers["a"] = "198.51.100.2"
    zone.resolver.hurry(now + 10)
    assert zone.resolver.wake == now + 10
    zone.work(now + 10, lambda: "a" in zone.resolver.hosts())
    assert set(zone.asked) == {"a"}, "one whose paths are up is left alone"


def test_what_is_known_stays_until_its_plan_comes() -> None:
    """At a boot, a commit of one bundle after the other."""
    known = {"a": ("198.51.100.2",), "b": ("198.51.100.3",)}
    zone = Zone(known=known)
    zone.resolver.configure({"a": False}, 0.0)
    assert zone.resolver.hosts() == known and zone.resolver.wake is None
    zone.resolver.configure({"a": False, "b": False}, 1.0)
    assert zone.resolver.hosts() == known and zone.resolver.wake is None
    zone.resolver.configure({"a": False}, 2.0)
    assert zone.resolver.hosts() == {"a": ("198.51.100.2",)}


def test_an_instance_that_could_not_be_told_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the disk was full when a remote moved, which nobody repeats."""
    monkeypatch.setattr(endpoints, "read_hosts", lambda: {"r2.example.org": ("198.51.100.2",)})
    monkeypatch.setattr(endpoints, "store_hosts", lambda _hosts: [])
    monkeypatch.setattr(endpoints, "own_identity", lambda _home: A)
    plan = plan_of(NAMED)
    written: list[tuple[str, list[str]]] = []
    full, refused = True, 0

    def sync_home(home: Path, files: HomeFiles) -> None:
        nonlocal refused
        if full:
            refused += 1
            raise OSError(errno.ENOSPC, "No space left on device", str(home))
        written.append((home.name, json.loads(files.have["local.conf"])["virtual"][B.address]["try"]))

    monkeypatch.setattr(endpoints, "sync_home", sync_home)
    loop = Loop()
    brought = Endpoints(loop, lambda _event: None, lambda: None)
    brought.configure([plan])
    brought.look([], {}, 0.0)
    assert brought.wake is None and brought.faults(plan) == []
    brought._resolver._names["r2.example.org"].addresses = ("198.51.100.7",)
    now, tries = 1.0, []
    while now < 400:
        for moment in (now, now + 0.1):  # other looks are no reason to try again
            brought.look([], {}, moment)
        tries.append(now)
        assert brought.wake is not None
        now = brought.wake
    assert [b - a for a, b in zip(tries, tries[1:], strict=False)] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]
    assert len(caplog.records) == 1 and refused == len(tries)
    sentence = (
        "addresses of remotes cannot be given to instance 1: /config/zerotier-multi/zt0/1 cannot be written "
        "(No space left on device); zerotier-pathd tries again"
    )
    first = plan.paths[0]
    other = replace(first, instance=2)
    assert brought.faults(plan) == [sentence] == brought.faults(plan, first) and brought.faults(plan, other) == []
    full = False
    brought.look([], {}, now)
    assert brought.wake is None and written == [("1", ["198.51.100.7/9993"])] and brought.faults(plan) == []
    brought.look([], {}, now + 1)
    assert len(written) == 1


def test_after_a_lookup_that_asked_nobody_the_next_is_soon() -> None:
    """Packets to name servers that are not reached yet are lost, and getent waits for answers."""
    zone = Zone()
    zone.answers["a"] = "silence"
    zone.resolver.configure({"a": True}, 0.0)
    zone.work(0.0, lambda: zone.loop.watched == 1)
    zone.answers["a"] = "198.51.100.2"
    for now in (1.0, 3.0, 5.0):  # an uplink that comes and goes: the lookup has its time all the same
        zone.resolver.hurry(now)
        assert zone.resolver.wake == PATIENCE and zone.loop.watched == 1
    zone.work(PATIENCE)
    assert zone.resolver.wake == PATIENCE + FIRST
    zone.work(PATIENCE + FIRST, lambda: "a" in zone.resolver.hosts())


def test_what_could_not_be_written_down_is_written_later(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A commit takes the addresses from there, so that it would take the new ones away again."""
    monkeypatch.setattr(endpoints, "read_hosts", lambda: {"r2.example.org": ("198.51.100.2",)})
    monkeypatch.setattr(endpoints, "own_identity", lambda _home: A)
    monkeypatch.setattr(endpoints, "sync_home", lambda *_given: None)
    stored: list[object] = []
    full = [True]

    def store(hosts: object) -> list[str]:
        if full[0]:
            return ["hosts.json cannot be written (No space left on device)"]
        stored.append(hosts)
        return []

    monkeypatch.setattr(endpoints, "store_hosts", store)
    brought = Endpoints(Loop(), lambda _event: None, lambda: None)
    plan = plan_of(NAMED)
    brought.configure([plan])
    brought.look([], {}, 0.0)
    brought._resolver._names["r2.example.org"].addresses = ("198.51.100.7",)
    for now in (1.0, 2.0):
        brought.look([], {}, now)
        assert brought.wake is not None
        assert brought.faults(plan) == ["hosts.json cannot be written (No space left on device)"]
        assert brought.faults(replace(plan, bundle="zt1")) == [] == brought.faults(plan, plan.paths[0])
    assert len(caplog.records) == 1 and not stored
    brought.configure([])  # also where no name is left
    brought.look([], {}, 3.0)
    full[0] = False
    assert brought.wake == 4.0
    brought.look([], {}, 4.0)
    assert stored == [{}] and brought.wake is None
    brought.look([], {}, 5.0)
    assert len(stored) == 1


def test_a_commit_is_a_reason_to_try_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has made room commits, and looks."""
    monkeypatch.setattr(endpoints, "read_hosts", lambda: {"r2.example.org": ("198.51.100.2",)})
    monkeypatch.setattr(endpoints, "own_identity", lambda _home: A)
    monkeypatch.setattr(endpoints, "sync_home", lambda *_given: None)
    faults = ["hosts.json cannot be written (Read-only file system)"]
    monkeypatch.setattr(endpoints, "store_hosts", lambda _hosts: faults)
    brought = Endpoints(Loop(), lambda _event: None, lambda: None)
    plan = plan_of(NAMED)
    brought.configure([plan])
    brought.look([], {}, 0.0)
    brought._resolver._names["r2.example.org"].addresses = ("198.51.100.7",)
    brought.look([], {}, 1.0)
    brought.look([], {}, brought.wake or 0.0)
    faults = []
    brought.look([], {}, 2.5)
    assert brought.faults(plan)
    brought.configure([plan])
    brought.look([], {}, 2.6)
    assert brought.wake is None and not brought.faults(plan)
