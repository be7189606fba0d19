"""A configuration for other hardware: refused where somebody types it, carried out at boot as far as it goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from zerotier_multi import box, commit, facts, names, systemd
from zerotier_multi.box_checks import BoxFacts, check_on_box, on_these_cpus, tolerable
from zerotier_multi.cpu import Cpu
from zerotier_multi.errors import ConfigProblems

TOPOLOGY = tuple(Cpu(n, n) for n in range(4))
P = "interfaces zerotier zt0"
CPUS = "this router has no CPU 4-7; its CPUs are 0-3"


@pytest.mark.parametrize(("affinity", "second", "wanted"), [
    ("auto", "2,6", ("auto", (2,))),
    ("2-5", "6", ((2, 3), None)),
    ("4-7", "0", ("auto", (0,))),
    ("1-2", "0-1", ((1, 2), (0, 1))),
])  # fmt: skip
def test_cpus_that_are_left(affinity: str, second: str, wanted: tuple[object, object]) -> None:
    given = bundle(f"{EXAMPLE}cpu affinity {affinity}\ninstance 2 cpu {second}\n")
    left = on_these_cpus(given, BoxFacts(TOPOLOGY, {}))
    assert (left.affinity, left.override(2).cpus) == wanted
    assert on_these_cpus(given, BoxFacts((), {}, isolated=tuple(range(8)))) == given


def test_what_is_no_matter_of_hardware_is_refused_at_boot_too() -> None:
    given = bundle(f"{EXAMPLE}vrf red\ncpu affinity 4-7\n")
    facts = BoxFacts(TOPOLOGY, {"ztnode": "x"}, has_tun=False)
    (problem,) = [p for p in check_on_box(given, facts) if p not in tolerable(given, facts)]
    assert "/dev/net/tun is missing" in str(problem)


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """One with four CPUs, an address on eth1 and no VRF."""
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "config")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(box, "own_topology", lambda: TOPOLOGY)
    monkeypatch.setattr(box, "isolated_cpus", tuple)
    monkeypatch.setattr(box, "find_engines", lambda: {"ztnode": "/usr/sbin/ztnode"})
    monkeypatch.setattr(box, "has_tun", lambda: True)
    monkeypatch.setattr(box, "taken_ports", lambda _ports: {})
    monkeypatch.setattr(systemd, "running_ports", set)
    for module, name in ((facts, "_vrfs"), (facts, "_foreign_nexthops"), (commit, "device_addresses")):
        monkeypatch.setattr(module, name, dict)
    monkeypatch.setattr(facts, "device_addresses", lambda: {"eth0": ("203.0.113.1",), "eth1": ("203.0.113.9",)})
    monkeypatch.setattr(commit, "read_hosts", dict)
    return monkeypatch


LINES = """instances 2
network-id 8056c2e21c000001
cpu affinity 4-7
vrf red
instance 2 source-interface eth0
instance 2 listen-address 203.0.113.9
"""
FAULTS = (
    f"{P} cpu affinity 4-7: {CPUS}",
    f"{P} instance 2 listen-address 203.0.113.9 is an address of eth1, not of source-interface eth0; delete one of them",
    f"{P} vrf red does not exist; create it first, on VyOS by set vrf name red",
)


def test_a_boot_says_what_does_not_fit_and_goes_on(router: pytest.MonkeyPatch) -> None:
    lines = configured("".join(f"zt0 {line}\n" for line in LINES.splitlines()))
    states = {"is-system-running": "running\n", "show": "dead\n"}
    router.setattr(systemd, "systemctl", lambda verb, *_words, **_options: states[verb])
    with pytest.raises(ConfigProblems) as refused:
        commit.check("zt0", lines)
    assert all(fault in str(refused.value) for fault in FAULTS)
    router.setattr(commit.syslog, "syslog", lambda *_words: None)
    for system, vyos in (("starting", "dead"), ("initializing", "dead"), ("running", "running")):
        states |= {"is-system-running": f"{system}\n", "show": f"{vyos}\n"}
        change = commit.check("zt0", lines)
        assert change.warnings[:3] == FAULTS
        assert change.plan and change.plan.vrf == "red" and len(change.plan.instances) == 2
        assert {cpu for instance in change.plan.instances for cpu in instance.cpus} <= {0, 1, 2, 3}


def test_cpus_are_those_of_services_and_not_of_who_commits(tmp_path: Path) -> None:
    """A user may have been given fewer, as by ``AllowedCPUs=`` of user.slice or taskset."""
    before = os.sched_getaffinity(0)
    everywhere = [cpu.number for cpu in box.own_topology()]
    try:
        os.sched_setaffinity(0, {min(before)})
        assert [cpu.number for cpu in box.own_topology()] == everywhere
        (tmp_path / "cpuset.cpus.effective").write_text(f"{everywhere[-1]},4000\n")
        assert [cpu.number for cpu in box.own_topology(tmp_path)] == everywhere[-1:]
    finally:
        os.sched_setaffinity(0, before)
