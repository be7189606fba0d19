"""What op mode tells of a box, and how it looks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.op_box import NOW, PEERS, PLAN, box, pathd, peer
from zerotier_multi.identity import mac_on_network
from zerotier_multi.op import balance, commands, data, routes, text
from zerotier_multi.op.flows import count_flows
from zerotier_multi.op.interfaces import interfaces_data, interfaces_text
from zerotier_multi.op.peer import Underlay, node_of_mac, peer_node, underlay
from zerotier_multi.op.snapshot import Answer, Snapshot
from zerotier_multi.op.table import duration, table, visible
from zerotier_multi.plan import PeerPlan
from zerotier_multi.netlink.state import KernelState
from zerotier_multi.netlink.links import Neighbour
from zerotier_multi.systemd import UnitState, parse_unit


def entry(snapshot: Snapshot) -> dict[str, Any]:
    return data.bundle_entry(snapshot, snapshot.plans[0])


def test_a_box_on_which_all_is_well() -> None:
    found = entry(box())
    assert found["state"] == "up" and found["warnings"] == []
    assert (found["instances_up"], found["instances_total"], found["paths_up"], found["paths_total"]) == (4, 4, 4, 4)
    assert found["rate_in_bits"] == 4 * 62_500 * 8 * 2 and found["rate_out_packets"] == 800
    assert found["hash_policy"] == "layer4"


@pytest.mark.parametrize(
    ("states", "word"),
    [({}, "up"), ({"zt0p2": "waiting"}, "degraded"), ({f"zt0p{k}": "no device" for k in range(1, 5)}, "down")],
)
def test_the_word_for_a_bundle_follows_its_paths(states: dict[str, str], word: str) -> None:
    assert entry(box(pathd=pathd(**states)))["state"] == word


def test_a_disabled_bundle_is_called_so() -> None:
    plan = replace(PLAN, instances=(), paths=(), groups=(), routes=(), hash_policy=None)
    seen = Snapshot(NOW, plans=(plan,), pathd=pathd())
    assert entry(seen)["state"] == "disabled" and entry(seen)["warnings"] == []
    for show in (data.bundle, data.instances, data.paths, routes.routes):
        assert show(seen, plan)["schema"] == 1


def test_without_the_daemon_the_kernel_says_which_paths_are_up() -> None:
    seen = box(pathd=None, pathd_fault="zerotier-pathd does not run")
    assert entry(seen)["state"] == "up" and data.general_warnings(seen) == ["zerotier-pathd does not run"]
    assert entry(replace(seen, kernel=replace(seen.kernel, groups={})))["state"] == "unknown"
    assert entry(replace(seen, kernel=KernelState()))["state"] == "down"


def test_peers_whose_hello_cannot_be_read_are_named() -> None:
    unit = PLAN.instances[0].unit

    def warnings(*senders: str, age: int = 5) -> list[str]:
        unread = [{"address": node, "count": 3, "last": 1000_000 - age * 1000} for node in senders]
        answer = replace(box().answers[unit], status={"address": "00000000a1", "clock": 1000_000, "unreadHello": unread})
        return entry(box(answers={**box().answers, unit: answer}))["warnings"]

    sentence = (
        "zt0/1 gets encrypted HELLO from {}, which ztnode cannot read, so there is no path; set encryptedHelloEnabled "
        "to false there, or interfaces zerotier zt0 engine zerotier-one with 1.16 or later"
    )
    assert warnings() == [] and warnings("89e92ceee5", age=700) == []
    assert warnings("89e92ceee5") == [sentence.format("89e92ceee5")]
    assert warnings(*(f"89e92ceee{k}" for k in range(5))) == [sentence.format("89e92ceee0, 89e92ceee1, 89e92ceee2 and 2 more")]


def test_offloads_that_are_off_are_said() -> None:
    seen = box()
    assert [i["offloads_off"] for i in data.instances(seen, PLAN)["instances"]] == [None] * 4
    taken = {"tso": True, "uso": True, "tcp-gro": True, "udp-gro": True}

    def answer(number: int, *off: str, underlay: bool = True) -> Answer:
        networks = (
            {"nwid": "f" * 16, "offloads": {}},
            {"nwid": PLAN.instances[number].network_id, "offloads": {**taken, **dict.fromkeys(off, False)}},
        )
        return Answer({"underlay": {"offloads": {"underlay-gso": True, "underlay-gro": underlay}}}, (), networks)

    answers = (answer(0, "uso", "udp-gro"), answer(1, "uso", "udp-gro"), answer(2, underlay=False), answer(3))
    found = data.instances(box(answers={i.unit: told for i, told in zip(PLAN.instances, answers, strict=True)}), PLAN)
    assert [i["offloads_off"] for i in found["instances"]] == [["uso", "udp-gro"], ["uso", "udp-gro"], ["underlay-gro"], []]
    assert "Instances 1, 2 without offloads: uso, udp-gro\nInstance 3 without offloads: underlay-gro\n" in text.instances(
        found, False
    )
    odd = Answer({"underlay": {"offloads": "x"}}, (), ({"nwid": PLAN.instances[0].network_id, "offloads": None},))
    assert data.instances(box(answers={PLAN.instances[0].unit: odd}), PLAN)["instances"][0]["offloads_off"] is None


def test_an_instance_that_a_boot_has_left_out_is_said_as_long_as_it_is_so() -> None:
    found = entry(box(replace(PLAN, left_out=(5,))))
    assert found["state"] == "degraded"
    assert found["warnings"] == [
        "zt0/5 was left out at boot, because its home /config/zerotier-multi/zt0/5 cannot be used; repair it, then reboot, or commit "
        "a change of zt0, such as its description"
    ]


def test_what_is_wrong_is_said() -> None:
    unit = PLAN.instances[1].unit
    dead = box(units={**box().units, unit: UnitState("failed")})
    assert entry(dead)["warnings"] == ["zt0/2 does not run (failed); see: journalctl -u zerotier-multi@zt0-2"]
    mute = box(answers={**box().answers, unit: Answer()})
    assert entry(mute)["warnings"] == ["zt0/2 runs but does not answer; see: journalctl -u zerotier-multi@zt0-2"]
    assert entry(mute)["instances_up"] == 3
    lowered = box(hash_policy=0)
    assert "the kernel hashes by layer3, not by layer4" in entry(lowered)["warnings"][0]
    assert "is corrupt" in entry(box(broken_identities=(unit,)))["warnings"][0]
    sunk = entry(box(sunk={"zt0": ("192.168.9.0/24", "192.168.10.0/24")}))["warnings"][0]
    assert sunk.startswith(
        "zt0 drops packets for 192.168.9.0/24 and 1 other prefix: another program routes them to the device zt0 itself"
    )
    assert sunk.endswith("set interfaces zerotier zt0 remote NAME prefix 192.168.9.0/24")
    policy = entry(box(sunk={"zt0": ("0.0.0.0/0",)}))["warnings"][0]  # of a table for some hosts, perhaps
    assert "delete that route and use the remote's address in the transit prefix as next hop" in policy


def test_a_path_with_its_peer() -> None:
    seen = box()
    found = data.paths(seen, seen.plans[0])["paths"][1]
    assert found["peer_node"] == "00000000b2" and found["next_hop"] == "10.14.0.6" and found["device"] == "zt0p2"
    assert (found["link"], found["underlay_address"], found["latency_ms"]) == ("direct", "198.51.100.2:9993", 7)
    assert found["loss"] is None and found["since"] == int(NOW) - 65
    told = pathd()
    told["bundles"]["zt0"]["paths"][1]["loss"] = 0.25
    seen = box(pathd=told)
    found = data.paths(seen, seen.plans[0])
    assert found["paths"][1]["loss"] == 0.25 and "25.0" in text.paths(found, False)


def test_a_latency_that_nobody_has_measured_is_not_shown_as_none_at_all() -> None:
    def latencies(of_the_engine: int, of_the_probes: float | None) -> tuple[float | None, bool]:
        answers = {i.unit: Answer(peers=({**peer(f"00000000b{i.number}"), "latency": of_the_engine},)) for i in PLAN.instances}
        told = pathd()
        for path in told["bundles"]["zt0"]["paths"]:
            path["rtt_ms"] = of_the_probes
        seen = box(answers=answers, pathd=told)
        found = data.paths(seen, seen.plans[0])
        return found["paths"][0]["latency_ms"], " 0.0" in text.paths(found, False)

    assert latencies(0, None) == latencies(-1, None) == (None, False)
    assert latencies(3, None) == (3, False) and latencies(0, 0.04) == (0.04, True)


def test_a_path_that_is_not_up_is_named_with_its_cause() -> None:
    told = pathd(zt0p2="down")
    told["bundles"]["zt0"]["paths"][1] |= {"changes": 3, "cause": "no answer to 3 probes"}
    seen = box(pathd=told)
    found = data.bundle(seen, seen.plans[0])
    assert [(p["instance"], p["changes"], p["cause"]) for p in found["paths_not_up"]] == [(2, 3, "no answer to 3 probes")]
    assert "zt0/2 to R2 (IPv4)  down   no answer to 3 probes" in text.bundle(found, False)
    assert "Cause" not in text.bundle(data.bundle(box(), PLAN), False)


def test_how_a_node_is_reached() -> None:
    a, root = "00000000b1", peer("00000000c1", address="2001:db8::9/1")
    assert underlay([peer(a)], a, True, NOW).link == "direct"
    assert underlay([peer(a, age=20)], a, True, NOW) == Underlay("none")
    assert underlay([peer(a, age=20)], a, False, NOW).link == "direct"
    assert underlay([peer(a, age=100), root], a, True, NOW).link == "relayed"
    assert underlay([root], a, True, NOW).link == "relayed"
    assert underlay([peer("00000000c1", role="LEAF")], a, True, NOW).link == "none"
    assert underlay(None, a, True, NOW) == underlay([root], None, True, NOW) == Underlay()
    assert underlay([root], "00000000c1", True, NOW).address == "[2001:db8::9]:1"
    for unknown in (-1, 0):  # as where nothing has been measured
        assert underlay([{**peer(a), "latency": unknown}], a, True, NOW) == Underlay("direct", "198.51.100.2:9993")
    left = {**peer(a), "paths": [{**peer(a)["paths"][0], "preferred": False}]}
    assert underlay([left], a, True, NOW).link == "none"
    far, near = {**peer("00000000d1", role="MOON"), "latency": 30}, {**peer("00000000d2", role="MOON"), "latency": 3}
    unknown = {**peer("00000000d3", role="MOON"), "latency": -1}
    assert underlay([left, far, near, unknown], a, True, NOW) == Underlay("relayed", None, 7, "00000000d2")


def test_a_relayed_path_names_the_remote_that_relays() -> None:
    third = PeerPlan("R3", 1, f"00000000c1:0:{'ab' * 64}", ())
    plan = replace(PLAN, controller_free=True, peers=(*PEERS, third))
    answers = {
        i.unit: Answer(peers=(peer(f"00000000b{i.number}", age=100), peer("00000000c1", role="MOON"))) for i in plan.instances
    }
    seen = box(plans=(plan,), answers=answers)
    found = data.paths(seen, plan)
    assert {(p["link"], p["relay"]) for p in found["paths"]} == {("relayed", "R3")}
    assert "via R3" in text.paths(found, False)


@pytest.mark.parametrize("network", ["8056c2e21c000001", "8056c2e21c000052", "8056c2e21c000050", "ffffffffffffffff"])
def test_a_mac_tells_its_node(network: str) -> None:
    assert node_of_mac(mac_on_network("89e92ceee5", network), network) == "89e92ceee5"
    assert node_of_mac("00:11:22:33:44:55", network) is None


def test_on_a_controllers_network_the_neighbour_tells_the_peer() -> None:
    mac = mac_on_network("89e92ceee5", PLAN.instances[0].network_id)
    neighbours = frozenset({Neighbour(11, "10.14.0.2", mac), Neighbour(12, "10.14.0.2", "02:00:00:00:00:00")})
    seen = box(kernel=replace(box().kernel, neighbours=neighbours))
    assert peer_node(seen, PLAN, PLAN.paths[0]) == "89e92ceee5" and peer_node(seen, PLAN, PLAN.paths[1]) is None


def test_routes_are_the_kernels() -> None:
    seen = box()
    found = routes.routes(seen, seen.plans[0])["routes"]
    assert len(found) == 1 and found[0]["installed"] and found[0]["buckets"] == 128
    assert [h["device"] for h in found[0]["next_hops"]] == ["zt0p1", "zt0p2", "zt0p3", "zt0p4"]
    bare = routes.routes(box(kernel=replace(seen.kernel, routes=frozenset())), seen.plans[0])
    assert not bare["routes"][0]["installed"] and "missing" in text.routes(bare, False)
    stray = replace(next(r for r in seen.kernel.routes if r.nexthop_id), prefix="10.9.0.0/16")
    more = routes.routes(box(kernel=replace(seen.kernel, routes=seen.kernel.routes | {stray})), seen.plans[0])
    assert [r["planned"] for r in more["routes"]] == [True, False]
    assert "10.9.0.0/16 is not in the configuration" in text.routes(more, False)


def test_marks_that_lead_elsewhere_are_noted_with_the_routes() -> None:
    seen = box()
    lost = ["10.0.55.2/32", "192.168.2.0/24", "192.168.3.0/24"]
    for number, where in ((100, "table 100"), (None, "another table")):
        found = routes.routes(seen, seen.plans[0], [{"mark": "0x7fffff9b", "table": number, "prefixes": lost}])
        assert found["warnings"] == [] and json.loads(json.dumps(found["diverted"])) == found["diverted"]
        note = " ".join(text.routes(found, False).split("Note: ")[1].split())
        assert "mark 0x7fffff9b" in note and f"over zt0 to 10.0.55.2/32 and 2 other prefixes, but by {where};" in note


def test_balance_gives_shares() -> None:
    seen = box()
    flows = count_flows("sockets", ["zt0p1", "zt0p1", "zt0p3", "eth0", None], ["zt0p1", "zt0p2", "zt0p3"], True)
    found = balance.balance(seen, seen.plans[0], flows)
    assert [m["flows"] for m in found["members"]] == [2, 0, 1, 0] and found["flows_elsewhere"] == 2
    assert found["members"][0]["bytes_out_share"] == 0.25 and found["members"][0]["flows_share"] == 0.6667
    shown = text.balance(found, False)
    assert "connected sockets of this router" in shown and "first 4096 flows" in shown


def test_the_plan_as_commands_comes_from_the_plan_alone() -> None:
    found = commands.plan_data(replace(PLAN, vrf="red"))
    everything = [command for section in found["sections"] for command in section["commands"]]
    assert "systemctl start zerotier-multi@zt0-1" in everything
    assert "ip link set zt0p2 up master red" in everything and "ip address replace 10.0.55.1/32 dev zt0" in everything
    group = PLAN.groups[0].group_id
    assert f"ip route add 10.0.55.2/32 nhid {group} src 10.0.55.1 vrf red proto 122" in everything
    shown = text.plan(found).replace("\\\n    ", "").replace("\\\n", "")
    assert all(command in shown for command in everything)


def test_a_long_command_is_broken_so_that_a_shell_mends_it() -> None:
    command = "ip nexthop replace id 1 group " + "/".join(["2046820481"] * 32) + " type resilient buckets 128"
    lines = text.break_command(command)
    assert all(len(line) <= 80 for line in lines)
    assert "\n".join(lines).replace("\\\n    ", "").replace("\\\n", "") == command


def everything_shown(seen: Snapshot, colour: bool) -> list[str]:
    plan = seen.plans[0]
    flows = count_flows("conntrack", [], [i.device for i in plan.instances], False)
    interfaces = interfaces_data(seen)
    return [
        text.summary(data.summary(seen), colour),
        text.bundle(data.bundle(seen, plan), colour),
        text.instances(data.instances(seen, plan), colour),
        text.paths(data.paths(seen, plan), colour),
        text.routes(routes.routes(seen, plan), colour),
        text.balance(balance.balance(seen, plan, flows), colour),
        text.plan(commands.plan_data(plan)),
        *(interfaces_text(interfaces, *form, colour) for form in ((False, False), (True, False), (False, True))),
    ]


def test_all_text_fits_the_screen_and_colours_take_no_room() -> None:
    wide = peer("00000000b1", address="2001:db8:1234:5678:9abc:def0:1234:5678/65535")
    answers = {i.unit: Answer({"version": "1.14.1"}, (wide,)) for i in PLAN.instances}
    told = pathd(zt0p3="no device")
    told["problems"] = ["a problem of the daemon that takes more than a line of the screen: " + "word " * 30]
    for seen in (box(), box(answers=answers, pathd=told), box(pathd=None), box(units={}, kernel=KernelState())):
        for plain, coloured in zip(everything_shown(seen, False), everything_shown(seen, True), strict=True):
            assert all(len(line) <= 80 for line in plain.splitlines()), plain
            assert "\x1b" not in plain and re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
            assert not plain.endswith("\n")


def test_a_description_is_shown_where_there_is_one() -> None:
    plan = replace(PLAN, description="to the other house, " * 12)
    seen = box(plan)
    shown = text.bundle(data.bundle(seen, seen.plans[0]), False) + interfaces_text(interfaces_data(seen), True, False, False)
    assert shown.count("Description:") == 2 and max(map(len, shown.splitlines())) <= 80
    assert [entry["description"] for entry in interfaces_data(seen)["interfaces"]][1:] == [""] * 4
    assert "Description" not in text.bundle(data.bundle(box(), PLAN), False)


def test_nothing_configured() -> None:
    assert text.summary(data.summary(Snapshot(NOW)), False) == text.NOTHING
    assert interfaces_text(interfaces_data(Snapshot(NOW)), False, False, False) == text.NOTHING


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys(v) for v in value.values()))
    return set().union(*(keys(v) for v in value)) if isinstance(value, list) else set()


def test_raw_answers_are_json_with_plain_keys() -> None:
    seen, plan = box(), box().plans[0]
    flows = count_flows("sockets", [], [], False)
    answers = [
        data.summary(seen), data.bundle(seen, plan), data.instances(seen, plan), data.paths(seen, plan),
        routes.routes(seen, plan), balance.balance(seen, plan, flows), commands.plan_data(plan), interfaces_data(seen),
    ]  # fmt: skip
    for answer in answers:
        assert answer["schema"] == 1 and json.loads(json.dumps(answer)) == answer
        assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", key) for key in keys(answer)), keys(answer)


def test_a_table_that_is_too_wide_becomes_blocks() -> None:
    assert table(["A", "B\nMiB"], [["x", "1"], ["yy", "22"]], "lr") == "      B\nA   MiB\n--  ---\nx     1\nyy   22"
    shown = table(["Name", "Re-\nstarts", "Size\nMiB"], [["n" * 60, "1", ""], ["m" * 100, "", "2"]])
    first, second = shown.split("\n\n")
    assert "Name:     nnn" in first and "Restarts: 1" in first and "Size" not in first and "Size (MiB): 2" in second
    assert all(visible(line) <= 80 for line in shown.split("\n"))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0s"), (59.9, "59s"), (65, "1m05s"), (7620, "2h07m"), (442800, "5d03h"), (None, "-")]
)
def test_time_spans(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


def test_what_systemctl_prints() -> None:
    running = "ActiveState=active\nMainPID=42\nNRestarts=3\nActiveEnterTimestampMonotonic=5000000\nMemoryCurrent=4096"
    assert parse_unit(running, 65.0) == UnitState("active", 42, 3, 60.0, 4096)
    stopped = "ActiveState=inactive\nMainPID=0\nActiveEnterTimestampMonotonic=5000000\nMemoryCurrent=[not set]"
    assert parse_unit(stopped, 65.0) == UnitState("inactive")
    assert parse_unit("MemoryCurrent=18446744073709551615", 1.0).cgroup_memory is None


@pytest.mark.parametrize(("twin", "said"), [
    ("remote", "two routers with the identity of R2 send over zt0/1; stop one of the two, "),
    ("own", "R2 hears another router with the identity of zt0/1; stop one of the two, "),
    (None, None),
])  # fmt: skip
def test_one_identity_in_two_places_is_said_once(twin: str | None, said: str | None) -> None:
    told = pathd()
    for path in told["bundles"]["zt0"]["paths"]:
        path["twin"] = twin if path["instance"] == 1 else None
    told["bundles"]["zt0"]["paths"] *= 2  # of both families
    warnings = [w for w in data.bundle(box(pathd=told), PLAN)["warnings"] if "identity" in w]
    assert [w.partition("or give")[0] for w in warnings] == ([said] if said else [])


@pytest.mark.parametrize(("state", "passes", "said"), [
    ("narrow", 1374, "probes of more than 1374 bytes are lost between R2 and zt0/1, zt0/2, so other paths carry all traffic; "
     "on both routers set interfaces zerotier zt0 mtu 1374, or raise the MTU of the line"),
    ("up", 1374, "probes of more than 1374 bytes are lost between R2 and zt0/1, zt0/2, so TCP may stall; "
     "on both routers set interfaces zerotier zt0 mtu 1374, or raise the MTU of the line"),
    ("up", 0, "probes of full size are lost between R2 and zt0/1, zt0/2, so TCP may stall; raise the MTU of the line, "
     "or remove the endpoints that lead over it"),
    ("up", None, None), ("down", 1374, None), ("drained", 1374, None),
])  # fmt: skip
def test_a_line_that_drops_large_packets_is_told(state: str, passes: int | None, said: str | None) -> None:
    told = pathd()
    for path in told["bundles"]["zt0"]["paths"]:
        if path["instance"] <= 2:
            path |= {"state": state, "passes": passes}
    told["bundles"]["zt0"]["paths"] *= 2  # of both families
    warnings = [w for w in data.bundle(box(pathd=told), PLAN)["warnings"] if "probes of" in w]
    assert warnings == ([said] if said else [])


def test_lines_of_several_sizes_want_one_mtu() -> None:
    told = pathd()
    first, second, *_ = told["bundles"]["zt0"]["paths"]
    first |= {"state": "up", "passes": 1374}
    second |= {"state": "narrow", "passes": 1300}
    warnings = [w for w in data.bundle(box(pathd=told), PLAN)["warnings"] if "probes of" in w]
    assert len(warnings) == 2 and all("set interfaces zerotier zt0 mtu 1300," in w for w in warnings)
