"""Making the nodes known to VyOS: on success all of it, on failure at any step nothing, and gone after removal.

The VyOS here is a small one made by the test: a generator and a merger that behave as VyOS's do, and a daemon
whose state a file holds. What real VyOS makes of the package is tried by hand.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.configuration import ROOT
from ztsh.templates import write

PROGRAM = ROOT / "packages/zerotier-multi/vyos/vyos-register"

GENERATE = """
import sys, pathlib
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert list(pathlib.Path(arguments["--xml-dir"]).glob("*.xml"))
name = arguments["--package-name"].replace("-", "_") + "_cache.py"
(pathlib.Path(arguments["--output-path"]) / name).write_text("reference = {'interfaces': {'zerotier': {}}}")
"""
UPDATE = """
import pathlib, runpy
here = pathlib.Path(__file__).parent
merged = {"interfaces": {}}
for path in sorted((here / "pkg_cache").glob("*_cache.py")):
    merged["interfaces"].update(runpy.run_path(str(path))["reference"]["interfaces"])
(here / "cache.py").write_text(f"reference = {merged}")
"""
INIT = """
from vyos.xml_ref.cache import reference
class Reference:
    def cli_defined(self, path, node): return node in reference[path[0]]
def load_reference(): return Reference()
def is_tag(path): return False
"""


class Box:
    """A VyOS in a directory."""

    def __init__(self, root: Path, register: ModuleType) -> None:
        self.root, self.register = root, register
        self.xml_ref = root / "python/vyos/xml_ref"
        self.restarts = 0
        self.configd_dies = False

    def state(self) -> dict[str, bytes]:
        """Every file that VyOS reads."""
        files = [p for d in (self.root / "python", self.root / "opt") for p in d.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.root)): p.read_bytes() for p in files if "__pycache__" not in p.parts}

    def systemctl(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if command[0] != "systemctl":
            return self.real_run(command, **options)
        if command[1] == "restart":
            self.restarts += 1
        dead = self.configd_dies and "zerotier" in (self.xml_ref / "cache.py").read_text() and self.restarts > 0
        return subprocess.CompletedProcess(command, 3 if dead and command[1] == "is-active" else 0, "", "")


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    loader = importlib.machinery.SourceFileLoader("vyos_register", str(PROGRAM))
    spec = importlib.util.spec_from_loader("vyos_register", loader)
    assert spec
    register = importlib.util.module_from_spec(spec)
    loader.exec_module(register)
    made = Box(tmp_path, register)
    (made.xml_ref / "pkg_cache").mkdir(parents=True)
    (tmp_path / "python/vyos/__init__.py").touch()
    (made.xml_ref / "__init__.py").write_text(INIT)
    (made.xml_ref / "generate_cache.py").write_text(GENERATE)
    (made.xml_ref / "update_cache.py").write_text(UPDATE)
    (made.xml_ref / "pkg_cache/vyos_1x_cache.py").write_text("reference = {'interfaces': {'loopback': {}}}")
    subprocess.run([sys.executable, made.xml_ref / "update_cache.py"], check=True)
    share = tmp_path / "share"
    write(ROOT / "interface-definitions", ROOT / "op-mode-definitions", share / "templates")
    (share / "interface-definitions").mkdir()
    (share / "interface-definitions/zt.xml").write_text("<interfaceDefinition/>")
    for kind in ("cfg", "op"):
        (tmp_path / "opt" / kind / "interfaces").mkdir(parents=True)
        (tmp_path / "opt" / kind / "interfaces/node.def").write_text("help: VyOS's own\n")
    monkeypatch.setattr(register, "SHARE", share)
    monkeypatch.setattr(register, "XML_REF", made.xml_ref)
    monkeypatch.setattr(register, "TEMPLATES", {kind: tmp_path / "opt" / kind for kind in ("cfg", "op")})
    monkeypatch.setattr(register, "CONFIGD_SOCKET", tmp_path / "configd.sock")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    made.real_run = subprocess.run  # type: ignore[attr-defined]
    monkeypatch.setattr(register.subprocess, "run", made.systemctl)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as configd:
        configd.bind(str(tmp_path / "configd.sock"))
        configd.listen(8)
        yield made


def call(box: Box, verb: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["vyos-register", verb])
    return int(box.register.main())


def test_added_and_removed_again(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    before = box.state()
    assert call(box, "add", monkeypatch) == 0
    added = set(box.state()) - set(before)
    assert "python/vyos/xml_ref/pkg_cache/zerotier_multi_cache.py" in added
    assert len([p for p in added if p.endswith("node.def")]) == len(box.register.template_files()) > 60
    assert box.restarts == 1
    assert "zerotier" in (box.xml_ref / "cache.py").read_text()
    assert call(box, "add", monkeypatch) == 0  # an upgrade of the package
    assert call(box, "remove", monkeypatch) == 0
    assert box.state() == before
    assert not list((box.root / "opt").rglob("zerotier"))


@pytest.mark.parametrize("verb", ["add", "remove"])
def test_nodes_that_an_earlier_version_had_go(box: Box, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(box, "add", monkeypatch) == 0
    for old in ("cfg/interfaces/zerotier/node.tag/gone/node.def", "op/show/gone/zerotier/node.tag/node.def"):
        (box.root / "opt" / old).parent.mkdir(parents=True)
        (box.root / "opt" / old).write_text("help: of an earlier version\n")
    assert call(box, verb, monkeypatch) == 0
    assert not [path for path in (box.root / "opt").rglob("*") if path.name == "gone"]
    assert (box.root / "opt/cfg/interfaces/zerotier/node.def").exists() == (verb == "add")


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        ("generate", "VyOS's cache generator failed: RuntimeError: broken on purpose"),
        ("nothing", "VyOS's cache generator made no zerotier_multi_cache.py with our nodes"),
        ("update", "VyOS's cache could not be merged: RuntimeError: broken on purpose"),
        ("half", "the merged cache does not hold what it must"),
        ("configd", "vyos-configd.service did not stay up"),
        ("disk", "No space left on device"),
    ],
)
def test_a_failure_at_any_step_takes_everything_back(
    box: Box, breakage: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if breakage == "generate":
        (box.xml_ref / "generate_cache.py").write_text("raise RuntimeError('broken on purpose')")
    elif breakage == "nothing":
        (box.xml_ref / "generate_cache.py").write_text("")
    elif breakage == "update":
        (box.xml_ref / "update_cache.py").write_text(
            "import pathlib; (pathlib.Path(__file__).parent / 'cache.py').write_text('refe'); raise RuntimeError('broken on purpose')"
        )
    elif breakage == "half":
        (box.xml_ref / "update_cache.py").write_text(UPDATE.replace("f\"reference = {merged}\"", "'reference = {}'"))
    elif breakage == "configd":
        box.configd_dies = True
    before = box.state()
    if breakage == "disk":
        copies: list[Path] = []

        def full(source: Path, target: Path) -> None:
            copies.append(target)
            if len(copies) == 30:
                raise OSError(28, "No space left on device")
            target.write_bytes(Path(source).read_bytes())

        monkeypatch.setattr(box.register.shutil, "copyfile", full)
    assert call(box, "add", monkeypatch) == 1
    said = capsys.readouterr().err
    assert words in said and said.endswith("; 'interfaces zerotier' is not available, VyOS is as before\n")
    assert box.state() == before
    assert not list((box.root / "opt").rglob("zerotier"))


@pytest.mark.parametrize("breakage", ["generate", "disk"])
def test_an_upgrade_that_fails_leaves_the_version_before(
    box: Box, breakage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(box, "add", monkeypatch) == 0
    for path in [*(box.root / "opt/cfg").rglob("zerotier/node.def"), box.root / "opt/cfg/interfaces/zerotier/gone/node.def"]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("help: of an earlier version\n")
    before = box.state()
    if breakage == "generate":
        (box.xml_ref / "generate_cache.py").write_text("raise RuntimeError('broken on purpose')")
        before = box.state()
    else:

        def full(source: Path, target: Path) -> None:
            if "monitor" in target.parts:
                raise OSError(28, "No space left on device")
            target.write_bytes(Path(source).read_bytes())

        monkeypatch.setattr(box.register.shutil, "copyfile", full)
    assert call(box, "add", monkeypatch) == 1
    said = capsys.readouterr().err
    assert said.endswith("; 'interfaces zerotier' is as in the version before, VyOS is as before\n")
    assert box.state() == before


def test_it_does_nothing_without_vyos(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (box.xml_ref / "update_cache.py").unlink()
    before = box.state()
    assert call(box, "add", monkeypatch) == 0 and call(box, "remove", monkeypatch) == 0
    assert box.state() == before and box.restarts == 0


def test_an_image_that_has_the_nodes_built_in_is_left_alone(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    (box.xml_ref / "pkg_cache/vyos_1x_cache.py").write_text("reference = {'interfaces': {'zerotier': {}}}")
    before = box.state()
    assert call(box, "add", monkeypatch) == 0
    assert box.state() == before
