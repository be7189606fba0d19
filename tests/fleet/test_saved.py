"""The role's tasks for VyOS leave nothing unsaved, also where a run has ended in between; ztsh in a directory stands for VyOS."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.configuration import ROOT

ANSIBLE = ROOT / "build/ansible"
# What has VyOS's name or its place is answered here, and the rest is ztsh's.
PROGRAM = """#!/bin/sh
case "$1 $2" in
    "-c show zerotier") exit ;;
    "-c show configuration commands") set -- config commands ;;
    "-c cat /config/"*) exec sh -c "cat $ZTSH_CONFIG/config.boot | ztsh filter commands" ;;
    "-c sudo "*) echo '{"instances": []}'; exit ;;
esac
exec /usr/bin/python3 -c "import sys; from ztsh.__main__ import main; sys.exit(main())" "$@"
"""
SCRIPT = "def get_config(config=None): pass\nverify = generate = apply = lambda got: None\n"
FLEET = {
    "network_id": "8056c2e21c000001",
    "transit": ["10.14.0.0/24"],
    "sites": [{"name": "R1", "number": 1, "addresses": ["10.0.55.1/32"]}],
}


@dataclass(frozen=True)
class Site:
    """A router in a directory."""

    directory: Path

    @property
    def environment(self) -> dict[str, str]:
        """Where ztsh finds its files, and Ansible its own."""
        return {
            **os.environ,
            "ZTSH_DEFINITIONS": str(ROOT / "interface-definitions"),
            "ZTSH_CONF_SCRIPTS": str(self.directory),
            "ZTSH_CONFIG": str(self.directory / "config"),
            "ZTSH_RUN": str(self.directory / "run"),
            "PATH": f"{self.directory}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, [ANSIBLE, ROOT / "python", ROOT / "packages/ztsh"])),
            "ANSIBLE_CONFIG": str(ROOT / "ansible/ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "tests/fleet/collections"),
            "ANSIBLE_HOME": str(self.directory),
            "ANSIBLE_NOCOLOR": "1",
        }

    def script(self, *lines: str) -> str:
        """What conf mode answers."""
        text = "".join(f"{line}\n" for line in lines)
        command = [str(self.directory / "ztsh"), "script", "-"]
        return subprocess.run(command, env=self.environment, input=text, capture_output=True, text=True, check=True).stdout

    @property
    def is_saved(self) -> bool:
        """Whether what runs is saved."""
        return self.script("compare saved").startswith("No changes")

    def play(self, *options: str) -> int:
        """Run the playbook; how many tasks have changed something."""
        variables = {"sites": str(self.directory / "sites.yml"), "zerotier_multi_edition": "vyos"}
        command = [
            sys.executable, str(ANSIBLE / "bin/ansible-playbook"), "--inventory", str(self.directory / "inventory.json"),
            "--extra-vars", json.dumps(variables), *options, str(ROOT / "ansible/fleet.yml"),
        ]  # fmt: skip
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        found = re.search(r"^R1 .* changed=(\d+) .* failed=0 ", done.stdout, re.MULTILINE)
        assert found, done.stdout + done.stderr
        return int(found[1])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """One with a saved configuration that has no bundle."""
    (tmp_path / "ztsh").write_text(PROGRAM)
    (tmp_path / "ztsh").chmod(0o755)
    (tmp_path / "interfaces_zerotier.py").write_text(SCRIPT)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.boot").touch()
    variables = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"R1": variables}}}))
    (tmp_path / "sites.yml").write_text(json.dumps({"zerotier_multi_fleet": FLEET}))
    return Site(tmp_path)


def test_a_commit_after_which_nothing_is_missing_is_saved(site: Site) -> None:
    """The one that makes the identities, of a router that is alone or knows the others already."""
    assert site.play() == 1
    assert site.is_saved and site.play() == 0


def test_a_run_that_has_ended_before_saving_is_made_good_by_the_next(site: Site) -> None:
    site.play()
    (site.directory / "config/config.boot").write_text("")
    assert site.play("--check") == 1 and not site.is_saved
    assert site.play() == 1 and site.is_saved
    assert site.play() == 0


def test_what_others_have_not_saved_is_not_saved_without_a_change(site: Site) -> None:
    site.play()
    site.script("set interfaces zerotier zt7 disable", "set interfaces zerotier zt7 network-id 8056c2e21c000007", "commit")
    assert site.play() == 0 and not site.is_saved
