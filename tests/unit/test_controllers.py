"""Members at the API of a controller: the requests of each kind, the transport, the key, and when the daemon tries.

The server is ``tests/controllers.py``; ZeroTier Central and ZTNET themselves are not reached.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from tests.controllers import ELSEWHERE, KEY, NETWORK, FakeController, certificate
from tests.unit.loop import Loop
from zerotier_multi import commit, names
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.controller import __main__ as program
from zerotier_multi.controller import client as transport
from zerotier_multi.controller.client import Client, ControllerError
from zerotier_multi.controller.dialects import DIALECTS, Member, Request
from zerotier_multi.controller.settings import KINDS, place, warnings
from zerotier_multi.controller.work import NO_LIST, WAITING
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.listener import Sock
from zerotier_multi.op import controller as shown
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.pathd.instances.controllers import AGAIN, AT_ONCE, FIRST, LONGEST, PATIENCE, Controllers, Outcome, read_outcome
from zerotier_multi.plan import ControllerPlan, Plan, from_json, to_json
from zerotier_multi.planner import make_plan

P = "interfaces zerotier zt0"
CPUS = (Cpu(0, 0), Cpu(1, 1))
TWO = EXAMPLE.replace("instances 4", "instances 2") + "transit prefix 2001:db8:14::/120\n"
NODES = ("89e92ceee5", "1d20db2f58")


def plan_of(kind: str, url: str | None, tmp_path: Path, *flags: str, identities: int = 2, lines: str = TWO) -> Plan:
    """A plan of two instances, with homes of their own."""
    text = "".join(f"controller {word}\n" for word in (f"type {kind}", f"api-key {KEY}", *([f"url {url}"] if url else []), *flags))
    plan = make_plan(bundle(lines + text), CPUS, "/usr/sbin/ztnode")
    homes = [str(tmp_path / str(i.number)) for i in plan.instances]
    for home, node in list(zip(homes, NODES, strict=True))[:identities]:
        Path(home).mkdir()
        Path(home, "identity.secret").write_text(f"{PublicIdentity(node, bytes(64))}:{'00' * 64}")
    instances = tuple(replace(i, home=home) for i, home in zip(plan.instances, homes, strict=True))
    return replace(plan, instances=instances)


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_named_authorized_and_addressed_once(kind: str, tmp_path: Path) -> None:
    flags = ("authorize", *(["assign-addresses"] if kind != "ztnet" else []))
    with FakeController(kind, *NODES) as made:
        made.members[NODES[0]]["addresses"] = ["10.99.0.1"]  # what an earlier configuration or a pool gave
        plan = plan_of(kind, made.url, tmp_path, *flags)
        found = program.attempt(plan, KEY, "R1")
        assert found["fault"] is None and [m["fault"] for m in found["members"]] == [None, None]
        assert [(m["name"], m["authorized"]) for m in made.members.values()] == [("R1 zt0p1", True), ("R1 zt0p2", True)]
        if kind != "ztnet":
            assert [set(m["addresses"]) for m in made.members.values()] == [
                {"10.14.0.1", "2001:db8:14::1"}, {"10.14.0.5", "2001:db8:14::5"},
            ]  # fmt: skip
            assert not any(m["automatic"] for m in made.members.values())
        before = len(made.asked)
        if kind == "ztnet":
            assert [line.split()[0] for line in made.asked] == ["GET", "POST", "POST"]  # its list is asked for once
        again = program.attempt(plan, KEY, "R1")
        assert not any(m["changed"] for m in again["members"])
        assert all(line.startswith("GET ") for line in made.asked[before:])


@pytest.mark.parametrize("kind", KINDS)
def test_without_being_asked_to_it_authorizes_nobody_and_leaves_addresses_alone(kind: str, tmp_path: Path) -> None:
    with FakeController(kind, *NODES) as made:
        made.members[NODES[0]]["addresses"] = ["10.99.0.1"]
        program.attempt(plan_of(kind, made.url, tmp_path), KEY, "R1")
        first = made.members[NODES[0]]
        assert first == {"name": "R1 zt0p1", "authorized": False, "addresses": ["10.99.0.1"], "automatic": True}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ztnet"])
@pytest.mark.parametrize(("address", "there"), [(None, ["10.99.0.1"]), ("192.0.2.7/24", ["192.0.2.7"])])
def test_addresses_that_the_controller_gives_stay_where_none_is_configured(
    kind: str, address: str | None, there: list[str], tmp_path: Path
) -> None:
    with FakeController(kind, *NODES) as made:
        made.members[NODES[0]]["addresses"] = ["10.99.0.1"]
        plan = plan_of(kind, made.url, tmp_path, "authorize", "assign-addresses")
        first = plan.instances[0]
        managed = replace(first.networks[0], allow_managed=True, addresses=(address,) if address else ())
        plan = replace(plan, instances=(replace(first, networks=(managed,), transit=()), plan.instances[1]))
        program.attempt(plan, KEY, "R1")
        member = made.members[NODES[0]]
        assert member["authorized"] and member["addresses"] == there and member["automatic"] == (address is None)
        assert made.members[NODES[1]]["addresses"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_has_not_asked_yet(kind: str, tmp_path: Path) -> None:
    with FakeController(kind, NODES[0]) as made:
        found = program.attempt(plan_of(kind, made.url, tmp_path, "authorize"), KEY, "R1")
        expected = None if DIALECTS[kind].creates else WAITING
        assert [m["fault"] for m in found["members"]] == [None, expected] and found["fault"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_key_and_a_network_of_others(kind: str, tmp_path: Path) -> None:
    with FakeController(kind, *NODES) as made:
        plan = plan_of(kind, made.url, tmp_path, "authorize")
        wrong = program.attempt(plan, "another", "R1")
        assert wrong["fault"] == "rejects the API key, or the key has no right to that network" and "another" not in str(wrong)
        elsewhere = replace(plan, instances=tuple(
            replace(i, networks=(replace(i.networks[0], network_id="8056c2e21c000009"),)) for i in plan.instances
        ))  # fmt: skip
        found = program.attempt(elsewhere, KEY, "R1")
        faults = {m["fault"] for m in found["members"]}
        if ELSEWHERE[kind] == 404:
            assert faults == {"has no network 8056c2e21c000009" if DIALECTS[kind].creates else WAITING} and found["fault"] is None
        else:
            assert faults == {"rejects the API key for this network"} and found["fault"] == wrong["fault"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_of_others_keeps_no_member_of_the_own_one_waiting(kind: str, tmp_path: Path) -> None:
    """The first instance is on a friend's network, the second on the own one."""
    with FakeController(kind, *NODES) as made:
        plan = plan_of(kind, made.url, tmp_path, "authorize")
        first, second = plan.instances
        friends = replace(first, networks=(replace(first.networks[0], network_id="8056c2e21c000009"),))
        found = program.attempt(replace(plan, instances=(friends, second)), KEY, "R1")
        assert found["fault"] is None and made.members[NODES[1]]["authorized"]
        told = read_outcome(json.dumps(found).encode())
        assert told.done == 1 and str(told.fault).endswith(f" ({NODES[0]} on 8056c2e21c000009)")
        if ELSEWHERE[kind] != 404:
            assert str(told.fault).startswith("rejects the API key for this network")


def test_a_url_that_leads_nowhere_is_no_matter_of_patience(tmp_path: Path) -> None:
    with FakeController("ztnet", *NODES) as made:
        found = program.attempt(plan_of("ztnet", f"{made.url}/ztnet", tmp_path, "authorize"), KEY, "R1")
        assert {m["fault"] for m in found["members"]} == {NO_LIST} and found["fault"] is None
        assert len(made.asked) == 1


def test_what_was_refused_is_not_asked_again(tmp_path: Path) -> None:
    """ZTNET takes 50 requests a minute, and is asked for the same list for each member."""
    with FakeController("ztnet", *NODES) as made:
        found = program.attempt(plan_of("ztnet", made.url, tmp_path), "another", "R1")
        assert len(found["members"]) == 2 and len(made.asked) == 1


def test_an_instance_without_an_identity_is_done_later(tmp_path: Path) -> None:
    with FakeController("zerotier-one") as made:
        found = program.attempt(plan_of("zerotier-one", made.url, tmp_path, "authorize", identities=1), KEY, "R1")
        assert found["fault"] == "is asked again when all instances have an identity" and len(found["members"]) == 1


JUNK = [
    None,
    [],
    "x",
    1,
    {"config": []},
    {"name": 7, "authorized": 1, "ipAssignments": {}, "config": {"ipAssignments": [None, "x"]}},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", [*JUNK, [None], [{"id": NODES[0], "authorized": "yes", "name": []}]])
def test_what_has_another_type_than_expected_counts_as_absent(kind: str, answer: object) -> None:
    found = DIALECTS[kind].understand(answer, NODES[0])
    assert found is None or (found.name == "" and not found.authorized and not found.addresses)


# -- transport


def client_of(made: FakeController, ca: Path | None = None, insecure: bool = False) -> Client:
    header = DIALECTS[made.kind].header(KEY)
    return Client(place(made.kind, made.url), header, str(ca) if ca else None, insecure)


READ = Request("GET", f"/network/{NETWORK}/member/{NODES[0]}")


def test_certificates_are_checked(tmp_path: Path) -> None:
    own, other = certificate(tmp_path / "own.pem"), certificate(tmp_path / "other.pem")
    with FakeController("central", *NODES, certificate=own) as made:
        for ca in (None, other):
            with pytest.raises(ControllerError, match="has a certificate that is not accepted"):
                client_of(made, ca).ask(READ)
        assert made.asked == []
        assert client_of(made, own).ask(READ)["deviceId"] == NODES[0]
        assert client_of(made, insecure=True).ask(READ)["deviceId"] == NODES[0]
    with pytest.raises(ControllerError, match="none.pem is no file of PEM certificates"):
        Client(place("central", None), ("a", "b"), str(tmp_path / "none.pem"), False)


@pytest.mark.parametrize(("answer", "sentence"), [
    ((302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects to another address"),
    ((200, {}, b"x" * ((4 << 20) + 1)), "sends more than 4 MiB"),
    ((200, {}, b"[" * 100_000), "does not send JSON"),
    ((200, {}, b"<html>"), "does not send JSON"),
    ((500, {}, KEY.encode()), "answers with HTTP status 500"),
    ((200, {"Content-Length": "9999"}, b"{}"), "cannot be reached|does not speak HTTP"),
])  # fmt: skip
def test_answers_that_are_no_good(
    answer: tuple[int, dict[str, str], bytes], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "TIMEOUT", 0.2)
    with FakeController("zerotier-one", *NODES) as made:
        made.answer = answer
        client = client_of(made)
        with pytest.raises(ControllerError, match=sentence) as raised:
            client.ask(READ)
        client.close()
        assert KEY not in str(raised.value) and len(made.asked) == 1


def test_a_controller_that_is_not_there() -> None:
    with FakeController("zerotier-one") as made:
        url = made.url
    with pytest.raises(ControllerError, match=r"cannot be reached \(Connection refused\)"):
        Client(place("zerotier-one", url), ("a", KEY), None, False).ask(READ)


def test_a_key_that_is_no_header_is_in_no_message() -> None:
    with FakeController("zerotier-one") as made:
        client = Client(place("zerotier-one", made.url), ("X-ZT1-Auth", f"{KEY}\r\nX: y"), None, False)
        with pytest.raises(ControllerError) as raised:
            client.ask(READ)
        assert KEY not in str(raised.value) and raised.value.__suppress_context__


@pytest.mark.parametrize(("owner", "told"), [(0, True), (110, True), (1000, False), (65534, False), (None, False)])
def test_a_users_program_on_the_port_of_this_router_gets_no_key(
    owner: int | None, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("127.0.0.1", 1)
    monkeypatch.setattr(transport, "look", lambda _place: None if owner is None else Sock(where, where, 10, owner, 1))
    with FakeController("zerotier-one", *NODES) as made:
        client = client_of(made)
        if told:
            assert client.ask(READ)["id"] == NODES[0]
        else:
            with pytest.raises(ControllerError, match="belongs to a user's program"):
                client.ask(READ)
            assert made.asked == []
        client.close()


def test_who_has_the_port_is_looked_at_again_with_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    where, owners = ("127.0.0.1", 1), [0, 1000]
    monkeypatch.setattr(transport, "look", lambda _place: Sock(where, where, 10, owners.pop(0), 1))
    with FakeController("zerotier-one", *NODES) as made:
        client = client_of(made)
        client.ask(READ)
        client.close()
        with pytest.raises(ControllerError, match="belongs to a user's program"):
            client.ask(READ)
        assert len(made.asked) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "whole"), [(429, "wants fewer requests"), (500, None)])
def test_what_a_controller_cannot_answer_now_is_no_matter_of_the_key(
    kind: str, status: int, whole: str | None, tmp_path: Path
) -> None:
    with FakeController(kind, *NODES) as made:
        made.answer = (status, {}, b"")
        found = program.attempt(plan_of(kind, made.url, tmp_path), KEY, "R1")
        assert found["fault"] == whole
        assert {m["fault"] for m in found["members"]} <= {f"answers with HTTP status {status}"}


# -- configuration

FREE = "controller-free\n"
FULL = f"controller type zerotier-one\ncontroller api-key {KEY}\ncontroller url http://127.0.0.1:9993\n"


@pytest.mark.parametrize(("lines", "sentence"), [
    (FULL + FREE, f"{P} controller has no use in controller-free mode; delete controller or controller-free"),
    ("controller authorize", f"{P} controller type is missing; set central, central-legacy, zerotier-one or ztnet"),
    ("controller type central", f"{P} controller api-key is missing; set a key of the controller's API"),
    (f"controller type ztnet\ncontroller api-key {KEY}",
     f"{P} controller url is missing; set the address of the controller's API, such as https://controller.example.org"),
    (FULL.replace("zerotier-one", "ztnet") + "controller assign-addresses",
     f"{P} controller assign-addresses cannot be done, because the API of ZTNET sets no addresses; set them there"),
    (FULL.replace("127.0.0.1", "192.0.2.1"),
     f"{P} controller url http://192.0.2.1:9993 would send the API key readable over the network; use https, http to 127.0.0.1 "
     "or localhost, or set controller insecure"),
    (FULL + "controller insecure\ncontroller ca-certificate /config/auth/ca.pem",
     f"{P} controller insecure conflicts with ca-certificate; delete one of them"),
])  # fmt: skip
def test_what_a_controller_cannot_be(lines: str, sentence: str) -> None:
    assert [str(p) for p in check_bundle(bundle(EXAMPLE + lines), CPUS)] == [sentence]


@pytest.mark.parametrize("url", ["https://user:pass@192.0.2.1/", "https://192.0.2.1/?a=b", "https://", "https://192.0.2.1:99999/",
                                 "https://192.0.2.1/a b", "https://[2001:db8::1", "ftp://192.0.2.1/", "https://192.0.2.1/#a",
                                 "https://a$b/"])  # fmt: skip
def test_urls_that_are_no_good(url: str) -> None:
    tree = configured(EXAMPLE + FULL)["zt0"]
    tree["controller"]["url"] = url
    with pytest.raises(ConfigProblems, match="give an address, such as https://ztnet.example.org"):
        parse_bundle("zt0", tree)


LOCAL = {"127.0.0.1": True, "127.9.9.9": True, "localhost": True, "192.0.2.1": False, "[::1]": False, "r2.example.org": False}


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ("controller authorize", []),
        ("", ["not authorized"]),
        ("controller authorize\ncontroller insecure", ["can read the API key"]),
    ],
)
def test_what_is_warned_of(lines: str, warned: list[str]) -> None:
    found = list(warnings(bundle(EXAMPLE + FULL + lines).controller))
    assert len(found) == len(warned) and all(part in text for part, text in zip(warned, found, strict=True))
    assert list(warnings(None)) == []


def test_good_ones() -> None:
    for lines in (FULL, FULL + "controller insecure", FULL.replace("127.0.0.1", "localhost"), FULL.replace("http:", "https:")):
        assert check_bundle(bundle(EXAMPLE + lines), CPUS) == []
    at = place("ztnet", "https://ztnet.example.org/api/v1/org/abc/")
    assert (at.host, at.port, at.path, at.secure) == ("ztnet.example.org", 443, "/api/v1/org/abc", True)
    assert place("zerotier-one", "http://192.0.2.1/").port == 80
    local = {host: place("zerotier-one", f"http://{host}:9993").is_local for host in LOCAL}
    assert local == LOCAL
    assert place("central", None).host == "central.zerotier.com" and place("central-legacy", None).path == "/api/v1"


def test_the_key_is_in_no_message_no_plan_and_no_representation() -> None:
    tree = configured(EXAMPLE + FULL)["zt0"]
    whole = parse_bundle("zt0", tree)
    plan = make_plan(whole, CPUS, "/usr/sbin/ztnode")
    assert from_json(to_json(plan)) == plan and plan.controller is not None
    assert KEY not in to_json(plan) and KEY not in repr(whole) and KEY not in repr(commit.Change("zt0", plan, api_key=KEY))
    tree["controller"]["api-key"] = f"{KEY} with a blank"
    with pytest.raises(ConfigProblems) as raised:
        parse_bundle("zt0", tree)
    assert KEY not in str(raised.value)
    assert str(raised.value) == f"{P} controller api-key: API key must be 1 to 1024 printable characters without spaces"


def test_the_file_of_the_key_is_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    old = os.umask(0)
    try:
        commit._publish_key("zt0", KEY)
    finally:
        os.umask(old)
    path = names.controller_key("zt0")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path.parent, path.parent.parent)]
    assert path.read_text() == KEY and modes == [0o600, 0o700, 0o700]
    commit._publish_key("zt0", None)
    assert not path.exists()


# -- when the daemon tries


class Attempts:
    """A program in place of each attempt, which prints what is next."""

    def __init__(self) -> None:
        self.loop, self.told, self.prints = Loop(), list[str](), list[str]()
        self.started: list[float] = []
        self.controllers = Controllers(self.loop, self.told.append, self.start)
        self.plan = replace(
            make_plan(bundle(TWO), CPUS, "/usr/sbin/ztnode"),
            controller=ControllerPlan("zerotier-one", "http://127.0.0.1:9993", True, False, None, False),
        )

    def start(self, _bundle: str) -> subprocess.Popen[bytes]:
        self.started.append(self.loop.now)
        return subprocess.Popen(["sh", "-c", self.prints.pop(0)], stdout=subprocess.PIPE)

    def work(self, now: float) -> None:
        """Do what is due, and wait for the attempt to end."""
        self.loop.now = now
        self.controllers.work(now)
        while self.loop.watched:
            self.loop.turn(5.0)

    @property
    def state(self) -> str:
        found = self.controllers.status(self.plan)
        assert found is not None
        return str(found["state"])


def printed(*faults: str | None, fault: str | None = None) -> str:
    members = [{"device": "d", "network": "n", "node": "m", "fault": f, "changed": False} for f in faults]
    return f"echo '{json.dumps({'fault': fault, 'members': members})}'"


def test_when_it_was_done_stays_right_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router without a clock is in 1970 until a time server answers."""
    tries = Attempts()
    tries.prints = [printed(None, None)]
    tries.controllers.configure([tries.plan], 0.0)
    real, wall = time.time, 100.0
    monkeypatch.setattr(time, "time", lambda: wall)
    tries.work(0.0)
    found = tries.controllers.status(tries.plan)
    assert found is not None and abs(found["checked"] - wall) < 60
    wall = real()
    found = tries.controllers.status(tries.plan)
    assert found is not None and abs(found["checked"] - wall) < 60


def test_nodes_that_are_new_are_named_although_the_plan_is_the_same(tmp_path: Path) -> None:
    tries = Attempts()
    homes = [tmp_path / str(i.number) for i in tries.plan.instances]
    for home in homes:
        home.mkdir()
        (home / "identity.secret").write_text("of before")
    tries.plan = replace(
        tries.plan, instances=tuple(replace(i, home=str(home)) for i, home in zip(tries.plan.instances, homes, strict=True))
    )
    tries.prints = [printed(None, None)] * 2
    tries.controllers.configure([tries.plan], 0.0)
    tries.work(0.0)
    tries.controllers.configure([tries.plan], 1.0)
    assert tries.state == "done" and tries.controllers.wake is None
    (tmp_path / "new").write_text("of today")
    (tmp_path / "new").replace(homes[0] / "identity.secret")
    tries.controllers.configure([tries.plan], 2.0)
    assert tries.state == "working"
    tries.work(2.0)
    assert tries.state == "done" and len(tries.started) == 2


def test_failures_are_repeated_less_and_less_often_until_all_is_done() -> None:
    tries = Attempts()
    tries.prints = [printed(fault="cannot be reached (x)")] * 10 + [printed(None, None)]
    tries.controllers.configure([tries.plan], 0.0)
    assert tries.state == "working"
    while tries.controllers.wake is not None:
        tries.work(tries.controllers.wake)
    gaps = [b - a for a, b in zip(tries.started, tries.started[1:], strict=False)]
    assert gaps == [min(FIRST * 2**n, LONGEST) for n in range(10)]
    assert tries.state == "done" and len(tries.told) == 2  # one sentence for ten failures alike
    assert tries.told[0] == "zt0: controller http://127.0.0.1:9993 cannot be reached (x)"
    tries.controllers.configure([tries.plan], 1e4)  # the same plan again: nothing to do
    assert tries.controllers.wake is None


def test_few_attempts_run_at_once_and_all_have_their_turn() -> None:
    """Each takes memory of the daemon's own limit."""
    tries = Attempts()
    plans = [replace(tries.plan, bundle=f"zt{n}") for n in range(5)]
    tries.prints = [printed(None)] * len(plans)
    tries.controllers.configure(plans, 0.0)
    most = 0
    while (wake := tries.controllers.wake) is not None and tries.loop.now < 1.0:
        tries.loop.now = min(wake, 0.5)
        tries.controllers.work(tries.loop.now)
        most = max(most, tries.loop.watched)
        tries.loop.turn(5.0)
    assert len(tries.started) == len(plans) and most == AT_ONCE
    assert {found["state"] for plan in plans if (found := tries.controllers.status(plan))} == {"done"}


def test_who_waits_for_authorization_is_done_again() -> None:
    tries = Attempts()
    tries.prints = [printed(None, None)] * 2
    tries.controllers.configure([tries.plan], 0.0)
    tries.work(0.0)
    tries.controllers.look(["zt1"], 1.0)
    assert tries.controllers.wake is None
    tries.controllers.look(["zt0"], 1.0)
    assert tries.controllers.wake == AGAIN
    tries.work(AGAIN)
    assert tries.started == [0.0, AGAIN]
    assert tries.plan.controller is not None
    tries.prints = [printed(None, None)]
    tries.controllers.configure([replace(tries.plan, controller=replace(tries.plan.controller, authorize=False))], AGAIN)
    tries.work(AGAIN)
    tries.controllers.look(["zt0"], 2 * AGAIN)
    assert tries.controllers.wake is None  # somebody else authorizes


def test_another_plan_or_key_is_tried_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    tries = Attempts()
    tries.prints = [printed(fault="x")] * 3
    tries.controllers.configure([tries.plan], 0.0)
    tries.work(0.0)
    assert tries.plan.controller is not None
    tries.controllers.configure([replace(tries.plan, controller=replace(tries.plan.controller, authorize=False))], 0.5)
    assert tries.controllers.wake == 0.5
    tries.work(0.5)
    commit._publish_key("zt0", KEY)
    tries.controllers.configure([replace(tries.plan, controller=replace(tries.plan.controller, authorize=False))], 1.0)
    assert tries.controllers.wake == 1.0
    tries.controllers.configure([], 2.0)
    assert tries.controllers.wake is None and tries.controllers.status(tries.plan) is None


def test_one_that_hangs_is_ended() -> None:
    tries = Attempts()
    tries.prints = ["sleep 20 & wait"]  # its child keeps the pipe open
    tries.controllers.configure([tries.plan], 0.0)
    tries.controllers.work(0.0)
    assert tries.loop.watched == 1 and tries.controllers.wake == PATIENCE
    begun = time.monotonic()
    tries.controllers.work(PATIENCE)
    assert time.monotonic() - begun < 10
    assert tries.loop.watched == 0 and tries.state == "failing" and tries.controllers.wake == PATIENCE + FIRST


@pytest.mark.parametrize("output", [b"", b"{}", b"[1]", b'{"fault": null, "members": [1]}', b'{"members": {}}'])
def test_what_no_attempt_prints(output: bytes) -> None:
    assert read_outcome(output).fault == "cannot be asked (the program for it failed)"


def test_a_member_that_is_not_done_is_named() -> None:
    told = {"fault": None, "members": [{"node": NODES[0], "network": NETWORK, "fault": WAITING}, {"fault": None}]}
    assert read_outcome(json.dumps(told).encode()) == Outcome(1, f"{WAITING} ({NODES[0]} on {NETWORK})")


def test_what_is_shown() -> None:
    plan = Attempts().plan
    status = {"state": "failing", "members_done": 1, "members_total": 2, "fault": "cannot be reached (x)", "checked": 940}
    found = Snapshot(now=1000.0, plans=(plan,), pathd={"bundles": {"zt0": {"controller": status}}})
    rows = shown.controller_rows(shown.controller_data(found, plan))
    assert rows == [("Controller", "zerotier-one: 1 of 2 members as configured (1m00s ago)")]
    assert shown.controller_warnings(found, plan) == [
        "controller http://127.0.0.1:9993 cannot be reached (x); zerotier-pathd tries again"
    ]
    assert shown.controller_rows(None) == []
    unknown = shown.controller_data(replace(found, pathd=None), plan)
    assert shown.controller_rows(unknown) == [("Controller", "zerotier-one: not known")]


def test_members_of_a_name_only() -> None:
    have, want = Member("x", True, frozenset()), Member("R1 zt0p1", True)
    for kind in KINDS:
        (request,) = DIALECTS[kind].change(NETWORK, NODES[0], have, want)
        assert request.body == {"name": "R1 zt0p1"}
