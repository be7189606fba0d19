"""The overlay on a small tree made here, and on a real vyos-1x where VYOS_1X names a work tree of it."""

from __future__ import annotations

import functools
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builder import overlay
from builder.edits import apply
from builder.errors import BuildError
from builder.pins import read_pins
from builder.vyos1x import EDITS
from tests.vyos_build.conftest import ROOT, VYOS_1X, git

Make = Callable[[str], Path]


def lay(tree: Path) -> list[str]:
    return overlay.lay(tree, ROOT, git(tree, "rev-parse", "HEAD"))


def bytes_and_modes(tree: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(tree).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in tree.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_everything_is_where_vyos_looks_for_it(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    lay(tree)
    for path in (
        "interface-definitions/interfaces_zerotier.xml.in",
        "op-mode-definitions/zerotier.xml.in",
        "src/conf_mode/interfaces_zerotier.py",
        "src/op_mode/zerotier.py",
        "src/completion/list_uplinks.sh",
        "src/completion/list_zerotier.sh",
        "src/systemd/zerotier-multi@.service",
        "src/systemd/zerotier-pathd.service",
        "src/etc/systemd/network/05-zerotier.link",
        "python/zerotier_multi/pathd/daemon.py",
        "python/zerotier_multi/interfaces_zerotier.xml.in",
        "python/vyos/ifconfig/zerotier.py",
        "data/config-mode-dependencies/zerotier-multi.json",
        "smoketest/scripts/cli/base_zerotier_test.py",
        "smoketest/scripts/cli/test_interfaces_zerotier.py",
    ):
        assert (tree / path).is_file(), path
    assert os.access(tree / "src/conf_mode/interfaces_zerotier.py", os.X_OK)
    assert not os.access(tree / "python/zerotier_multi/plan.py", os.X_OK)
    assert "|wwan|zt)" in (tree / "interface-definitions/include/constraint/interface-name.xml.i").read_text()
    assert not [path for path in tree.rglob("*") if "__pycache__" in path.parts]
    assert "package_data = {'zerotier_multi': ['*.xml.in']}," in (tree / "python/setup.py").read_text()
    control = (tree / "debian/control").read_text()
    assert control.startswith("Source: vyos-1x\n\nPackage: vyos-1x\nConflicts: zerotier-multi\n")
    assert control.count("Depends:\n  python3-systemd,\n  dialog,\n") == control.count("python3-systemd") == 1


def test_qos_knows_the_section_of_bundles(vyos_1x: Make) -> None:
    """It looks there for each device of a section that has a mirror or a redirect, and stumbles over one that is not there."""
    tree = vyos_1x("tree")
    lay(tree)
    sections = re.findall(r"'section': '(.+)'", (tree / "python/vyos/ifconfig/zerotier.py").read_text())
    dependencies = json.loads((tree / "data/config-mode-dependencies/zerotier-multi.json").read_text())
    # The mirrors are nftables', which qos leaves alone, so nothing has to be committed again.
    assert sections == ["zerotier"]
    assert dependencies == {"qos": {section: [] for section in sections}}


def test_strip_private_hides_the_key_of_a_controller(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    lay(tree)
    given = """\
interfaces {
    zerotier zt0 {
        controller {
            api-key K3Y
            type ztnet
        }
    }
}
set interfaces zerotier zt0 controller api-key 'K3Y{'
set interfaces wireguard wg0 private-key 'K3Y='
"""
    command = [sys.executable, tree / "src/helpers/strip-private.py"]
    told = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    assert "K3Y" not in told
    assert told.count("xxxxxx") == 3
    assert told.splitlines()[:3] == given.splitlines()[:3]
    assert len(told.splitlines()) == len(given.splitlines())


class Configuration:
    """As VyOS's own: asked by path. Values are the last nodes."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree

    def _at(self, path: list[str]) -> Any:
        return functools.reduce(lambda node, word: node[word], path, self.tree)

    def exists(self, path: list[str]) -> bool:
        try:
            return self._at(path) is not None
        except (KeyError, TypeError):
            return False

    def list_nodes(self, path: list[str]) -> list[str]:
        return list(self._at(path))

    def return_value(self, path: list[str]) -> str:
        value = self._at(path)
        assert isinstance(value, str)
        return value

    def set(self, path: list[str], value: str) -> None:
        self._at(path[:-1])[path[-1]] = value


def test_an_archive_for_support_has_no_secret(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    lay(tree)
    strip = runpy.run_path(str(tree / "python/vyos/utils/strip_config.py"))["strip_config_tree"]
    of_one = {"instance": {"1": {"identity": {"secret": "S3CRET"}}, "3": {"identity": {"secret": "S3CRET"}}, "2": {"cpu": "1"}}}
    controller = {"controller": {"api-key": "S3CRET", "type": "ztnet"}}
    configuration = Configuration({"interfaces": {"zerotier": {"zt0": of_one | controller, "zt1": {"instances": "2"}}}})
    strip(configuration)
    assert configuration.tree["interfaces"]["zerotier"] == {
        "zt0": {
            "instance": {
                "1": {"identity": {"secret": "<KEY DATA REDACTED>"}},
                "3": {"identity": {"secret": "<KEY DATA REDACTED>"}},
                "2": {"cpu": "1"},
            },
            "controller": {"api-key": "<PASSWORD REDACTED>", "type": "ztnet"},
        },
        "zt1": {"instances": "2"},
    }
    strip(Configuration({"interfaces": {}}))


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_a_mirror_of_a_bundle_is_none_of_vyos(vyos_1x: Make, direction: str) -> None:
    tree = vyos_1x("tree")
    lay(tree)
    is_mirror_intf = runpy.run_path(str(tree / "python/vyos/configdict.py"))["is_mirror_intf"]
    mirror = {"mirror": {direction: {"eth3": {}}}}
    of_bundle = {"ethernet": {"eth0": {}, "eth3": {}}, "zerotier": {"zt0": mirror}}
    assert is_mirror_intf(Configuration({"interfaces": of_bundle}), "eth3") is None
    both = {"ethernet": {"eth0": mirror, "eth3": {}}, "zerotier": {"zt0": mirror}}
    assert is_mirror_intf(Configuration({"interfaces": both}), "eth3") == {"eth0": {}}


def test_repeatable_to_the_byte(vyos_1x: Make) -> None:
    first, second = vyos_1x("first"), vyos_1x("second")
    lay(first)
    lay(second)
    assert bytes_and_modes(first) == bytes_and_modes(second)


def test_a_second_run_changes_nothing_and_says_so(
    vyos_1x: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = vyos_1x("tree")
    monkeypatch.setattr(overlay, "read_pins", lambda: type("Pins", (), {"vyos_1x": git(tree, "rev-parse", "HEAD")}))
    assert overlay.main([str(tree)]) == 0
    before = bytes_and_modes(tree)
    capsys.readouterr()
    assert overlay.main([str(tree)]) == 0
    assert capsys.readouterr().out == f"{tree} already has the overlay; nothing was changed\n"
    assert bytes_and_modes(tree) == before


def test_a_run_that_was_cut_short_is_finished(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    lay(tree)
    whole = bytes_and_modes(tree)
    (tree / "src/op_mode/zerotier.py").unlink()
    git(tree, "checkout", "--quiet", "--", "python/setup.py")
    assert lay(tree) == ["python/setup.py", "src/op_mode/zerotier.py"]
    assert bytes_and_modes(tree) == whole


def test_what_was_built_there_is_no_change(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    (tree / "build").mkdir()
    (tree / "build/cache.py").write_text("")
    assert lay(tree)


@pytest.mark.parametrize("path", ["README", "python/setup.py", "src/op_mode/zerotier.py"])
def test_a_dirty_base_is_refused_and_left_alone(vyos_1x: Make, path: str) -> None:
    tree = vyos_1x("tree")
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text("somebody's work\n")
    before = bytes_and_modes(tree)
    with pytest.raises(BuildError) as refused:
        lay(tree)
    assert str(refused.value) == f"{tree} has changes of its own ({path}); give a clean work tree"
    assert bytes_and_modes(tree) == before


def test_an_unknown_base_is_refused(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    with pytest.raises(BuildError) as refused:
        overlay.lay(tree, ROOT, "0" * 40)
    assert str(refused.value) == (
        f"{tree} is at {git(tree, 'rev-parse', 'HEAD')[:12]} but the overlay is made for 000000000000; "
        "check out that revision, or change the pin of vyos-1x in vyos-build/pins.toml"
    )


def test_a_base_that_has_our_files_is_refused(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    (tree / "src/op_mode").mkdir(parents=True)
    (tree / "src/op_mode/zerotier.py").write_text("")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message=theirs")
    with pytest.raises(BuildError, match=r"^vyos-1x has a src/op_mode/zerotier.py of its own; rename ours"):
        lay(tree)


def test_a_place_that_is_gone_leaves_the_tree_alone(vyos_1x: Make) -> None:
    tree = vyos_1x("tree")
    (tree / "python/setup.py").write_text("setup(packages = find_packages())\n")
    git(tree, "commit", "--quiet", "--all", "--message=theirs")
    with pytest.raises(BuildError, match=r"^python/setup.py: the place where the library .* was found 0 times"):
        lay(tree)
    assert git(tree, "status", "--porcelain") == ""


def test_what_is_no_tree(tmp_path: Path, vyos_1x: Make) -> None:
    with pytest.raises(BuildError, match="cannot be read by git .* give a git work tree$"):
        overlay.lay(tmp_path, ROOT, "0" * 40)
    inner = vyos_1x("tree") / "python"
    with pytest.raises(BuildError, match="lies inside the git work tree .*; give the top of a vyos-1x work tree$"):
        overlay.lay(inner, ROOT, "0" * 40)


def test_every_edit_has_a_reason_and_changes_something() -> None:
    for edit in EDITS:
        assert edit.reason
        assert apply(edit, VYOS_1X[edit.path]) != VYOS_1X[edit.path]


# VYOS_1X=<a git work tree of vyos-1x> lays it over the real thing.
if "VYOS_1X" in os.environ:

    def test_on_a_real_vyos_1x(tmp_path: Path) -> None:
        tree, pin = tmp_path / "vyos-1x", read_pins().vyos_1x
        git(tmp_path, "clone", "--quiet", "--shared", "--no-checkout", os.environ["VYOS_1X"], str(tree))
        git(tree, "checkout", "--quiet", "--detach", pin)
        assert overlay.lay(tree, ROOT, pin)
        assert overlay.lay(tree, ROOT, pin) == []

        def definition(name: str) -> str:
            return subprocess.run(
                [tree / "scripts/transclude-template", f"interface-definitions/{name}.xml.in"],
                cwd=tree,
                capture_output=True,
                text=True,
                check=True,
            ).stdout

        assert "|wwan|zt)[0-9]+" in definition("protocols_ospf")
        # These take every name that could be a VRF's, so they need no edit.
        for name in ("firewall", "nat", "nat66"):
            assert '<validator name="vrf-name"/>' in definition(name)
