"""The main job: the example on two routers, and what stands on each of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lab import Lab, Router
from lab.scenario import iperf, loopback, main_pid, mbit, member_bytes, memory, paths_up, processes, reach, shares, status
from lab.process import wait

PORTS = [9993, 9994, 9995, 9996]


def test_four_processes_each_confined_to_its_cpus(pair: list[Router]) -> None:
    for router in pair:
        pids = processes(router)
        assert sorted(pids) == [1, 2, 3, 4]
        plan = json.loads(router.read("/run/zerotier-multi/zt0.json"))
        for instance in plan["instances"]:
            allowed = router.read(f"/proc/{pids[instance['number']]}/status")
            line = next(line for line in allowed.splitlines() if line.startswith("Cpus_allowed_list"))
            assert line.split()[1] == ",".join(map(str, instance["cpus"]))
        assert {c for i in plan["instances"] for c in i["cpus"]} <= set(os.sched_getaffinity(0))


def test_four_homes_that_only_root_can_read(pair: list[Router]) -> None:
    for router in pair:
        listing = router.run(["stat", "-c", "%a %U %n", *(f"/config/zerotier-multi/zt0/{k}" for k in range(1, 5))]).stdout
        assert [line.split()[:2] for line in listing.splitlines()] == [["700", "root"]] * 4
        secrets = router.run(["find", "/config", "-name", "*.secret", "-perm", "/077"]).stdout
        assert secrets == ""


def test_nothing_listens_but_the_four_ports_and_the_local_api(pair: list[Router]) -> None:
    for router in pair:
        engines = [line.split() for line in router.run(["ss", "-Hlnup"]).stdout.splitlines()]
        udp = {int(words[3].rpartition(":")[2]) for words in engines}
        assert udp == set(PORTS)
        tcp = router.run(["ss", "-Hlntp"]).stdout
        for line in tcp.splitlines():
            port = int(line.split()[3].rpartition(":")[2])
            assert port in PORTS or "zebra" in line or "staticd" in line


def test_a_resilient_group_of_four_and_one_route_per_prefix_besides_that_for_frr(pair: list[Router]) -> None:
    for router, other in zip(pair, reversed(pair), strict=True):
        nexthops = [n for n in router.json(["ip", "-j", "nexthop"]) if n.get("protocol") == "122"]
        groups = [n for n in nexthops if "group" in n]
        assert len(groups) == 1 and len(groups[0]["group"]) == 4
        assert groups[0]["type"] == "resilient"
        routes = [r for r in router.json(["ip", "-j", "route"]) if r.get("protocol") == "122"]
        assert [(r["dst"], r["prefsrc"], "nexthops" in r) for r in routes] == [
            (loopback(other), loopback(router), carries) for carries in (True, False)
        ]
        assert router.read("/proc/sys/net/ipv4/fib_multipath_hash_policy").strip() == "1"
        assert router.read("/proc/sys/net/ipv6/fib_multipath_hash_policy").strip() == "1"


def test_member_devices_answer_only_for_themselves(pair: list[Router]) -> None:
    for router in pair:
        for k in range(1, 5):
            conf = f"/proc/sys/net/ipv4/conf/zt0p{k}"
            assert [router.read(f"{conf}/{n}").strip() for n in ("arp_ignore", "arp_announce")] == ["1", "2"]


def test_thirty_two_flows_use_every_path(pair: list[Router]) -> None:
    r1, r2 = pair
    spreads = []
    for port in (20000, 21000, 22000):  # a box without a settable hash seed may need another draw
        before = member_bytes(r1)
        report = iperf(r1, r2, flows=32, seconds=3, source=loopback(r1), target=loopback(r2), port=port)
        assert mbit(report) > 10
        spreads.append(shares(before, member_bytes(r1)))
        if min(spreads[-1].values()) >= 0.10:
            return
    raise AssertionError(f"a path carried less than 10 % of the bytes: {spreads}")


def test_both_directions_of_a_flow_use_one_instance(pair: list[Router]) -> None:
    r1, r2 = pair
    if not Path("/proc/sys/net/ipv4/fib_multipath_hash_seed").exists():
        return  # without the seed the kernel's hash differs from router to router
    for port in range(25000, 25004):
        before1, before2 = member_bytes(r1), member_bytes(r2)
        iperf(r1, r2, flows=1, seconds=1, source=loopback(r1), target=loopback(r2), port=port)
        there, back = shares(before1, member_bytes(r1)), shares(before2, member_bytes(r2))
        assert max(there, key=there.get) == max(back, key=back.get)


def test_the_underlay_sees_no_plaintext(lab: Lab, pair: list[Router], tmp_path: Path) -> None:
    r1, r2 = pair
    mark = b"not for others.."
    capture = tmp_path / "underlay.pcap"
    with lab.underlay.capture("R2", capture):
        r1.run(["ping", "-q", "-c", "10", "-i", "0.05", "-s", "1000", "-p", mark.hex(), "-I", loopback(r1), loopback(r2)])
        r1.run(["ping", "-q", "-c", "2", "-i", "0.05", "-s", "1000", "-p", b"for everyone ..!".hex(), r2.underlay4])
        wait(lambda: b"for everyone ..!" in capture.read_bytes(), timeout=10, what="plain packets in the capture")
    assert mark not in capture.read_bytes()


def test_the_daemon_is_small_and_the_units_run_with_few_rights(pair: list[Router]) -> None:
    router = pair[0]
    assert 0 < memory(router, main_pid(router, "zerotier-pathd")) < 30_000
    for unit, most in (("zerotier-multi@zt0-1.service", 3.0), ("zerotier-pathd.service", 3.0)):
        lines = router.run(["systemd-analyze", "security", "--no-pager", unit]).stdout.splitlines()
        exposure = next(line for line in lines if "Overall exposure level" in line)
        assert float(exposure.rpartition(": ")[2].split()[0]) <= most, exposure
    for number, pid in processes(router).items():
        effective = next(line for line in router.read(f"/proc/{pid}/status").splitlines() if line.startswith("CapEff"))
        assert int(effective.split()[1], 16) & ~(1 << 12 | 1 << 13 | 1 << 10) == 0, f"instance {number}: {effective}"


def test_everything_is_back_after_a_reboot_with_the_same_identities(pair: list[Router]) -> None:
    r1, r2 = pair
    r1.must_configure("", commit=False, save=True)
    before = [r1.read(f"/config/zerotier-multi/zt0/{k}/identity.public") for k in range(1, 5)]
    r1.reboot()
    r1.wait(lambda: paths_up(r1) == 4, what="4 paths up after the reboot")
    reach(r1, loopback(r1), loopback(r2))
    reach(r2, loopback(r2), loopback(r1))
    assert [r1.read(f"/config/zerotier-multi/zt0/{k}/identity.public") for k in range(1, 5)] == before
    assert status(r1)["problems"] == []
