"""How the daemon learns where instances stand on a controller's network: who is asked, how, and how often."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.loop import Loop
from zerotier_multi.cpu import Cpu
from zerotier_multi.membership import Member
from zerotier_multi.pathd.tell.chronicle import Chronicle
from zerotier_multi.netlink.links import Address, Link
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.pathd.daemon import Daemon
from zerotier_multi.pathd.decide import Inputs, decide, path_states
from zerotier_multi.pathd.kernel.forwarding import Blocked
from zerotier_multi.pathd.status import Look
from zerotier_multi.pathd.tell.events import NOTICE, WARNING, Event, Seen, events
from zerotier_multi.pathd.instances.members import CALM, GRACE, PATIENCE, PERIOD, SETTLED, SLOW, Members, decode
from zerotier_multi.plan import NetworkPlan
from zerotier_multi.planner import make_plan
from zerotier_multi.states import PathState

ONE = make_plan(bundle(EXAMPLE.replace("instances 4", "instances 1")), (Cpu(0, 0),), "/usr/sbin/ztnode")
NWID, PATH = ONE.instances[0].network_id, ONE.paths[0].nexthop_id
FURTHER, DEVICE = f"{NWID[:-1]}2", "zt0n1c000002"


def http(document: object) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class World:
    """A loop with a clock of our own, an API that answers as told, and the plan of one instance behind it."""

    def __init__(self, home: Path) -> None:
        self.loop = Loop(100.0)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(2)
        (home / "authtoken.secret").write_text("hush")
        instance = replace(ONE.instances[0], home=str(home), port=self.server.getsockname()[1])
        self.plan = replace(ONE, instances=(instance,))
        self.changes, self.trusted = 0, True
        self.members = Members(self.loop, self.changed, lambda _connection: self.trusted)
        self.questions: list[str] = []

    @property
    def now(self) -> float:
        return self.loop.now

    @now.setter
    def now(self, now: float) -> None:
        self.loop.now = now

    def changed(self) -> None:
        self.changes += 1

    def look(self, state: str) -> Member | None:
        return self.members.look([self.plan], {path.nexthop_id: PathState(state) for path in self.plan.paths}, self.now).get(
            "zt0p1"
        )

    def join(self) -> None:
        """Have the instance join a further network."""
        (instance,) = self.plan.instances
        networks = (NetworkPlan(NWID, "zt0p1"), NetworkPlan(FURTHER, DEVICE))
        self.plan = replace(self.plan, instances=(replace(instance, networks=networks),))

    def stands(self, state: str) -> dict[str, str]:
        """The word for each device."""
        self.look(state)
        return {device: word for device in ("zt0p1", DEVICE) if (word := self.members.word(device))}

    def events(self) -> None:
        """Handle what has come by now."""
        self.loop.turn(0.01)

    def take(self, client: socket.socket) -> bytes:
        """What is sent to the API next, or nothing when it hangs up."""
        client.setblocking(False)
        for _ in range(500):
            try:
                return client.recv(1000)
            except BlockingIOError:
                self.events()
        raise AssertionError("nothing comes")

    def ask(
        self, status: str, online: bool = True, cut: int = 0, networks: list[str] | None = None, further: str | None = None
    ) -> None:
        """The next question, when it is due, and its answers; with ``cut`` the first part alone at first.

        ``further`` is the status of a further network.
        """
        self.now = max(self.now, self.members.wake or 0.0)
        self.members.work(self.now)
        client, _ = self.server.accept()
        for answer in (
            http({"address": "00000000a1", "online": online}),
            http(
                [{"nwid": n, "status": status} for n in ([NWID] if networks is None else networks)]
                + [{"nwid": FURTHER, "status": further}] * (further is not None)
            ),
        ):
            self.questions.append(self.take(client).decode())
            if cut:
                client.sendall(answer[:cut])
                self.events()
            client.sendall(answer[cut:])
        assert self.take(client) == b""  # we close first
        client.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.server.close()


def test_who_waits_is_asked_and_told(world: World) -> None:
    assert world.look("down") is None and world.members.word("zt0p1") is None
    world.ask("ACCESS_DENIED")
    assert [q.split("\r\n")[0] for q in world.questions] == ["GET /status HTTP/1.1", "GET /network HTTP/1.1"]
    assert all("X-ZT1-Auth: hush\r\n" in q for q in world.questions)
    assert world.changes == 1
    member = world.look("down")
    assert member and (member.word, member.node, member.instance) == ("unauthorized", "00000000a1", 1)
    world.ask("ACCESS_DENIED")
    assert world.changes == 1  # nothing new
    world.ask("OK", cut=50)
    assert world.changes == 2
    assert world.look("down").word == "no path" and world.look("waiting").word == "up"
    found = world.look("up")
    assert found and (found.word, found.node) == ("up", "00000000a1")
    assert world.members.wake == world.now + CALM and world.loop.watched == 0  # whose paths are up is asked seldom


def test_one_whose_paths_are_up_may_be_put_out(world: World) -> None:
    """Others do not know it yet, and where nothing probes the paths they are up for good."""
    assert world.look("up").word == "up"
    world.ask("OK")
    assert world.look("up").word == "up" and world.members.wake == world.now + CALM
    world.ask("ACCESS_DENIED")
    assert world.changes == 2 and world.members.wake == world.now + PERIOD
    was, now = world.look("up"), world.look("down")
    assert (was.word, now.word, world.look("up").word) == ("unauthorized",) * 3 and world.members.refused("zt0p1")
    # An answer of a moment ago says as much about a path that comes up now; then only this is asked.
    assert world.members.wake == world.now
    world.ask("OK")
    assert world.look("up").word == "up" and world.members.wake == world.now + CALM
    # Without an answer it is a member, as its paths say, and so it is as long as it looks for roots or its controller.
    world.now = world.members.wake
    world.members.work(world.now)
    world.server.accept()[0].close()
    world.members.work(world.now + PATIENCE)
    assert world.look("up").word == "up" and world.members.wake == world.now + CALM
    for status, online in (("REQUESTING_CONFIGURATION", True), ("OK", False)):
        world.ask(status, online)
        assert world.look("up").word == "up" and world.members.wake == world.now + CALM
    # What it told while they were up says nothing once they are not.
    assert world.look("down") is None and world.members.wake == world.now


def test_a_further_network_is_looked_after_too(world: World) -> None:
    """Its controller answers late, or not at all, while the paths are up, which are over the first one."""
    world.join()
    assert world.stands("up") == {"zt0p1": "up"}
    world.ask("OK", further="REQUESTING_CONFIGURATION")
    assert world.stands("up") == {"zt0p1": "up"} and world.members.wake == world.now + PERIOD
    world.now += GRACE
    world.ask("OK", further="REQUESTING_CONFIGURATION")
    assert world.changes == 2 and world.stands("up") == {"zt0p1": "up", DEVICE: "requesting"}
    world.ask("OK", further="ACCESS_DENIED")
    assert world.stands("up") == {"zt0p1": "up", DEVICE: "unauthorized"} and not world.members.refused("zt0p1")
    # Started again, it waits as before until it is known better, and a root is a matter of the first network alone.
    world.stands("no device")
    world.ask("REQUESTING_CONFIGURATION", online=False, further="REQUESTING_CONFIGURATION")
    assert world.stands("no device")[DEVICE] == "unauthorized"
    world.now += GRACE
    assert world.stands("no device") == {"zt0p1": "no root", DEVICE: "unauthorized"}, "or its end would be no event"
    world.ask("OK", further="OK")
    assert world.stands("up") == {"zt0p1": "up", DEVICE: "up"} and world.members.wake == world.now + CALM


def test_what_nothing_probes_and_the_controller_has_put_out_carries_nothing(world: World) -> None:
    """As long as another path is left."""
    two = make_plan(bundle(EXAMPLE.replace("instances 4", "instances 2")), (Cpu(0, 0),), "/usr/sbin/ztnode")
    first = replace(two.instances[0], home=world.plan.instances[0].home, port=world.plan.instances[0].port)
    plan = replace(two, instances=(first, two.instances[1]), health=replace(two.health, enabled=False))
    paths = [path.nexthop_id for path in plan.paths]
    links = {f"zt0p{n}": Link(10 + n, f"zt0p{n}", "tun", 1394, True, True) for n in (1, 2)}
    addresses = frozenset(Address(10 + i.number, a) for i in plan.instances for a in i.transit)
    have, alone = (KernelState(links=some, addresses=addresses) for some in (links, {"zt0p1": links["zt0p1"]}))
    known = dict.fromkeys(paths, PathState.UP)
    world.members.look([plan], known, world.now)
    assert world.members.kept_out([plan], have) == {}
    world.ask("ACCESS_DENIED")
    world.members.look([plan], known, world.now)
    out = world.members.kept_out([plan], have)
    assert out == {paths[0]: f"00000000a1 waits for authorization on network {NWID}"}
    assert world.members.kept_out([plan], alone) == {} == world.members.kept_out([two], have)
    decision = decide(Inputs(100.0, [plan], have, refused=set(out), waiting_since={plan.groups[0].group_id: 0.0}))
    assert decision.up == {paths[1]}
    assert path_states([plan], have, decision.up, {}, (), out) == {paths[0]: "no route", paths[1]: "up"}
    # It stays out until it is a member again.
    known[paths[0]] = PathState.NO_ROUTE
    world.members.look([plan], known, world.now)
    assert world.members.kept_out([plan], have) == out
    world.ask("OK")
    world.members.look([plan], known, world.now)
    assert world.members.kept_out([plan], have) == {}


def test_a_restart_helps_against_no_root_alone(world: World) -> None:
    """zerotier-one is started anew where its paths are silent; one that waits for its controller is left alone."""
    assert not world.members.refused("zt0p1")
    for status, online, helps in (
        ("ACCESS_DENIED", True, False), ("NOT_FOUND", True, False), ("OK", True, True), ("OK", False, True),
        ("REQUESTING_CONFIGURATION", True, False), ("REQUESTING_CONFIGURATION", False, True),
    ):  # fmt: skip
        world.look("down")
        world.ask(status, online)
        world.now += GRACE
        world.look("down")
        assert world.members.refused("zt0p1") is not helps


def test_who_is_on_no_such_network_has_left_it(world: World) -> None:
    world.look("no device")
    assert not world.members.left("zt0p1", world.now)
    world.ask("OK", networks=[])
    assert not world.members.left("zt0p1", world.now) and world.members.left("zt0p1", world.now + GRACE)
    assert not world.members.left("zt0p2", world.now + GRACE)
    world.ask("REQUESTING_CONFIGURATION")
    assert not world.members.left("zt0p1", world.now + GRACE)


def test_it_is_asked_often_after_a_change_and_less_often_later(world: World) -> None:
    world.look("no device")
    begin = world.now
    world.ask("REQUESTING_CONFIGURATION", online=False)
    assert world.members.wake == begin + PERIOD
    world.now = begin + SETTLED
    world.ask("REQUESTING_CONFIGURATION", online=False)
    assert world.members.wake == world.now + SLOW
    world.ask("REQUESTING_CONFIGURATION")
    assert world.members.wake == world.now + PERIOD


def test_one_that_has_just_been_started_gets_time_to_find_its_root(world: World) -> None:
    world.look("no device")
    world.ask("REQUESTING_CONFIGURATION", online=False)
    assert world.look("no device") is None
    world.ask("REQUESTING_CONFIGURATION")
    assert world.look("no device") is None and world.changes == 2
    world.now += GRACE
    world.ask("REQUESTING_CONFIGURATION")
    assert world.changes == 3  # nothing new, but it has been long enough
    assert world.look("no device").word == "requesting"
    world.ask("ACCESS_DENIED")
    assert world.look("no device").word == "unauthorized"
    # Started again, it is what it was until it is known better.
    world.ask("REQUESTING_CONFIGURATION", online=False)
    assert world.look("no device").word == "unauthorized"
    world.ask("ACCESS_DENIED")
    assert world.look("no device").word == "unauthorized"


def test_one_that_does_not_answer_in_time_is_asked_again(world: World) -> None:
    world.look("down")
    world.members.work(world.now)
    client, _ = world.server.accept()
    world.events()
    world.members.work(world.now + PATIENCE)
    assert world.loop.watched == 0 and world.members.wake == world.now + PERIOD
    client.close()
    world.ask("NOT_FOUND")
    assert world.look("down").word == "not found"


@pytest.mark.parametrize("answer", [b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}", b"nonsense\r\n\r\n", b""])
def test_what_is_no_answer_tells_nothing(world: World, answer: bytes) -> None:
    world.look("down")
    world.members.work(world.now)
    client, _ = world.server.accept()
    assert world.take(client).startswith(b"GET /status")
    client.sendall(answer)
    client.close()
    for _ in range(3):
        world.events()
    assert world.look("down") is None and world.changes == 0 and world.loop.watched == 0


def test_the_token_is_kept_from_a_listener_that_is_not_root(world: World) -> None:
    world.trusted = False
    world.look("down")
    world.members.work(world.now)
    client, _ = world.server.accept()
    assert world.take(client) == b""
    client.close()


def test_a_controller_free_link_and_one_that_has_gone_are_not_asked(world: World) -> None:
    world.members.look([replace(world.plan, controller_free=True)], lambda _plan, _path: "down", world.now)
    assert world.members.wake is None
    world.look("down")
    world.members.work(world.now)
    world.members.look([], lambda _plan, _path: "down", world.now)
    assert world.members.wake is None and world.loop.watched == 0


def test_answers_are_taken_in_parts() -> None:
    whole = http({"a": 1})
    assert all(decode(whole[:n]) is None for n in range(len(whole))) and decode(whole) == {"a": 1}
    for bad in (
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
    ):
        with pytest.raises(ValueError):
            decode(bad)


# -- what the daemon makes of it


@pytest.mark.parametrize("further", [False, True])
def test_who_is_put_out_while_his_paths_are_up_is_told_and_authorized_again(world: World, further: bool) -> None:
    if further:
        world.join()
    told: list[Event] = []
    have = KernelState(links={"zt0p1": Link(11, "zt0p1", "tun", 1394, True, True)})
    daemon = MagicMock(_members=world.members, _chronicle=Chronicle([told.append]), _look=Look([world.plan], have))
    daemon._states.return_value = {path.nexthop_id: PathState.UP for path in world.plan.paths}
    daemon._since.states.return_value = dict(daemon._states())
    daemon._since.unrouted.return_value = daemon._since.note.return_value = {}
    daemon._prober.passes.return_value, daemon._prober.is_wide.return_value = None, False
    for own, other in (("OK", "OK"), ("OK", "ACCESS_DENIED") if further else ("ACCESS_DENIED", "OK")):
        Daemon._tell(daemon, [], [])
        world.ask(own, further=other if further else None)
    assert daemon._controllers.look.call_args.args[0] == set() and told == []
    Daemon._tell(daemon, [], [])
    assert daemon._controllers.look.call_args.args[0] == {"zt0"}
    network = FURTHER if further else NWID
    assert [(event.kind, event.device, event.before, event.after) for event in told] == [
        ("network-state", DEVICE if further else "zt0p1", "up", "unauthorized")
    ]
    assert told[0].cause == f"00000000a1 waits for authorization on network {network}"


def test_what_is_kept_out_is_done_before_it_is_told_and_again_when_it_changes() -> None:
    daemon = MagicMock(_look=Look([ONE]))
    daemon._router.look.return_value, daemon._router.blocked.side_effect = KernelState(), lambda *_: Blocked({8: "y"})
    daemon._pass.return_value = False, [], []
    for found, again in ((({}, {}), 0), (({}, {PATH: "x"}), 1), (({PATH: "x"}, {PATH: "x"}), 1), (({PATH: "x"}, {}), 2)):
        daemon._members.kept_out.side_effect = found
        Daemon.reconcile(daemon)
        assert daemon._pass.call_args.args[2] == found[0]
        assert daemon._look.blocked.paths == {8: "y", **found[0]}
        assert daemon._loop.call_soon.call_count == again
    daemon._router.look.side_effect, daemon._look = OSError, replace(daemon._look, at=1.0)
    Daemon.reconcile(daemon)
    assert daemon._loop.call_soon.call_count == 2  # it is tried again later


# -- what is told of it


def seen(state: str, word: str | None) -> Seen:
    member = Member("zt0", 1, NWID, 9993, "00000000a1", word, ("R2",)) if word else None
    return Seen({PATH: state}, {"zt0p1": 5}, members={"zt0p1": member} if member else {})


def told(before: Seen, after: Seen) -> list[Event]:
    return [event for event in events([ONE], before, after) if event.kind == "network-state"]


def test_waiting_is_an_event_with_the_node_to_authorize() -> None:
    (event,) = told(seen("down", None), seen("down", "unauthorized"))
    assert event.fields() == {
        "ZEROTIER_EVENT": "network-state", "ZEROTIER_BUNDLE": "zt0", "ZEROTIER_INSTANCE": "1", "ZEROTIER_DEVICE": "zt0p1",
        "ZEROTIER_NETWORK": NWID, "ZEROTIER_NODE": "00000000a1", "ZEROTIER_FROM": "unknown", "ZEROTIER_TO": "unauthorized",
        "ZEROTIER_CAUSE": f"00000000a1 waits for authorization on network {NWID}",
    }  # fmt: skip
    assert event.priority == WARNING
    assert event.message == (
        f"instance zt0/1 on network {NWID}: unknown -> unauthorized: 00000000a1 waits for authorization on network {NWID}"
    )


def test_a_further_network_that_waits_is_an_event_of_its_own() -> None:
    (instance,) = ONE.instances
    plan = replace(ONE, instances=(replace(instance, networks=(NetworkPlan(NWID, "zt0p1"), NetworkPlan(FURTHER, DEVICE))),))
    before, after = (
        replace(seen("up", "up"), members={
            "zt0p1": Member("zt0", 1, NWID, 9993, "00000000a1", "up"), DEVICE: Member("zt0", 1, FURTHER, 9993, "00000000a1", word),
        })
        for word in ("up", "unauthorized")
    )  # fmt: skip
    (event,) = events([plan], before, after)
    assert (event.kind, event.priority, event.device, event.network) == ("network-state", WARNING, DEVICE, FURTHER)
    assert event.message == (
        f"instance zt0/1 on network {FURTHER}: up -> unauthorized: 00000000a1 waits for authorization on network {FURTHER}"
    )
    (event,) = events([plan], after, before)
    assert (event.priority, event.cause) == (NOTICE, f"a member of network {FURTHER}")


@pytest.mark.parametrize(
    ("was", "word", "priority"),
    [
        (None, "up", None), (None, "no path", None), ("up", "no path", None), ("no path", "up", None),
        ("unauthorized", "unauthorized", None), ("unauthorized", None, None),
        ("unauthorized", "no path", NOTICE), ("unauthorized", "up", NOTICE), ("up", "unauthorized", WARNING),
        ("no root", "requesting", WARNING),
    ],
)  # fmt: skip
def test_what_is_told_and_what_the_paths_tell_already(was: str | None, word: str | None, priority: int | None) -> None:
    assert [event.priority for event in told(seen("down", was), seen("down", word))] == ([priority] if priority else [])


def test_the_cause_of_a_path_follows_its_network() -> None:
    made = Chronicle([])
    causes = []
    for word in (None, "no root", "unauthorized", "no path"):
        made.look([ONE], seen("down", word), {})
        causes.append(made.cause(PATH))
    assert causes == [
        "no answer to its probes", "it reaches no root", f"00000000a1 waits for authorization on network {NWID}",
        "no answer to its probes",
    ]  # fmt: skip
    assert made.changes(PATH) == 0
