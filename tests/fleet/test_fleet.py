"""The Ansible role with routers of the lab as its hosts: a full mesh of ``SITES`` sites (make test-fleet)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, Router
from lab.scenario import loopback, reach, wait_paths
from tests.lab.conftest import ROOT, new_lab

SITES, INSTANCES = int(os.environ["SITES"]), 1
ZT = "interfaces zerotier zt0"
ANSIBLE = ROOT / "build/ansible"
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


def site(router: Router) -> dict[str, Any]:
    """A site as sites.yml has it."""
    return {
        "name": router.name,
        "number": router.number,
        "underlay": [router.underlay4, router.underlay6],
        "addresses": [f"{loopback(router)}/32"],
    }


class Fleet:
    """The routers, their sites.yml and inventory."""

    def __init__(self, lab: Lab, routers: list[Router], directory: Path) -> None:
        self.lab, self.routers, self._directory = lab, routers, directory
        self.sites = [site(router) for router in routers]
        self.common: dict[str, Any] = {"network_id": "8056c2e21c000001", "instances": INSTANCES, "transit": ["10.14.0.0/24"]}

    def play(self, *options: str, without: str = "") -> tuple[dict[str, int], str]:
        """Run the playbook; returns how many tasks changed something on each host, and all that was printed."""
        hosts = {r.name: {"lab_command": r.command([]) if r.name != without else ["false"]} for r in self.routers}
        inventory = {
            "all": {"hosts": hosts, "vars": {"ansible_connection": "lab", "ansible_python_interpreter": "/usr/bin/python3"}}
        }
        (self._directory / "inventory.json").write_text(json.dumps(inventory))
        sites = {"zerotier_multi_fleet": {**self.common, "sites": self.sites}}
        (self._directory / "sites.yml").write_text(json.dumps(sites))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ANSIBLE),
            "ANSIBLE_CONFIG": str(ROOT / "ansible/ansible.cfg"),
            "ANSIBLE_CONNECTION_PLUGINS": str(ROOT / "tests/fleet/connection_plugins"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "tests/fleet/collections"),
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_HOME": str(self._directory),
            "ANSIBLE_NOCOLOR": "1",
        }
        done = subprocess.run(
            [
                sys.executable, str(ANSIBLE / "bin/ansible-playbook"), "--inventory", str(self._directory / "inventory.json"),
                "--extra-vars", f"sites={self._directory}/sites.yml", *options, str(ROOT / "ansible/fleet.yml"),
            ],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        printed = done.stdout + done.stderr
        found = RECAP.findall(printed)
        assert found, printed
        failed = {name for name, _changed, unreachable, failed in found if int(unreachable) or int(failed)}
        assert failed == ({without} if without else set()), printed
        return {name: int(changed) for name, changed, _unreachable, _failed in found if name != without}, printed

    def state(self) -> list[str]:
        """The running and the saved configuration of each router."""
        return [r.read("/run/ztsh/active.boot") + r.read("/config/config.boot") for r in self.routers]

    def revisions(self) -> list[int]:
        """How many commits each router has seen."""
        return [len(r.run(["ls", "/config/archive"]).stdout.split()) for r in self.routers]

    def whole(self) -> None:
        """Wait until every site reaches every other one."""
        wait_paths(self.routers, self.common["instances"] * (len(self.routers) - 1), timeout=60)
        for router in self.routers:
            for other in self.routers:
                if other is not router:
                    reach(router, loopback(router), loopback(other))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with new_lab() as lab:
        routers = lab.add_routers([f"R{n}" for n in range(1, SITES + 1)])
        yield Fleet(lab, routers, tmp_path_factory.mktemp("fleet"))


def test_check_on_empty_routers_changes_nothing(fleet: Fleet) -> None:
    changed, printed = fleet.play("--check", "--diff")
    assert set(changed.values()) == {2}
    assert "set interfaces zerotier zt0 transit site '1'" in printed
    assert all("zerotier" not in router.run(["ztsh", "config", "commands"]).stdout for router in fleet.routers)


def test_one_run_joins_all_sites(fleet: Fleet) -> None:
    changed, _printed = fleet.play()
    assert set(changed.values()) == {2}, "one commit makes the identities, one makes the others known"
    fleet.whole()


def test_a_second_run_changes_nothing(fleet: Fleet) -> None:
    before, commits = fleet.state(), fleet.revisions()
    assert set(fleet.play()[0].values()) == {0}
    assert set(fleet.play("--check", "--diff")[0].values()) == {0}
    assert (fleet.state(), fleet.revisions()) == (before, commits)


def test_a_renumbered_site_is_reached_again_and_nobody_touches_a_configuration(fleet: Fleet) -> None:
    before = fleet.state()
    moved = fleet.routers[0]
    fleet.lab.underlay.renumber(moved, 4, "198.51.100.201")
    fleet.lab.underlay.renumber(moved, 6, "2001:db8:0:1::201")
    fleet.whole()
    assert set(fleet.play()[0].values()) == {0}
    assert fleet.state() == before


def test_a_site_that_cannot_be_reached_keeps_its_paths(fleet: Fleet) -> None:
    before = fleet.state()
    assert set(fleet.play(without=fleet.routers[-1].name)[0].values()) == {0}
    assert fleet.state() == before


def test_a_change_is_shown_by_check_and_made_by_the_next_run(fleet: Fleet) -> None:
    before = fleet.state()
    fleet.sites[1]["prefixes"] = ["192.168.2.0/24"]
    line = "set interfaces zerotier zt0 remote R2 prefix '192.168.2.0/24'"
    changed, printed = fleet.play("--check", "--diff")
    assert changed == {r.name: int(r.name != "R2") for r in fleet.routers} and printed.count(line) == SITES - 1
    assert fleet.state() == before
    assert fleet.play()[0] == changed
    assert line in fleet.routers[0].run(["ztsh", "config", "commands"]).stdout
    assert set(fleet.play()[0].values()) == {0}


def test_a_site_that_is_taken_out_is_forgotten_and_what_others_have_set_by_hand_too(fleet: Fleet) -> None:
    gone, other = fleet.routers.pop(), "interfaces zerotier zt7"
    fleet.sites.pop()
    fleet.routers[0].must_configure(
        f"set {ZT} description 'by hand'\nset {other} disable\nset {other} network-id 8056c2e21c000007", save=True
    )
    assert set(fleet.play()[0].values()) == {1}
    for router in fleet.routers:
        shown = router.run(["ztsh", "config", "commands"]).stdout
        assert gone.name not in shown and "by hand" not in shown
    assert "zt7" in fleet.routers[0].run(["ztsh", "config", "commands"]).stdout, "another bundle is not the fleet's"
    assert set(fleet.play()[0].values()) == {0}


def test_the_lines_for_vyos_say_the_same_as_the_file_for_ztsh(fleet: Fleet) -> None:
    """The tasks for VyOS, with stand-ins for its two modules (tests/fleet/collections) that ztsh carries out."""
    vyos = ("--extra-vars", "zerotier_multi_edition=vyos")
    assert set(fleet.play(*vyos)[0].values()) == {0}
    fleet.sites[1]["prefixes"] = ["192.168.22.0/24"]
    before = fleet.state()
    expected = {r.name: int(r.name != "R2") for r in fleet.routers}
    assert fleet.play(*vyos, "--check", "--diff")[0] == expected
    assert fleet.state() == before
    assert fleet.play(*vyos)[0] == expected
    assert set(fleet.play(*vyos)[0].values()) == set(fleet.play()[0].values()) == {0}
    fresh = fleet.routers[0]
    fresh.must_configure("delete interfaces zerotier zt0", save=True)
    assert fleet.play(*vyos)[0][fresh.name] == 2, "one commit has its identities used again, one makes the others known"
    fleet.whole()


@pytest.mark.parametrize(("edition", "instances", "transit"), [("debian", 2, "10.15.0.0/24"), ("vyos", 3, "10.16.0.0/24")])
def test_more_instances_come_with_another_transit(fleet: Fleet, edition: str, instances: int, transit: str) -> None:
    fleet.common.update(instances=instances, transit=[transit])
    options = ("--extra-vars", f"zerotier_multi_edition={edition}")
    assert set(fleet.play(*options)[0].values()) == {2}, "one commit makes the identities, one makes the others known"
    fleet.whole()
    assert set(fleet.play(*options)[0].values()) == {0}


@pytest.mark.parametrize("edition", ["debian", "vyos"])
def test_nothing_is_printed_of_the_configuration_that_is_read(fleet: Fleet, edition: str) -> None:
    lines = ("network-id 8056c2e21c000007", "controller type zerotier-one", "controller api-key a-key-of-another")
    fleet.routers[0].must_configure("".join(f"set interfaces zerotier zt7 {line}\n" for line in ("disable", *lines)), save=True)
    changed, printed = fleet.play("-vvv", "--extra-vars", f"zerotier_multi_edition={edition}")
    assert set(changed.values()) == {0} and "a-key-of-another" not in printed


def test_what_is_wrong_in_sites_yml_is_said_before_anything_changes(fleet: Fleet) -> None:
    before = fleet.state()
    fleet.sites[0]["number"] = 2
    with pytest.raises(AssertionError, match="the number 2 is that of two sites; give each site its own"):
        fleet.play()
    fleet.sites[0]["number"] = 1
    assert fleet.state() == before
