"""``zerotier benchmark`` between two routers: what it says, and that nothing goes on listening."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from lab import Router

PORT = 29993
SCRIPT = "/usr/libexec/vyos/op_mode/zerotier_benchmark.py"


def _listens(router: Router) -> list[str]:
    """Addresses, with their devices, on which a run is received."""
    return [line.split()[3] for line in router.run(["ss", "-Hlnt", f"sport = :{PORT}"]).stdout.splitlines()]


@contextmanager
def _server(router: Router) -> Iterator[None]:
    process = router.popen(["ztsh", "zerotier", "benchmark", "zt0", "server"])
    try:
        router.wait(lambda: len(_listens(router)) == 4, what="a listener on each transit address")
        yield
        process.wait(timeout=20)
    finally:
        process.kill()
        process.wait()


def test_it_says_what_to_type_where_nobody_answers(pair: list[Router]) -> None:
    done = pair[0].run(["ztsh", "zerotier", "benchmark", "zt0", "remote", "R2"], check=False)
    assert done.returncode != 0
    assert done.stdout.strip() == (
        f"R2 does not answer on TCP port {PORT} of 10.14.0.2; type there: zerotier benchmark ztN server "
        f"(ztN is its name of this link), and run this again"
    )


def test_a_run_measures_every_number_of_instances_and_leaves_no_listener(pair: list[Router]) -> None:
    r1, r2 = pair
    with _server(r2):
        assert set(_listens(r2)) == {f"10.14.0.{4 * k + 2}%zt0p{k + 1}:{PORT}" for k in range(4)}
        # Who comes from outside reaches none of it, not even with a route to the address.
        r1.run(["ip", "route", "add", "10.14.0.2/32", "via", r2.underlay4, "table", "77"])
        r1.run(["ip", "rule", "add", "iif", "lo", "ipproto", "6", "dport", str(PORT), "to", "10.14.0.2", "lookup", "77"])
        probe = f"import socket; socket.create_connection(('10.14.0.2', {PORT}), 1, ('{r1.underlay4}', 0))"
        assert "ConnectionRefusedError" in r1.run(["/usr/bin/python3", "-c", probe], check=False).stderr
        r1.run(["ip", "rule", "del", "lookup", "77"])
        r1.run(["ip", "route", "flush", "table", "77"])
        found = r1.json([SCRIPT, "--bundle", "zt0", "--remote", "R2", "--duration", "4", "--raw"], timeout=60)
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
    json.dumps(found)


def test_the_lines_are_taken_by_a_commit_and_a_person_reads_a_table(pair: list[Router]) -> None:
    r1, r2 = pair
    with _server(r2):
        told = r1.run(["ztsh", "zerotier", "benchmark", "zt0", "remote", "R2", "duration", "3"], timeout=60).stdout
    assert re.search(r"^ +4 +\d+ +[\d.]+", told, re.MULTILINE) and told.startswith("zt0, R1 to R2, TCP\n")
    own = re.search(r"^At R1:\n((?:set .*\n)+)", told, re.MULTILINE)
    if own:
        assert r1.configure(own[1], commit=False).ok


def test_names_of_remotes_are_completed(pair: list[Router]) -> None:
    assert pair[0].run(["/usr/libexec/vyos/completion/list_zerotier.sh", "--remotes", "zt0"]).stdout == "R2\n"
