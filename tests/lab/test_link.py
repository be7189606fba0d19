"""The main job: the example on two routers, and what stands on each of them."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.remote.__main__ import main
from bench.results import load
from lab import Lab, Router
from lab.scenario import iperf, loopback, main_pid, mbit, member_bytes, memory, paths_up, processes, reach, shares, status
from lab.process import wait
from tests.lab.conftest import ENGINE
from zerotier_multi.op.benchmark.text import text

BENCHMARK = 29993
MEASURE = "/usr/libexec/vyos/op_mode/zerotier_benchmark.py"
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


@pytest.mark.only_ztnode
def test_the_unit_lets_ztnode_have_its_scheduling_policy(pair: list[Router]) -> None:
    for router in pair:
        for pid in processes(router).values():
            policies = router.run(["chrt", "-a", "-p", str(pid)]).stdout
            assert policies.count("SCHED_BATCH") == 2, policies


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
            assert [router.read(f"{conf}/{n}").strip() for n in ("arp_ignore", "arp_announce")] == ["2", "2"]


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


# -- how fast it is


def _listens(router: Router) -> list[str]:
    """Addresses, with their devices, on which a run is received."""
    return [line.split()[3] for line in router.run(["ss", "-Hlnt", f"sport = :{BENCHMARK}"]).stdout.splitlines()]


@contextmanager
def _benchmark_server(router: Router) -> Iterator[None]:
    process = router.popen(["ztsh", "zerotier", "benchmark", "zt0", "server"])
    try:
        router.wait(lambda: len(_listens(router)) == 4, what="a listener on each transit address")
        yield
        process.wait(timeout=20)
    finally:
        process.kill()
        process.wait()


def test_a_benchmark_says_what_to_type_where_nobody_answers(pair: list[Router]) -> None:
    done = pair[0].run(["ztsh", "zerotier", "benchmark", "zt0", "remote", "R2"], check=False)
    assert done.returncode != 0
    assert done.stdout.strip() == (
        f"R2 does not answer on TCP port {BENCHMARK} of 10.14.0.2; type there: zerotier benchmark ztN server "
        f"(ztN is its name of this link), and run this again"
    )


def test_a_benchmark_measures_every_number_of_instances_and_leaves_no_listener(pair: list[Router]) -> None:
    r1, r2 = pair
    with _benchmark_server(r2):
        assert set(_listens(r2)) == {f"10.14.0.{4 * k + 2}%zt0p{k + 1}:{BENCHMARK}" for k in range(4)}
        # Who comes from outside reaches none of it, not even with a route to the address.
        r1.run(["ip", "route", "add", "10.14.0.2/32", "via", r2.underlay4, "table", "77"])
        r1.run(["ip", "rule", "add", "iif", "lo", "ipproto", "6", "dport", str(BENCHMARK), "to", "10.14.0.2", "lookup", "77"])
        probe = f"import socket; socket.create_connection(('10.14.0.2', {BENCHMARK}), 1, ('{r1.underlay4}', 0))"
        assert "ConnectionRefusedError" in r1.run(["/usr/bin/python3", "-c", probe], check=False).stderr
        r1.run(["ip", "rule", "del", "lookup", "77"])
        r1.run(["ip", "route", "flush", "table", "77"])
        found = r1.json([MEASURE, "--bundle", "zt0", "--remote", "R2", "--duration", "4", "--raw"], timeout=60)
    r2.wait(lambda: not _listens(r2), what="no listener after the run")
    assert [step["instances"] for step in found["steps"]] == [1, 2, 3, 4]
    for step in found["steps"]:
        assert step["received_mbit"] > 10 and 0 <= step["lost"] < 0.5
        for end in step["ends"]:
            assert end["cpu_seconds_per_gbit"] > 0 and len(end["cpus"]) >= 1
            assert all(one["cpu_percent"] > 0 for one in end["instances"])
    assert 1 <= found["instances"] <= 32 and found["sentences"] and found["remote"] == "R2"
    lines = [*found["commands"], *found["remote_commands"]]
    assert all(re.fullmatch(r"set interfaces zerotier zt0 (instances \d+|cpu affinity [\d,-]+)", line) for line in lines)
    told = text(found)
    assert re.search(r"^ +4 +\d+ +[\d.]+", told, re.MULTILINE) and told.startswith("zt0, R1 to R2, TCP\n")
    assert not found["commands"] or r1.configure("\n".join([*found["commands"], "discard"]), commit=False).ok


def test_names_of_remotes_are_completed(pair: list[Router]) -> None:
    assert pair[0].run(["/usr/libexec/vyos/completion/list_zerotier.sh", "--remotes", "zt0"]).stdout == "R2\n"


def test_two_boxes_are_measured_by_a_remote_shell(pair: list[Router], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As by ssh: a program takes the host and one command line."""
    script = tmp_path / "shell"
    entries = "".join(f"{r.name}) exec {shlex.join(r.command(['sh', '-c']))} \"$2\";;\n" for r in pair)
    script.write_text(f"#!/bin/sh\ncase $1 in\n{entries}esac\necho no host $1 >&2; exit 255\n")
    script.chmod(0o755)
    words = ["R1", "R2", "--shell", str(script), "--directory", str(tmp_path), "--name", "a", "--quick", "--seconds", "1"]
    assert main([*words, "--scenarios", "throughput,stalls"]) == 0
    run = load(tmp_path / "a")
    assert run.machine.cores >= 1 and run.versions["far box"] and run.versions["iperf3"]
    rows = {name: scenario.rows for name in ("throughput", "stalls") if (scenario := run.scenario(name))}
    ours = [
        row for row in rows["throughput"] if row.subject == f"{Path(ENGINE).name} x 4" and row.parameters.get("traffic") == "tcp-16"
    ]
    figures = {row.metric: row.samples[0] for row in ours}
    assert figures["throughput"] > 10 and 0.01 < figures["cpu per Gbit of the processes"] < figures["cpu per Gbit"]
    why = {row.subject: row.unavailable or "" for row in rows["throughput"] if not row.samples}
    assert "--raw-link" in why["raw link"] and "no other kind" in why["wireguard-go"]
    assert all(row.unavailable and "routers in use are spared" in row.unavailable for row in rows["stalls"])
    for router in pair:
        router.wait(lambda r=router: ":52" not in r.run(["ss", "-Hlnt"]).stdout, what="no server of iperf3")
    assert main(["R3", "R2", "--shell", str(script), "--directory", str(tmp_path)]) == 1
    assert "R3 is not reached: no host R3" in capsys.readouterr().err


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


def test_a_configuration_for_more_cpus_boots_and_says_so(pair: list[Router]) -> None:
    """As of a backup on a smaller router, or after a firmware update that switched cores off."""
    r1, r2 = pair
    r1.must_configure("set interfaces zerotier zt0 cpu affinity 0-1", save=True)
    r1.run(["sed", "-i", "s/affinity \"0-1\"/affinity \"1,98-99\"/", "/config/config.boot"])
    r1.reboot()
    r1.wait(lambda: paths_up(r1) == 4, what="4 paths up after the reboot")
    reach(r1, loopback(r1), loopback(r2))
    fault = "interfaces zerotier zt0 cpu affinity 1,98-99: this router has no CPU 98-99; its CPUs are"
    assert "98-99; its CPUs are 0" in r1.journal("ztsh-boot.service")  # its lines are wrapped
    for pid in processes(r1).values():
        assert "Cpus_allowed_list:\t1\n" in r1.read(f"/proc/{pid}/status")
    refused = r1.configure("set interfaces zerotier zt0 description 'moved'")
    assert not refused.ok and fault in " ".join(refused.output.split())
    assert paths_up(r1) == 4
    r1.must_configure("delete interfaces zerotier zt0 cpu affinity\nset interfaces zerotier zt0 description 'moved'", save=True)
