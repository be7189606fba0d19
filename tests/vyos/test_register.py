"""Making the nodes known to VyOS: on success all of it, on failure at any step nothing, and gone after removal.

The VyOS here is a small one made by the test: a generator and a merger that behave as VyOS's do, and a daemon
whose state a file holds. What real VyOS makes of the package is tried by hand.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
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
(pathlib.Path(arguments["--output-path"]) / name).write_text("reference = {'interfaces': {'zerotier': {'instances': {}, 'transit': {}, 'remote': {}}}}")
"""
# What VyOS's generator makes since October 2024 beside it.
GENERATE_TREE = (
    GENERATE
    + """
import json
def node(name, *children): return {"name": name, "data": {"help": "ü"}, "children": list(children)}
tree = node("", node("interfaces", node("zerotier", node("instances"), node("transit"))))
pathlib.Path(arguments["--internal-cache"]).write_text(json.dumps(tree))
"""
)
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


TREE = """{"name":"","data":{"help":"No help available"},"children":[{"name":"interfaces","data":{"help":"ü \\"n\\""},\
"children":[{"name":"loopback","data":{},"children":[]}]},{"name":"service","data":{},"children":[]}]}"""


class Vyconfd:
    """Its socket; one that cannot live with our nodes dies after systemd has called its start done."""

    def __init__(self, path: Path) -> None:
        self.path, self.picky, self.listening, self.dying = path, False, True, False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(str(path))
        self.socket.listen(8)

    def start(self, tree: bytes) -> None:
        """Reads its tree and takes requests."""
        self.socket.close()
        self.path.unlink(missing_ok=True)
        self.listening = not (self.picky and b"zerotier" in tree)
        self.dying = not self.listening
        if self.listening:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.bind(str(self.path))
            self.socket.listen(8)

    def asked(self, state: str) -> bool:
        """Whether systemd says that of it: a daemon that dies is active the first time."""
        active, self.dying = self.listening or self.dying, False
        return active == (state == "is-active")


class Box:
    """A VyOS in a directory."""

    def __init__(self, root: Path, register: ModuleType) -> None:
        self.root, self.register = root, register
        self.xml_ref = root / "python/vyos/xml_ref"
        self.restarts = 0
        self.configd_dies = False
        self.vyconfd = Vyconfd(root / "vyconfd.sock")
        self.down: set[str] = set()
        self.restarted: list[str] = []
        self.vyos = root / "share-of-vyos"
        self.trees = (self.vyos / "reftree.cache", root / "vyconf/reftree/reftree.cache")

    def give_tree(self, text: str = TREE) -> None:
        """A VyOS of October 2024 or later."""
        (self.xml_ref / "generate_cache.py").write_text(GENERATE_TREE)
        for path in self.trees:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def state(self) -> dict[str, bytes]:
        """Every file that VyOS reads."""
        roots = [self.root / d for d in ("python", "opt", "vyconf", "share-of-vyos", "var")]
        files = [p for d in roots for p in d.rglob("*") if p.is_file()]
        return {str(p.relative_to(self.root)): p.read_bytes() for p in files if "__pycache__" not in p.parts}

    def systemctl(self, command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if "reload_reftree" in command[-1]:
            return subprocess.CompletedProcess(command, 3, "", "")  # as before spring 2025: restarted instead
        if command[0] != "systemctl":
            return self.real_run(command, **options)
        if command[-1] in self.down:
            return subprocess.CompletedProcess(command, 3, "", f"Job for {command[-1]} failed.")
        if command[1] == "restart":
            self.restarts += command[-1] == "vyos-configd.service"
            self.restarted.append(command[-1])
            if command[-1] == "vyconfd.service":
                self.vyconfd.start(self.trees[0].read_bytes())
        if command[-1] == "vyconfd.service" and command[1] in ("is-active", "is-failed"):
            return subprocess.CompletedProcess(command, 0 if self.vyconfd.asked(command[1]) else 3, "", "")
        if command[1] == "is-failed":
            return subprocess.CompletedProcess(command, 1, "", "")
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
    monkeypatch.setattr(register, "RECORD", tmp_path / "var/templates")
    monkeypatch.setattr(register, "SHARE_OF_VYOS", made.vyos)
    monkeypatch.setattr(register, "COMMITD", tmp_path / "vyos-commitd")
    monkeypatch.setattr(register.vyos_box, "REFERENCE_TREES", made.trees)
    for module in (register, register.vyos_box):
        monkeypatch.setattr(module, "XML_REF", made.xml_ref)
        monkeypatch.setattr(module, "TEMPLATES", {kind: tmp_path / "opt" / kind for kind in ("cfg", "op")})
    monkeypatch.setattr(register, "CONFIGD_SOCKET", tmp_path / "configd.sock")
    monkeypatch.setattr(register, "VYCONFD_SOCKET", made.vyconfd.path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "python"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    made.real_run = subprocess.run  # type: ignore[attr-defined]
    monkeypatch.setattr(register.subprocess, "run", made.systemctl)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as configd:
        configd.bind(str(tmp_path / "configd.sock"))
        configd.listen(8)
        yield made
        made.vyconfd.socket.close()


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
        with box.register.RECORD.open("a") as record:
            record.write(f"{box.root / 'opt' / old}\n")
    assert call(box, verb, monkeypatch) == 0
    assert not [path for path in (box.root / "opt").rglob("*") if path.name == "gone"]
    assert (box.root / "opt/cfg/interfaces/zerotier/node.def").exists() == (verb == "add")


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        ("generate", "VyOS's cache generator failed: RuntimeError: broken on purpose"),
        ("nothing", "VyOS's cache generator did not write zerotier_multi_cache.py with our nodes"),
        ("update", "VyOS's cache could not be merged: RuntimeError: broken on purpose"),
        ("half", "the merged cache lacks the expected nodes"),
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
    with box.register.RECORD.open("a") as record:
        record.write(f"{box.root}/opt/cfg/interfaces/zerotier/gone/node.def\n")
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
    (box.xml_ref / "pkg_cache/vyos_1x_cache.py").write_text(
        "reference = {'interfaces': {'zerotier': {'instances': {}, 'transit': {}, 'remote': {}}}}"
    )
    before = box.state()
    assert call(box, "add", monkeypatch) == 0
    assert box.state() == before


# -- VyOS since October 2024: reference trees


def test_the_reference_trees_get_our_nodes_and_lose_them_again(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.give_tree()
    before = box.state()
    assert call(box, "add", monkeypatch) == 0
    for path in box.trees:
        names = [node["name"] for node in json.loads(path.read_text())["children"][0]["children"]]
        assert names == ["loopback", "zerotier"]
    assert box.restarted == ["vyos-configd.service", "vyconfd.service"]
    assert call(box, "add", monkeypatch) == 0  # an upgrade of the package
    assert box.trees[0].read_text().count('"zerotier"') == 1
    assert call(box, "remove", monkeypatch) == 0
    assert box.state() == before


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        ("no tree", "VyOS's reference tree {tree} could not be extended: "),
        ("vyconfd", "vyconfd.service did not start again: Job for vyconfd.service failed."),
        ("vyconfd dies", "vyconfd.service did not stay up; see: journalctl -u vyconfd.service"),
    ],
)
def test_a_failure_at_the_trees_takes_everything_back(
    box: Box, breakage: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    box.give_tree()
    if breakage == "no tree":
        (box.xml_ref / "generate_cache.py").write_text(GENERATE + "pathlib.Path(arguments['--internal-cache']).write_text('{}')")
    elif breakage == "vyconfd dies":
        box.vyconfd.picky = True
    else:
        real = box.systemctl

        def stays_down(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            broken = command[-2:] == ["restart", "vyconfd.service"] and b"zerotier" in box.trees[0].read_bytes()
            return (
                subprocess.CompletedProcess(command, 1, "", "Job for vyconfd.service failed.")
                if broken
                else real(command, **options)
            )

        monkeypatch.setattr(box.register.subprocess, "run", stays_down)
    before = box.state()
    assert call(box, "add", monkeypatch) == 1
    said = capsys.readouterr().err
    assert words.format(tree=box.trees[0]) in said and said.endswith(
        "; 'interfaces zerotier' is not available, VyOS is as before\n"
    )
    assert box.state() == before
    assert box.vyconfd.listening  # it runs again, with the tree that it can read


def test_the_commit_daemon_is_told_of_our_script(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls only the scripts of a list; the configuration daemon runs others by themselves."""
    box.give_tree()
    scripts = box.vyos / "configd-include.json"
    scripts.write_text('[\n"container.py",\n"zzz.py"\n]\n')
    before = box.state()
    assert call(box, "add", monkeypatch) == 0 and "zerotier" not in scripts.read_text()
    assert call(box, "remove", monkeypatch) == 0 and box.state() == before
    box.register.COMMITD.touch()
    assert call(box, "add", monkeypatch) == 0
    assert json.loads(scripts.read_text()) == ["container.py", "interfaces_zerotier.py", "zzz.py"]
    assert box.restarted[-1] == "vyos-commitd.service"
    assert call(box, "remove", monkeypatch) == 0 and box.state() == before


# -- refusals


def test_another_interfaces_zerotier_is_not_taken_for_ours(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As upstream's open pull request 5211 would bring it."""
    nodes = "{'node_data': {}, 'network-id': {}, 'address': {}, 'allow-managed': {}}"
    (box.xml_ref / "pkg_cache/vyos_1x_cache.py").write_text(f"reference = {{'interfaces': {{'zerotier': {nodes}}}}}")
    theirs = box.root / "opt/cfg/interfaces/zerotier/node.tag/allow-managed/node.def"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("help: theirs\n")
    before = box.state()
    assert call(box, "add", monkeypatch) == 1
    assert capsys.readouterr().err == (
        "zerotier-multi: this VyOS has an 'interfaces zerotier' of another project (vyos_1x_cache.py), which this package "
        "cannot share; see 'Where the add-on package refuses' in docs/vyos.md\n"
    )
    assert box.state() == before
    call(box, "remove", monkeypatch)
    assert theirs.exists()


def test_templates_of_another_package_are_left_alone(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = box.root / "opt/cfg/service/zerotier/node.def"
    service.parent.mkdir(parents=True)
    service.write_text("help: a service of somebody else\n")
    assert call(box, "add", monkeypatch) == 0 and call(box, "remove", monkeypatch) == 0
    assert service.exists()
    other = box.root / "opt/cfg/interfaces/zerotier/node.def"
    other.parent.mkdir(parents=True)
    other.write_text("tag:\n")
    assert call(box, "add", monkeypatch) == 1
    assert f"of another project ({other})" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "not JSON", "[]", '{"name":"","data":{},"children":[]}', "[" * 100_000])
def test_a_tree_of_another_make_is_refused(
    box: Box, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    box.give_tree(text)
    before = box.state()
    assert call(box, "add", monkeypatch) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"zerotier-multi: this VyOS keeps its CLI in {box.trees[0]}, whose format this package does not know (")
    assert said.count("\n") == 1 and box.state() == before


def test_where_the_refusals_point_to_is_written() -> None:
    assert "### Where the add-on package refuses\n" in (ROOT / "docs/vyos.md").read_text()


# -- removal goes on to its end


def test_removal_without_the_configuration_daemon(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = box.state()
    assert call(box, "add", monkeypatch) == 0
    box.down.add("vyos-configd.service")
    assert call(box, "remove", monkeypatch) == 0
    assert box.state() == before and capsys.readouterr().err == ""
    assert call(box, "add", monkeypatch) == 0


@pytest.mark.parametrize("breakage", ["restart", "merger"])
def test_removal_when_something_fails(
    box: Box, breakage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(box, "add", monkeypatch) == 0
    if breakage == "restart":
        monkeypatch.setattr(box.register, "_takes_requests", lambda _listening: False)
        monkeypatch.setattr(box.register, "PATIENCE", 0.0)
    else:
        (box.xml_ref / "update_cache.py").write_text("raise RuntimeError('broken on purpose')")
    assert call(box, "remove", monkeypatch) == 0
    said = capsys.readouterr().err
    assert said.endswith("; the nodes of the CLI were removed nevertheless\n")
    assert ("did not answer requests" if breakage == "restart" else "broken on purpose") in said
    assert not list((box.root / "opt").rglob("zerotier"))


def test_the_version_of_our_syntax_goes_with_the_package(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """VyOS writes it at boot, from the cache."""
    box.vyos.mkdir()
    record = box.vyos / "component-versions.json"
    record.write_text(json.dumps({"bgp": 5, "zerotier": 1}, indent=2, sort_keys=True))
    assert call(box, "add", monkeypatch) == 0 and call(box, "remove", monkeypatch) == 0
    assert record.read_text() == json.dumps({"bgp": 5}, indent=2, sort_keys=True)
