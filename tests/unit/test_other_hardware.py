"""A configuration for other hardware, or a damaged disk: refused where somebody types it, carried out at boot as far as it goes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle, configured
from tests.unit.test_configured_identity import secret
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
    monkeypatch.setattr(facts, "address_is_valid", lambda *_given: True)
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


# -- homes on a damaged disk

NUMBERS = (1, 2, 3)
HOMES = "zt0 instances 3\nzt0 network-id 8056c2e21c000001\n"
FREE = "".join(f"zt0 {line}\n" for line in EXAMPLE.splitlines()) + (
    f"zt0 instances 3\nzt0 controller-free\nzt0 remote R2 instance 1 identity {secret(7)[:141]}\n"
    f"zt0 remote R2 instance 2 identity {secret(8)[:141]}\n"
)


class Box:
    """A router of which nothing but the disk is real."""

    def __init__(self, patch: pytest.MonkeyPatch, disk: Path) -> None:
        self.booting, self.started, self._disk = False, list[str](), disk
        patch.setattr(names, "UNIT_DROPIN_ROOT", disk.parent / "system")
        patch.setattr(systemd, "systemctl", self._systemctl)
        patch.setattr(commit, "ask", lambda _request: {})
        patch.setattr(commit, "_await_devices", lambda _instances: None)
        patch.setattr(commit, "generate_identities", self._identify)
        self.new: list[str] = []

    def _systemctl(self, verb: str, *words: str, **_options: bool) -> str:
        if verb == "start" and names.PATHD_UNIT not in words:
            self.started += words
        return ("starting" if self.booting else "running") if verb == "is-system-running" else ""

    def _identify(self, _engine: str, homes: list[Path]) -> None:
        for home in homes:
            self.new.append(home.name)
            identify(int(home.name))

    def commit(self, lines: str) -> tuple[str, ...]:
        """Its warnings."""
        self.started, self.new = [], []
        change = commit.check("zt0", configured(lines))
        commit.generate(change)
        commit.apply(change)
        return change.warnings

    def boot(self, lines: str) -> tuple[str, ...]:
        """With nothing in /run."""
        names.plan_file("zt0").unlink(missing_ok=True)
        self.booting = True
        try:
            return self.commit(lines)
        finally:
            self.booting = False

    def mount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(self._disk)], check=True)


def identify(number: int) -> None:
    file = names.home("zt0", number) / "identity.secret"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(secret(number))
    file.chmod(0o600)


@pytest.fixture
def disk(router: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Box]:
    """Its homes have a file system of their own, and identities."""
    place = tmp_path / "config"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    for number in NUMBERS:
        identify(number)
    try:
        yield Box(router, place)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def home_problems(lines: str) -> list[str]:
    """What a commit is refused for."""
    with pytest.raises(ConfigProblems) as refused:
        commit.check("zt0", configured(lines))
    return str(refused.value).splitlines()


@pytest.mark.parametrize("lines", [HOMES, FREE], ids=["controller", "controller-free"])
def test_a_read_only_disk_stops_no_instance_at_boot(disk: Box, lines: str) -> None:
    """Everything that it starts with stands there already."""
    disk.commit(lines)
    for number in NUMBERS:  # as the engine makes it
        (names.home("zt0", number) / "authtoken.secret").touch(0o600)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (names.home("zt0", 1) / f".local.conf.{gone.pid}").touch()
    disk.mount("ro")
    faults = tuple(
        f"{P} instance {k}: home {names.home('zt0', k)} is not writable (Read-only file system); "
        f"repair the file system of {names.home('zt0', k)}"
        for k in NUMBERS
    )
    assert tuple(home_problems(lines)) == faults
    assert disk.boot(lines)[:3] == faults and not disk.new
    assert disk.started == [names.unit_name("zt0", k) for k in NUMBERS]
    with pytest.raises(commit.CommitError, match=r"cannot be written \(Read-only file system\); free space or repair"):
        disk.boot(f"{lines}zt0 primary port 12000\n")


def test_an_instance_that_cannot_be_given_an_identity_is_off_at_boot(disk: Box) -> None:
    disk.commit(HOMES)
    (names.home("zt0", 2) / "identity.secret").unlink()
    disk.mount("ro")
    assert len(home_problems(HOMES)) == 3
    told = disk.boot(HOMES)
    assert sum("is not writable (Read-only file system)" in text for text in told) == 3
    assert disk.started == [names.unit_name("zt0", k) for k in (1, 3)]


def test_a_damaged_identity_takes_its_own_instance_out_at_boot(disk: Box) -> None:
    disk.commit(FREE)
    damaged = names.home("zt0", 2) / "identity.secret"
    os.truncate(damaged, 7)
    fault = (
        f"{P} instance 2: identity {damaged} is corrupt and was not changed; restore it from a backup, or move it aside to get a "
        f"new identity: mv {damaged} {damaged}.bad"
    )
    assert home_problems(FREE) == [fault]
    told = disk.boot(FREE)
    assert told[:2] == (
        fault,
        f"{P} runs without instance 2; when its home is repaired, reboot, or commit a change of zt0, such as its description",
    )
    assert disk.started == [names.unit_name("zt0", k) for k in (1, 3)] and not disk.new
    assert damaged.read_text() == secret(2)[:7]
    assert json.loads(names.plan_file("zt0").read_text())["left_out"] == [2], "show zerotier says it as long as it is so"
    assert home_problems(f"{FREE}zt0 description x\n") == [fault]
    identify(2)
    disk.commit(f"{FREE}zt0 description x\n")
    assert names.unit_name("zt0", 2) in disk.started
    assert json.loads(names.plan_file("zt0").read_text())["left_out"] == []


def test_a_bundle_without_a_sound_identity_is_refused_at_boot_too(disk: Box) -> None:
    disk.commit(HOMES)
    for number in NUMBERS:
        os.truncate(names.home("zt0", number) / "identity.secret", 0)
    with pytest.raises(ConfigProblems) as refused:
        disk.boot(HOMES)
    assert str(refused.value).count("is corrupt and was not changed") == 3
    assert not disk.started and not names.plan_file("zt0").exists()


def test_it_is_said_that_remotes_do_not_know_a_new_identity(disk: Box) -> None:
    """The configuration was restored, and the homes were not; a new bundle that knows its remote has lost nothing."""

    def lose(*numbers: int) -> None:
        for number in numbers:
            (names.home("zt0", number) / "identity.secret").unlink()

    def said(told: tuple[str, ...]) -> list[str]:
        return [text for text in told if "new identity" in text]

    lost = (
        f"{P} instance {{}} gets a new identity, which no remote knows; bring the earlier one back with 'import zerotier archive', or set "
        "the line of 'show zerotier zt0 invite' on R2"
    )
    lose(*NUMBERS)
    assert not said(disk.commit(FREE)) and disk.new == ["1", "2", "3"]
    assert not said(disk.boot(FREE))
    lose(1, 3)
    assert said(disk.commit(f"{FREE}zt0 description x\n")) == [lost.format(1)], "nobody knows the one of instance 3"
    lose(*NUMBERS)
    assert said(disk.boot(FREE)) == [lost.format("1-2")] and disk.new == ["1", "2", "3"]
    lose(1)
    assert not said(disk.boot(f"{FREE}zt0 instance 1 identity secret {secret(1)}\n"))


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
