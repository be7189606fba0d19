"""Changes touch what they name and nothing else; deleting leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, LabError, Router
from lab.scenario import example, loopback, member_bytes, paths_up, processes, reach, status, wait_paths
from tests.lab.conftest import ENGINE

ZT = "set interfaces zerotier zt0"


def snapshot(router: Router) -> dict[str, str]:
    """Everything that an unchanged commit must not touch."""
    return {
        "files": router.run(["find", "/config/zerotier-multi", "/run/zerotier-multi", "/run/systemd/system", "-type", "f", "-not", "-name", "*.peer",
                             "-not", "-name", "metrics.prom", "-printf", "%p %T@ %i\n"]).stdout,
        "processes": json.dumps(processes(router)),
        "links": json.dumps([(x["ifname"], x["ifindex"], x["mtu"]) for x in router.json(["ip", "-j", "link"])]),
        "nexthops": router.run(["sh", "-c", "ip nexthop | grep 'proto 122'"]).stdout,
        "routes": router.run(["sh", "-c", "ip route show proto 122; ip -6 route show proto 122"]).stdout,
    }  # fmt: skip


class Flow:
    """A UDP stream that its ports keep on one path, which must not lose a packet while something changes."""

    def __init__(self, client: Router, server: Router, port: int, seconds: int = 8) -> None:
        self.server = server.popen(["iperf3", "-s", "-1", "-p", str(port)])
        server.wait(lambda: f":{port} " in server.run(["ss", "-Hltn"]).stdout, what="iperf3 server")
        before = member_bytes(client)
        self.client = client.popen(
            [
                "iperf3",
                "-J",
                "-c",
                loopback(server),
                "-B",
                loopback(client),
                "-p",
                str(port),
                "-t",
                str(seconds),
                "-i",
                "0.5",
                "-u",
                "-b",
                "5M",
                "-l",
                "1200",
            ]
        )
        self.device = client.wait(lambda: self._device(client, before), timeout=7, what="the device that the flow uses")

    @staticmethod
    def _device(client: Router, before: dict[str, int]) -> str:
        sent = {d: b - before.get(d, 0) for d, b in member_bytes(client).items()}
        busiest = max(sent, key=sent.get)
        return busiest if sent[busiest] > 200_000 else ""

    def lost(self) -> int:
        """Packets lost on the way, once the stream has ended; it must have flowed all the time."""
        text, _ = self.client.communicate(timeout=60)
        self.server.wait(timeout=10)
        report = json.loads(text)
        assert all(i["sum"]["bytes"] > 0 for i in report["intervals"])
        assert report["end"]["sum"]["packets"] > 3000
        return int(report["end"]["sum"]["lost_packets"])


@pytest.fixture
def flow(pair: list[Router]) -> Iterator[list[Flow]]:
    made: list[Flow] = []
    yield made
    for item in made:
        item.client.kill()
        item.server.kill()


def flow_on(pair: list[Router], devices: set[str], made: list[Flow], seconds: int = 8) -> Flow:
    """A flow over one of these devices; ports are tried until the hash takes it there."""
    for port in range(5300, 5330):
        try:
            item = Flow(pair[0], pair[1], port, seconds)
        except LabError:  # hashed to a path that is not through yet
            continue
        made.append(item)
        if item.device in devices:
            return item
        item.client.kill()
        item.server.kill()
    raise AssertionError(f"no flow was hashed to {devices}")


def test_an_unchanged_commit_touches_nothing(pair: list[Router]) -> None:
    router = pair[0]
    before = snapshot(router)
    # A default that is written out is configuration, so the script runs, but nothing of the router depends on it.
    router.must_configure(f"{ZT} balance hash-policy layer4")
    router.must_configure("delete interfaces zerotier zt0 balance")
    assert snapshot(router) == before


def test_fewer_and_more_instances_leave_the_others_alone(pair: list[Router], flow: list[Flow]) -> None:
    item = flow_on(pair, {"zt0p1", "zt0p2"}, flow)
    before = [processes(r) for r in pair]
    for router in pair:
        router.must_configure(f"{ZT} instances 2")
    for router, pids in zip(pair, before, strict=True):
        assert processes(router) == {k: pids[k] for k in (1, 2)}
        router.wait(lambda r=router: paths_up(r) == 2, what="2 paths")
    for router in pair:
        router.must_configure(f"{ZT} instances 4")
    wait_paths(pair, 4)
    for router, pids in zip(pair, before, strict=True):
        after = processes(router)
        assert sorted(after) == [1, 2, 3, 4] and all(after[k] == pids[k] for k in (1, 2))
    assert item.lost() == 0


def test_a_port_change_restarts_that_instance_alone(pair: list[Router], flow: list[Flow]) -> None:
    r1, r2 = pair
    item = flow_on(pair, {"zt0p1", "zt0p2", "zt0p4"}, flow)
    before = processes(r1)
    r1.must_configure(f"{ZT} instance 3 port 12003")
    r1.wait(lambda: processes(r1).get(3) not in (None, before[3]), what="instance 3 anew")
    assert {k: p for k, p in processes(r1).items() if k != 3} == {k: p for k, p in before.items() if k != 3}
    r1.wait(lambda: ":12003 " in r1.run(["ss", "-Hlun"]).stdout, what="the new port")
    wait_paths(pair, 4)
    r1.wait(lambda: r1.run(["ping", "-c1", "-W1", "-I", "zt0p3", "10.14.0.10"], check=False).returncode == 0, what="echo on path 3")
    assert item.lost() == 0
    r1.must_configure("delete interfaces zerotier zt0 instance 3")
    wait_paths(pair, 4)


def test_what_restarts_all_instances_restarts_them_in_turn(pair: list[Router], flow: list[Flow]) -> None:
    r1, _r2 = pair
    item = flow_on(pair, {"zt0p1", "zt0p2", "zt0p3", "zt0p4"}, flow, seconds=20)
    before = processes(r1)
    r1.must_configure(f"{ZT} mtu 1380")
    wait_paths(pair, 4)
    after = processes(r1)
    assert sorted(after) == sorted(before) and not set(after.values()) & set(before.values())
    assert item.client.poll() is None, "the flow has seen all of it"
    assert item.lost() == 0
    r1.must_configure("delete interfaces zerotier zt0 mtu")
    wait_paths(pair, 4)


def test_paths_that_the_far_end_takes_away_over_a_slow_link(lab: Lab, pair: list[Router], flow: list[Flow]) -> None:
    """What is under way to them when the far end decides has still to arrive."""
    for router in pair:
        lab.underlay.netem(router.name, delay_ms=40)
    try:
        wait_paths(pair, 4)
        item = flow_on(pair, {"zt0p3", "zt0p4"}, flow, seconds=10)
        pair[1].must_configure(f"{ZT} instances 2")
        pair[0].wait(lambda: paths_up(pair[0]) == 2, what="2 paths")
        assert item.lost() == 0
    finally:
        for router in pair:
            lab.underlay.clear(router.name)
    pair[1].must_configure(f"{ZT} instances 4")
    wait_paths(pair, 4)


def test_one_more_remote_prefix_touches_no_process_and_no_other_route(pair: list[Router]) -> None:
    r1, _r2 = pair
    before, pids = snapshot(r1), processes(r1)
    r1.must_configure(f"{ZT} remote R2 prefix 192.0.2.0/24")
    after = snapshot(r1)
    assert processes(r1) == pids and after["nexthops"] == before["nexthops"] and after["links"] == before["links"]
    assert set(before["routes"].splitlines()) < set(after["routes"].splitlines()) and "192.0.2.0/24" in after["routes"]
    r1.must_configure("delete interfaces zerotier zt0 remote R2 prefix 192.0.2.0/24")
    assert snapshot(r1)["routes"] == before["routes"]


@pytest.mark.only_ztnode  # zerotier-one reads its moons when it starts
def test_another_endpoint_restarts_no_process(pair: list[Router]) -> None:
    r1 = pair[0]
    before = processes(r1)
    r1.must_configure(f"{ZT} remote R2 instance 1 endpoint 203.0.113.9:9993")
    assert '"203.0.113.9/9993"' in r1.read("/config/zerotier-multi/zt0/1/local.conf")
    r1.must_configure("delete interfaces zerotier zt0 remote R2 instance 1 endpoint 203.0.113.9:9993")
    assert processes(r1) == before and paths_up(r1) == len(before)


def test_pinning_moves_a_running_process(pair: list[Router]) -> None:
    r1 = pair[0]
    pids = processes(r1)
    r1.must_configure(f"{ZT} instance 1 cpu 0-1")
    assert processes(r1) == pids
    tasks = r1.run(["sh", "-c", f"grep -h Cpus_allowed_list /proc/{pids[1]}/task/*/status"]).stdout
    assert set(tasks.split()[1::2]) == {"0-1"}
    r1.must_configure("delete interfaces zerotier zt0 instance 1")


@pytest.mark.parametrize(
    ("harm", "repaired"),
    [
        ("sysctl -w net.ipv4.fib_multipath_hash_policy=0", "sysctl -n net.ipv4.fib_multipath_hash_policy | grep -x 1"),
        ("ip addr del 10.14.0.5/30 dev zt0p2", "ip addr show zt0p2 | grep 10.14.0.5/30"),
        ("ip addr del 10.0.55.1/32 dev zt0", "ip addr show zt0 | grep 10.0.55.1/32"),
        ("ip route del 10.0.55.2/32", "ip route show 10.0.55.2/32 | grep nhid"),
        ("ip route del 10.0.55.2/32 dev zt0", "ip route show 10.0.55.2/32 | grep 'dev zt0 .*metric 16777215'"),
        ("ip neigh del 10.14.0.2 dev zt0p1", "ip neigh show 10.14.0.2 dev zt0p1 | grep PERMANENT"),
        ("ip link set zt0 down", "ip link show zt0 | grep ',UP'"),
        ("ip link set zt0p2 mtu 1500", "ip link show zt0p2 | grep 'mtu 1394'"),
        ("ip nexthop del id 2046820482", "ip nexthop get id 2046820482"),
        ("ip nexthop flush proto 122", "ip route show 10.0.55.2/32 | grep -c 'dev zt0p' | grep -x 4"),
        ("ip link del zt0", "ip addr show zt0 | grep 10.0.55.1/32"),
    ],
)
def test_what_somebody_changes_is_repaired(pair: list[Router], harm: str, repaired: str) -> None:
    r1 = pair[0]
    r1.run(["sh", "-c", harm])
    r1.wait(lambda: r1.run(["sh", "-c", repaired], check=False).returncode == 0, timeout=10, what=f"repaired after: {harm}")
    wait_paths(pair, 4)
    reach(r1, loopback(r1), loopback(pair[1]))


def test_the_daemon_takes_over_without_a_gap_after_a_kill(pair: list[Router], flow: list[Flow]) -> None:
    r1 = pair[0]
    item = flow_on(pair, {f"zt0p{k}" for k in range(1, 5)}, flow)
    before = snapshot(r1)
    pid = r1.run(["systemctl", "show", "--property=MainPID", "--value", "zerotier-pathd"]).stdout.strip()
    r1.run(["kill", "-KILL", pid])

    def again() -> bool:
        now = r1.run(["systemctl", "show", "--property=MainPID", "--value", "zerotier-pathd"]).stdout.strip()
        return now not in ("0", pid) and status(r1)["bundles"] != {}

    r1.wait(again, what="the daemon anew")
    after = snapshot(r1)
    assert {k: after[k] for k in ("processes", "links", "nexthops", "routes")} == {
        k: before[k] for k in ("processes", "links", "nexthops", "routes")
    }
    assert item.lost() == 0


def test_who_needs_the_daemon_waits_until_it_is_back(pair: list[Router], flow: list[Flow]) -> None:
    """systemd starts it again in less than a second."""
    r1 = pair[0]
    item = flow_on(pair, {f"zt0p{k}" for k in range(1, 5)}, flow)
    before = processes(r1)
    killed = "systemctl kill --kill-who=main --signal=KILL zerotier-pathd"
    r1.run(["sh", "-c", f"{killed} && ztsh restart zerotier zt0 instance 2"])
    assert "zerotier-pathd does not" not in r1.run(["sh", "-c", f"{killed} && ztsh show zerotier"]).stdout
    wait_paths(pair, 4)
    now = processes(r1)
    assert now[2] != before[2] and {k: p for k, p in now.items() if k != 2} == {k: p for k, p in before.items() if k != 2}
    assert item.lost() == 0


@pytest.mark.parametrize("signal", ["KILL", "ABRT", "TERM"])
def test_an_instance_that_ends_comes_back_alone(pair: list[Router], signal: str) -> None:
    """However it ends, by itself or not; systemd is quicker than zerotier-pathd, which would wait 15 s."""
    r1 = pair[0]
    before = processes(r1)
    r1.run(["kill", f"-{signal}", str(before[2])])
    r1.wait(lambda: processes(r1).get(2) not in (None, before[2]), timeout=10, what="instance 2 anew")
    wait_paths(pair, 4)
    assert {k: p for k, p in processes(r1).items() if k != 2} == {k: p for k, p in before.items() if k != 2}
    r1.wait(lambda: r1.run(["ping", "-c1", "-W1", "-I", "zt0p2", "10.14.0.6"], check=False).returncode == 0, what="echo on path 2")


def test_an_instance_that_systemd_has_given_up_on_is_tried_again(pair: list[Router]) -> None:
    r1 = pair[0]
    unit = "zerotier-multi@zt0-4.service"
    others = {k: p for k, p in processes(r1).items() if k != 4}

    def given_up() -> bool:
        pid = processes(r1).get(4)
        if pid:
            r1.run(["kill", "-KILL", str(pid)], check=False)
        return r1.run(["systemctl", "is-failed", unit], check=False).stdout.strip() == "failed"

    r1.wait(given_up, timeout=20, what="systemd giving up")
    r1.wait(lambda: paths_up(r1) == 3, what="three paths meanwhile")
    r1.wait(lambda: 4 in processes(r1), timeout=40, what="instance 4 anew")
    wait_paths(pair, 4)
    assert {k: p for k, p in processes(r1).items() if k != 4} == others
    assert "zerotier-multi@zt0-4.service is started again: its device zt0p4 is missing" in r1.journal("zerotier-pathd")


def test_a_broken_plan_file_changes_nothing_and_is_told(pair: list[Router]) -> None:
    r1 = pair[0]
    before = snapshot(r1)["nexthops"]
    whole = r1.read("/run/zerotier-multi/zt0.json")
    r1.write("/run/zerotier-multi/zt0.json", whole[:200])
    r1.run(["systemctl", "kill", "--kill-whom=main", "--signal=HUP", "zerotier-pathd"])
    r1.wait(lambda: any("unusable" in p for p in status(r1)["problems"]), what="the problem in the status")
    assert snapshot(r1)["nexthops"] == before
    r1.must_configure(f"{ZT} balance hash-policy layer4")
    r1.wait(lambda: status(r1)["problems"] == [], what="no problem")
    assert r1.read("/run/zerotier-multi/zt0.json") == whole


def standing(router: Router) -> dict[str, str]:
    """What carries the traffic, and what else there is of the bundle outside of its processes."""
    found = {
        "addresses": "ip -br address show",
        "rules": "ip rule; ip -6 rule",
        "nftables": "nft list tables; nft list table inet zerotier_multi",
        "settings": "sysctl net.ipv4.fib_multipath_hash_policy net.ipv6.fib_multipath_hash_policy net.ipv4.conf.zt0p1",
    }
    rest = {key: value for key, value in snapshot(router).items() if key != "files"}
    return {**rest, **{key: router.run(["sh", "-c", command]).stdout for key, command in found.items()}}


def make_unreadable(router: Router) -> None:
    """Give the plan a field, as another version may have one."""
    plan = json.loads(router.read("/run/zerotier-multi/zt0.json"))
    router.write("/run/zerotier-multi/zt0.json", json.dumps({**plan, "colour": "blue"}))


def remedy(sentence: str) -> str:
    """The line that a sentence names for the case that a plan cannot be used."""
    return sentence.partition("such as: ")[2].partition(";")[0].strip()


def test_a_daemon_that_starts_with_a_plan_it_cannot_read_takes_nothing_away(pair: list[Router], flow: list[Flow]) -> None:
    r1 = pair[0]
    item = flow_on(pair, {f"zt0p{k}" for k in range(1, 5)}, flow, seconds=20)
    before = standing(r1)
    make_unreadable(r1)
    r1.run(["systemctl", "restart", "zerotier-pathd"])
    (problem,) = status(r1)["problems"]
    assert "unknown field 'colour'); it is left out; what stands of that bundle carries on" in problem
    assert standing(r1) == before
    # Another bundle comes and goes meanwhile.
    r1.must_configure("set interfaces zerotier zt1 network-id 8056c2e21c000002\nset interfaces zerotier zt1 address 10.0.56.1/32\n")
    assert "10.0.56.1/32" in r1.run(["ip", "-br", "address", "show", "zt1"]).stdout
    r1.must_configure("delete interfaces zerotier zt1")
    assert standing(r1) == before
    r1.must_configure(remedy(problem))
    r1.wait(lambda: status(r1)["problems"] == [], what="no problem")
    assert status(r1)["bundles"]["zt0"]["state"] == "up" and paths_up(r1) == 4
    r1.must_configure("delete interfaces zerotier zt0 description")
    assert standing(r1) == before
    assert item.lost() == 0


def test_a_version_that_cannot_read_a_plan_leaves_the_daemon_before_it_running(pair: list[Router]) -> None:
    r1 = pair[0]
    script = (Path(__file__).parents[2] / "packages/zerotier-multi/debian/postinst").read_text()
    pid = ["systemctl", "show", "--property=MainPID", "--value", "zerotier-pathd"]
    before, daemon = standing(r1), r1.run(pid).stdout
    make_unreadable(r1)
    told = r1.run(["sh", "-c", script, "postinst", "configure"]).stderr
    assert (
        told.startswith("zerotier-multi: this version cannot use /run/zerotier-multi/zt0.json (") and r1.run(pid).stdout == daemon
    )
    r1.must_configure(remedy(told))
    r1.run(told.rpartition("then: ")[2].split())
    assert status(r1)["problems"] == [] and paths_up(r1) == 4
    r1.must_configure("delete interfaces zerotier zt0 description")
    daemon = r1.run(pid).stdout
    assert r1.run(["sh", "-c", script, "postinst", "configure"]).stderr == "" and r1.run(pid).stdout != daemon
    assert standing(r1) == before


def test_one_more_process_on_a_home_is_refused(pair: list[Router]) -> None:
    r1 = pair[0]
    taken = r1.run(["sh", "-c", "flock --nonblock 0 </config/zerotier-multi/zt0/1/.lock"], check=False)
    assert taken.returncode == 1
    # The unit's own command, started a second time, ends before it gets to the engine.
    lines = r1.read("/run/systemd/system/zerotier-multi@zt0-1.service.d/10-plan.conf").splitlines()
    command = next(x for x in lines if x.startswith("ExecStart=")).partition("=")[2]
    second = r1.run(["sh", "-c", f"{command} </config/zerotier-multi/zt0/1/.lock"], check=False)
    assert second.returncode == 75


def test_a_second_bundle_beside_the_first(pair: list[Router]) -> None:
    lines = (
        "set interfaces zerotier zt1 network-id 8056c2e21c000002\nset interfaces zerotier zt1 instances 2\n"
        "set interfaces zerotier zt1 controller-free\nset interfaces zerotier zt1 transit prefix 10.15.0.0/29\n"
        "set interfaces zerotier zt1 transit site {site}\nset interfaces zerotier zt1 address 10.0.56.{site}/32\n"
        "set interfaces zerotier zt1 remote {other} prefix 10.0.56.{peer}/32\n"
    )
    from lab.scenario import introduce

    before = [processes(r) for r in pair]
    for router, other in zip(pair, reversed(pair), strict=True):
        router.must_configure(lines.format(site=router.number, other=other.name, peer=other.number))
    introduce(pair, 2, bundle=1)
    wait_paths(pair, 2, bundle=1)
    reach(pair[0], "10.0.56.1", "10.0.56.2")
    assert [processes(r) for r in pair] == before
    for router in pair:
        router.must_configure("delete interfaces zerotier zt1")
        assert processes(router, 1) == {}
    assert [processes(r) for r in pair] == before


def test_a_commit_ends_when_its_devices_are_there(pair: list[Router]) -> None:
    """However slowly an engine starts: VyOS refuses ``protocols ospf interface zt1p1`` without the device, at boot too."""
    r1 = pair[0]
    program = r1.run(["sh", "-c", f"command -v {Path(ENGINE).name}"]).stdout.strip()
    slow = f"mv {program} {program}.quick; printf '#!/bin/sh\\nsleep 1\\nexec {program}.quick \"$@\"\\n' >{program}; chmod 755 {program}"
    r1.run(["sh", "-ec", slow])
    try:
        r1.must_configure(
            "set interfaces zerotier zt1 network-id 8056c2e21c000002\nset interfaces zerotier zt1 instances 2\n"
            "set interfaces zerotier zt1 controller-free\n"
        )
        r1.run(["test", "-e", "/sys/class/net/zt1p1", "-a", "-e", "/sys/class/net/zt1p2"])
    finally:
        r1.must_configure("delete interfaces zerotier zt1")
        r1.run(["mv", f"{program}.quick", program])


def test_deleting_the_bundle_leaves_only_the_identities(pair: list[Router]) -> None:
    r1 = pair[0]
    identities = r1.run(["sh", "-c", "cat /config/zerotier-multi/zt0/*/identity.public"]).stdout
    r1.must_configure("delete interfaces zerotier zt0")
    assert processes(r1) == {}
    links = [link["ifname"] for link in r1.json(["ip", "-j", "link"])]
    assert links == ["lo", "eth0"]
    assert r1.run(["sh", "-c", "ip nexthop | grep 'proto 122'"], check=False).stdout == ""
    assert r1.run(["sh", "-c", "ip route show proto 122; ip -6 route show proto 122"]).stdout == ""
    assert r1.run(["ip", "rule"]).stdout.count("\n") == 3
    assert r1.run(["sh", "-c", "ls /run/zerotier-multi/*.json /run/systemd/system/zerotier-multi@*"], check=False).stdout == ""
    told = [line for line in r1.read("/run/zerotier-multi/metrics.prom").splitlines() if "{" in line]
    assert 'zerotier_multi_bundle_configured{bundle="zt0"} 0' in told and all("_configured{" in line for line in told)
    units = r1.run(["systemctl", "list-units", "--all", "--plain", "--no-legend", "zerotier*.service"]).stdout
    assert "running" not in units and "failed" not in units
    for name in ("ipv4/fib_multipath_hash_policy", "ipv6/fib_multipath_hash_policy", "ipv4/fib_multipath_hash_seed"):
        assert r1.run(["cat", f"/proc/sys/net/{name}"], check=False).stdout.strip() in ("0", "")
    assert r1.run(["sh", "-c", "pgrep -l 'ztnode|zerotier' || true"]).stdout == ""
    assert r1.run(["sh", "-c", "cat /config/zerotier-multi/zt0/*/identity.public"]).stdout == identities


def test_a_hash_policy_that_somebody_sets_meanwhile_outlives_the_bundle(pair: list[Router]) -> None:
    r1, r2 = pair
    four, six = (f"/proc/sys/net/{family}/fib_multipath_hash_policy" for family in ("ipv4", "ipv6"))
    r1.must_configure(example(r1, [r2], 2))
    assert r1.read(four).strip() == r1.read(six).strip() == "1"
    r1.run(["sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=1"])
    memory = "/run/zerotier-multi/pathd/sysctls.json"
    r1.wait(lambda: "ipv4/fib_multipath_hash_policy" not in r1.read(memory), what="the daemon to hear of it")
    r1.must_configure("delete interfaces zerotier zt0")
    assert (r1.read(four).strip(), r1.read(six).strip()) == ("1", "0")
    r1.run(["sysctl", "-qw", "net.ipv4.fib_multipath_hash_policy=0"])
