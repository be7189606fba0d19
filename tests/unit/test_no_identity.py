"""A remote whose identities are not configured yet: in the plan, in what op mode shows and in the metrics."""

from __future__ import annotations

import json
import re
from unittest.mock import MagicMock

from tests.configuration import EXAMPLE, bundle
from tests.unit.op_box import NOW, PEERS, box, pathd
from zerotier_multi.cpu import Cpu
from zerotier_multi.op import data, text
from zerotier_multi.op.networks import is_plain_member
from zerotier_multi.op.remotes import remotes_data, remotes_text
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.pathd.status import Look, Status
from zerotier_multi.pathd.tell.metrics import render
from zerotier_multi.plan import Plan, RemotePlan, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.states import PathState

THREE = EXAMPLE.replace("/28", "/26") + "controller-free\ntransit subnet-length 28\nremote R2 site 2\nremote R3 site 3\n"
KNOWN = THREE + "".join(f"remote R2 instance {p.instance} identity {p.identity}\n" for p in PEERS)
SENTENCE = "zt0 has no path to R3: no identity of it is configured for an instance that runs here; get its lines there with: show zerotier ztN identity"


def plan_of(lines: str) -> Plan:
    return make_plan(bundle(lines), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode")


def status_of(plan: Plan) -> dict:
    """What the daemon says while all paths are up."""
    parts = dict.fromkeys(Status.__dataclass_fields__, MagicMock())
    parts["prober"] = MagicMock(**{"measures.return_value": (None, None), "wait.return_value": 0.0, "passes.return_value": None})
    parts["plans"] = MagicMock(configured={plan.bundle: True})
    parts["chronicle"] = MagicMock(**{"changes.return_value": 0, "falls.return_value": 0, "cause.return_value": None})
    weights = MagicMock(**{"use.return_value": None, "of.return_value": None})
    look = Look([plan], states=dict.fromkeys((p.nexthop_id for p in plan.paths), PathState.UP))
    status: dict = Status(**{**parts, "weights": weights, "started": MagicMock(**{"unix.return_value": 1})}).of(look)
    return status


def test_the_plan_names_it_and_one_of_an_earlier_version_does_not() -> None:
    plan = plan_of(KNOWN + "remote R3 prefix 192.168.3.0/24")
    assert plan.without_identity == (RemotePlan("R3", ("192.168.3.0/24",)),) and from_json(to_json(plan)) == plan
    assert {path.remote for path in plan.paths} == {"R2"} == {group.remote for group in plan.groups}
    earlier = json.loads(to_json(plan))
    del earlier["without_identity"]
    assert from_json(json.dumps(earlier)).without_identity == ()


def test_with_an_identity_a_controller_or_when_disabled_there_is_none() -> None:
    assert plan_of(KNOWN + f"remote R3 instance 2 identity 00000000c2:0:{'ab' * 64}").without_identity == ()
    assert plan_of(THREE.replace("controller-free\n", "")).without_identity == ()
    assert plan_of(KNOWN + "remote R3 disable").without_identity == () == plan_of(KNOWN + "disable").without_identity


def test_it_is_listed_among_the_remotes() -> None:
    plan = plan_of(KNOWN + "remote R3 prefix 192.168.3.0/24")
    found = remotes_data(plan)["remotes"]
    assert found[1] == {"name": "R3", "prefixes": ["192.168.3.0/24"], "instances": []} and len(found[0]["instances"]) == 4
    assert remotes_text(remotes_data(plan)).split("\n\n")[1] == "Remote R3: 192.168.3.0/24\nNo identity yet."


def test_a_bundle_with_one_is_degraded_and_says_why() -> None:
    for lines, state in (("remote R3 prefix 192.168.3.0/24", "degraded"), ("", "up")):
        plan = plan_of(KNOWN + lines)
        for told in (pathd(plan), None):
            found = data.bundle(box(plan, pathd=told), plan)
            assert (found["state"], found["paths_up"], found["paths_total"]) == (state, 4, 4)
            assert [w for w in found["warnings"] if "R3" in w or "192.168.3" in w] == [SENTENCE]
            assert found["remotes"][1] == {
                "remote": "R3", "prefixes": ["192.168.3.0/24"] if lines else [], "paths_up": 0, "paths_total": 0,
            }  # fmt: skip
            assert re.search(r"^R3 +0/0  ", text.bundle(found, False), re.MULTILINE)


def test_the_daemon_says_the_same_once() -> None:
    plan = plan_of(KNOWN + "remote R3 prefix 192.168.3.0/24")
    status = status_of(plan)
    told = status["bundles"]["zt0"]
    assert told["state"] == "degraded"
    assert told["unrouted"] == [
        {"prefix": "192.168.3.0/24", "why": "no identity of R3 is configured for an instance that runs here"}
    ]
    assert 'zerotier_multi_bundle_prefixes_unrouted{bundle="zt0"} 1\n' in render(status, {})
    found = data.bundle(box(plan, pathd={**pathd(plan), "bundles": {"zt0": {**pathd(plan)["bundles"]["zt0"], **told}}}), plan)
    assert found["state"] == "degraded" and [w for w in found["warnings"] if "R3" in w] == [SENTENCE]
    assert status_of(plan_of(KNOWN))["bundles"]["zt0"]["state"] == "up"


def test_where_no_remote_has_one_the_bundle_has_no_path_and_says_it_once() -> None:
    plan = plan_of(THREE + "network 8056c2e21c000001 address 10.20.0.1/24")
    assert [remote.name for remote in plan.without_identity] == ["R2", "R3"] and not is_plain_member(plan)
    found = data.bundle_entry(Snapshot(NOW, plans=(plan,), pathd=pathd(plan)), plan)
    assert found["state"] == "down"
    assert [w for w in found["warnings"] if "no path" in w] == [
        "zt0 has no path: no identity of another router is configured; get its lines there with: show zerotier ztN identity"
    ]
