"""Both engines on one router: which `auto` takes, what `show` says, and a change from one to the other under traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.flows import Flows
from lab.scenario import connect, processes, show_identity, wait_paths
from tests.lab.conftest import packages, programs

pytestmark = pytest.mark.both_engines

ZT = "set interfaces zerotier zt0"
INSTANCES = 2


@pytest.fixture(scope="module")
def both() -> Iterator[list[Router]]:
    """Two routers with both engines, on zerotier-one as its users configure it."""
    with Lab(packages(), programs=programs("zerotier-one")) as lab:
        routers = lab.add_routers(["R1", "R2"])
        connect(routers, INSTANCES, engine="zerotier-one")
        yield routers


def engines(router: Router) -> list[str]:
    return [Path(router.run(["readlink", f"/proc/{pid}/exe"]).stdout.strip()).name for _k, pid in sorted(processes(router).items())]


def runs(router: Router, engine: str) -> None:
    """Wait until all instances run this program: a commit does not wait for the last one."""
    router.wait(lambda: engines(router) == [engine] * INSTANCES, what=f"{INSTANCES} instances of {engine}")


def shown(router: Router) -> str:
    text = router.run(["ztsh", "show", "zerotier", "zt0"]).stdout
    (engine,) = re.findall(r"^ *Engine:? +(.*?) *$", text, re.MULTILINE)
    return str(engine)


def test_auto_takes_ztnode_one_instance_after_the_other(both: list[Router]) -> None:
    r1, r2 = both
    assert engines(r1) == ["zerotier-one"] * INSTANCES and shown(r1) == "zerotier-one"
    before, identity = processes(r1), show_identity(r1, INSTANCES)
    flows = Flows(r2, r1, 8)
    r1.must_configure(f"{ZT} engine auto")
    runs(r1, "ztnode")
    assert not set(before.values()) & set(processes(r1).values())
    wait_paths(both, INSTANCES)
    seen = flows.end()
    assert all(flow.sent > 100 for flow in seen) and sum(flow.lost for flow in seen) <= 2, [flow.lost for flow in seen]
    assert shown(r1) == "ztnode (auto)" and shown(r2) == "zerotier-one"
    assert show_identity(r1, INSTANCES) == identity


def test_what_only_the_other_has_is_taken_from_it_or_refused(both: list[Router]) -> None:
    router = both[0]
    many = "".join(f"{ZT} instance 2 listen-address 198.18.0.{n}\n" for n in range(1, 33))
    router.must_configure(f"{ZT} instance 2 listen-address {router.underlay4}\n{many}")
    runs(router, "zerotier-one")
    assert shown(router) == "zerotier-one (auto: instance 2 listen-address needs it)"
    refused = router.configure(f"{ZT} engine ztnode")
    assert not refused.ok and (
        "instance 2 listen-address needs zerotier-one, because ztnode binds at most 32 addresses; set engine auto" in refused.output
    )
    runs(router, "zerotier-one")
    router.must_configure("delete interfaces zerotier zt0 instance 2 listen-address")
    wait_paths(both, INSTANCES)
    runs(router, "ztnode")
    assert shown(router) == "ztnode (auto)"


def test_without_ztnode_auto_says_so(both: list[Router]) -> None:
    router = both[1]
    router.run(["chmod", "-x", "/usr/sbin/ztnode"])
    router.must_configure(f"{ZT} engine auto")
    runs(router, "zerotier-one")
    assert shown(router) == "zerotier-one (auto: ztnode is not installed)"
    refused = router.configure(f"{ZT} engine ztnode")
    assert not refused.ok and "engine ztnode: ztnode is not installed (zerotier-one found)" in refused.output
