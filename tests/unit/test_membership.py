"""Where instances stand on a controller's network: words, sentences, and what op mode shows of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit import test_networks as several
from tests.unit.op_box import NODES, PLAN, box, pathd
from zerotier_multi import membership
from zerotier_multi.membership import Member
from zerotier_multi.op import data, text
from zerotier_multi.op.monitor import block
from zerotier_multi.op.snapshot import Answer, Snapshot
from zerotier_multi.op.table import visible

NWID = PLAN.instances[0].network_id


@pytest.mark.parametrize(
    ("status", "online", "paths", "word"),
    [
        ("REQUESTING_CONFIGURATION", False, [False], "no root"),
        ("REQUESTING_CONFIGURATION", True, [False], "requesting"),
        ("NOT_FOUND", True, [False], "not found"),
        ("ACCESS_DENIED", True, [False], "unauthorized"),
        ("ACCESS_DENIED", True, [True], "unauthorized"),  # not any more: what passes will end
        ("ACCESS_DENIED", False, [False], "unauthorized"),
        ("AUTHENTICATION_REQUIRED", True, [False], "sign-in"),
        ("CLIENT_TOO_OLD", True, [False], "too old"),
        ("PORT_ERROR", True, [], "port error"),
        ("OK", True, [False, False], "no path"),
        ("OK", False, [False], "no root"),
        ("OK", True, [True, False], "up"),
        ("OK", False, [True], "up"),  # roots and controller gone: members go on
        ("OK", True, [], "up"),
        ("UNKNOWN", True, [], "requesting"),
        (None, True, [True], None),
    ],
)
def test_the_word_for_an_instance(status: str | None, online: bool, paths: list[bool], word: str | None) -> None:
    assert membership.word(status, online, paths) == word


def members(word: str, *numbers: int, unreached: tuple[str, ...] = ()) -> list[Member]:
    return [Member("zt0", k, NWID, 9992 + k, f"00000000a{k}", word, unreached) for k in numbers]


@pytest.mark.parametrize(
    ("word", "numbers", "sentence"),
    [
        ("no root", (1,), "zt0/1 reaches no root: allow UDP from port 9993 to the roots and back"),
        ("no root", (1, 2), "zt0/1 and zt0/2 reach no root: allow UDP from ports 9993 and 9994 to the roots and back"),
        (
            "requesting", (1,),
            f"zt0/1 gets no answer from controller 8056c2e21c of network {NWID}: check that it runs and that the network ID is right",
        ),
        (
            "not found", (1, 2, 3),
            f"zt0/1, zt0/2 and zt0/3: controller 8056c2e21c has no network {NWID}: correct the network ID, or create the network there",
        ),
        (
            "unauthorized", (1, 2),
            f"zt0/1 and zt0/2 wait for authorization: authorize members 00000000a1, 00000000a2 of network {NWID} at its controller",
        ),
        ("unauthorized", (3,), f"zt0/3 waits for authorization: authorize member 00000000a3 of network {NWID} at its controller"),
        (
            "sign-in", (1,),
            f"zt0/1 must sign in, which a router cannot do: exempt member 00000000a1 of network {NWID} from "
            "single sign-on at its controller",
        ),
        (
            "too old", (1,),
            f"the controller of network {NWID} refuses the engine of zt0/1: install a newer version, or set engine zerotier-one",
        ),
        ("port error", (1,), "the engine of zt0/1 cannot create its device: see the journal of its unit"),
    ],
)  # fmt: skip
def test_one_sentence_with_its_remedy_for_all_that_stand_alike(word: str, numbers: tuple[int, ...], sentence: str) -> None:
    assert membership.sentences([*members(word, *numbers), *members("up", 9)]) == [sentence]


def test_the_remotes_that_are_not_reached_are_named() -> None:
    assert membership.sentences(members("no path", 1, 2, unreached=("R2", "R3"))) == [
        f"zt0/1 and zt0/2 are authorized on network {NWID} but have no path to R2 and R3 yet: "
        "see that they are still authorized, that instances 1 and 2 of R2 and R3 run and are authorized, "
        "and that the rules of the network let ICMP pass between them"
    ]
    (sentence,) = membership.sentences(members("no path", 2, unreached=("R2",)))
    assert sentence.endswith(
        "has no path to R2 yet: see that it is still authorized, that instance 2 of R2 runs and is authorized, "
        "and that the rules of the network let ICMP pass between them"
    )
    assert membership.cause(members("no path", 1, unreached=("R2",))[0]) == "authorized, no path to R2 yet"


def test_every_word_has_a_cause_of_its_own() -> None:
    words = ["up", "no path", "no root", "requesting", "not found", "unauthorized", "sign-in", "too old", "port error"]
    assert len({membership.cause(members(word, 1)[0]) for word in words}) == len(words)


def controlled(statuses: dict[int, tuple[str, bool]], **states: str) -> Snapshot:
    """The box on a controller's network; ``statuses`` by instance, all others are members. ``states`` of paths by device."""
    plan = replace(PLAN, controller_free=False)
    base = box()
    answers = {}
    for i in plan.instances:
        status, online = statuses.get(i.number, ("OK", True))
        told: dict[str, Any] = {"address": NODES[i.unit], "version": "1.14.1", "online": online}
        answers[i.unit] = Answer(told, base.answers[i.unit].peers, ({"nwid": NWID.upper(), "status": status},))
    return replace(base, plans=(plan,), answers=answers, pathd=pathd(plan, **states))


def test_instances_that_wait_are_not_up_and_are_named() -> None:
    seen = controlled({1: ("ACCESS_DENIED", True), 2: ("ACCESS_DENIED", True)}, zt0p1="down", zt0p2="down")
    plan = seen.plans[0]
    entry = data.bundle_entry(seen, plan)
    assert (entry["instances_up"], entry["paths_up"], entry["state"]) == (2, 2, "degraded")
    sentence = (
        f"zt0/1 and zt0/2 wait for authorization: authorize members 00000000a1, 00000000a2 of network {NWID} at its controller"
    )
    assert entry["warnings"] == [sentence]
    found = data.bundle(seen, plan)
    assert found["to_authorize"] == [{"network": NWID, "nodes": ["00000000a1", "00000000a2"]}]
    assert [i["network_state"] for i in found["instances"]] == ["unauthorized", "unauthorized", "up", "up"]
    assert [i["state"] for i in found["instances"]] == ["degraded", "degraded", "up", "up"]
    assert found["instances"][0]["network_status"] == "ACCESS_DENIED"
    assert [p["cause"] for p in found["paths_not_up"]] == [
        f"00000000a{k} waits for authorization on network {NWID}" for k in (1, 2)
    ]
    assert "  00000000a1 00000000a2\n" in text.bundle(found, False)
    listed = text.instances(data.instances(seen, plan), False)
    assert "1  unauthorized  00000000a1" in listed or "1 unauthorized 00000000a1" in listed
    assert "  00000000a1 00000000a2\n" in listed and max(visible(line) for line in listed.splitlines()) <= 80
    assert "wait for authorization" in " ".join(text.summary(data.summary(seen), False).split())
    assert "1  unauthorized" in block(seen, plan, False)


def test_a_plain_member_is_degraded_while_one_of_its_networks_waits() -> None:
    lines = f"{several.MEMBER}network-id {several.SECOND}\nnetwork {several.SECOND} address 10.20.0.5/24\n"
    for status, state in (("OK", "up"), ("ACCESS_DENIED", "degraded"), ("REQUESTING_CONFIGURATION", "degraded")):
        seen, plan = several.seen(lines, "OK", status)
        entry = data.bundle_entry(seen, plan)
        assert (entry["state"], entry["instances_up"], len(entry["warnings"])) == (state, 1, int(status != "OK"))
        # One with paths is as these are, which are over its own network.
        seen, plan = several.seen(several.SEVERAL, "OK", status, "OK")
        assert data.bundle_entry(replace(seen, pathd=pathd(plan)), plan)["state"] == "up"


def test_an_instance_without_its_device_waits_for_its_network() -> None:
    """The network is the reason, so nothing asks for the network id."""
    seen = controlled({1: ("REQUESTING_CONFIGURATION", False)}, zt0p1="no device")
    links = {name: link for name, link in seen.kernel.links.items() if name != "zt0p1"}
    seen = replace(seen, kernel=replace(seen.kernel, links=links))
    entry = data.bundle_entry(seen, seen.plans[0])
    assert entry["warnings"] == ["zt0/1 reaches no root: allow UDP from port 9993 to the roots and back"]
    assert data.paths(seen, seen.plans[0])["paths"][0]["cause"] == "it reaches no root"


def test_a_member_whose_remote_does_not_answer_is_up_and_says_so() -> None:
    seen = controlled({}, zt0p3="down")
    found = data.bundle(seen, seen.plans[0])
    assert (found["instances_up"], found["instances"][2]["network_state"]) == (4, "no path")
    assert "zt0/3 is authorized on network" in found["warnings"][0] and "no path to R2 yet" in found["warnings"][0]
    assert found["paths_not_up"][0]["cause"] is None  # the daemon's, not ours
    assert "no path" in text.bundle(found, False)


@pytest.mark.parametrize("state", ["waiting", "drained", "held down", "remote down"])
def test_what_is_on_its_way_or_kept_out_is_no_matter_of_the_network(state: str) -> None:
    seen = controlled({}, zt0p3=state)
    assert data.bundle_entry(seen, seen.plans[0])["warnings"] == []


def test_private_roots_are_named() -> None:
    for planet, mode in (("", "with a controller\n"), ("AQ==", "with a controller and private roots\n")):
        seen = controlled({})
        plan = replace(seen.plans[0], planet=planet)
        found = data.bundle(replace(seen, plans=(plan,)), plan)
        assert found["private_roots"] is bool(planet) and mode in text.bundle(found, False)


def test_in_controller_free_mode_nobody_authorizes() -> None:
    seen = box()
    assert data.bundle(seen, seen.plans[0])["instances"][0]["network_state"] is None
    assert data.bundle(seen, seen.plans[0])["to_authorize"] == []
