"""Instances without their network: which these are, and what is written before they are started again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.test_home import FREE
from zerotier_multi.cpu import Cpu
from zerotier_multi.homefiles import network_marker
from zerotier_multi.homes import make_home
from zerotier_multi.pathd.instances.healing import cause, heal, missing
from zerotier_multi.plan import InstancePlan, Plan
from zerotier_multi.planner import make_plan

ENGINES = ("/usr/sbin/ztnode", "/usr/sbin/zerotier-one")


def made(text: str, engine: str, where: Path) -> Plan:
    plan = make_plan(bundle(text), (Cpu(0, 0),), engine)
    plan = replace(plan, instances=tuple(replace(i, home=str(where / str(i.number))) for i in plan.instances))
    for instance in plan.instances:
        make_home(Path(instance.home))
        secret = f"00000000a{instance.number}:0:" + "ab" * 64 + ":" + "cd" * 64
        (Path(instance.home) / "identity.secret").write_text(secret)
        heal(plan, instance)
    return plan


def by_device(plan: Plan) -> dict[str, tuple[Plan, InstancePlan]]:
    return {instance.device: (plan, instance) for instance in plan.instances}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("text", [EXAMPLE, FREE], ids=["controller", "controller-free"])
def test_a_marker_that_is_gone_is_written_again_and_told(text: str, engine: str, tmp_path: Path) -> None:
    plan = made(text, engine, tmp_path)
    first, second = plan.instances[:2]
    marker = Path(first.home) / network_marker(first)
    content = marker.read_bytes()
    assert heal(plan, first) == () and cause(first, ()) == "its device zt0p1 is missing"
    for path in marker.parent.iterdir():
        path.unlink()
    written = heal(plan, first)
    assert marker.read_bytes() == content and network_marker(first) in written
    assert cause(first, written) == f"it is not on its network: {network_marker(first)} in its home did not match the plan"
    (Path(second.home) / "devicemap").write_text("")
    assert cause(second, heal(plan, second)) == "its device zt0p2 is missing, and devicemap in its home did not match the plan"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_without_the_plans_configuration_is_as_good_as_missing(engine: str, tmp_path: Path) -> None:
    plan = made(FREE, engine, tmp_path)
    instances, first = by_device(plan), plan.instances[0]
    up = [path.nexthop_id for path in plan.paths]
    assert missing(instances, instances, up) == missing(instances, instances, []) == set()
    assert missing(instances, set(instances) - {"zt0p2"}, []) == {"zt0p2"}
    marker = Path(first.home) / network_marker(first)
    content = marker.read_bytes()
    marker.write_bytes(b"\n")  # the network was left and joined by hand
    assert missing(instances, instances, []) == {"zt0p1"}
    assert missing(instances, instances, up) == set()  # it carries: a restart would help nobody
    marker.unlink()
    assert missing(instances, instances, []) == {"zt0p1"}
    assert heal(plan, first) == (network_marker(first),) and marker.read_bytes() == content
    assert missing(instances, instances, []) == set()


def test_on_a_controllers_network_the_marker_is_the_controllers(tmp_path: Path) -> None:
    plan = made(EXAMPLE, ENGINES[0], tmp_path)
    first = plan.instances[0]
    (Path(first.home) / network_marker(first)).write_bytes(b"nwid=8056c2e21c000001\n")
    assert missing(by_device(plan), by_device(plan), []) == set() and heal(plan, first) == ()


def test_a_home_that_cannot_be_read_is_told_and_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = made(FREE, ENGINES[0], tmp_path)
    first = plan.instances[0]
    (Path(first.home) / "identity.secret").unlink()
    assert heal(plan, first) == () and "the home of zt0/1 cannot be repaired" in caplog.text
    assert missing(by_device(plan), by_device(plan), []) == set()


def test_a_look_at_the_marker_makes_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken at every look of the daemon while no path is up."""
    plan = made(FREE, ENGINES[0], tmp_path)
    monkeypatch.setattr("zerotier_multi.hosts.home_files", None)
    monkeypatch.setattr("zerotier_multi.homefiles.make_planet", None)
    assert missing(by_device(plan), by_device(plan), []) == set()
