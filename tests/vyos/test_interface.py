"""What we take from VyOS: our code uses nothing that the list lacks, the stand-in offers what is listed and no more."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tests.vyos.interface import LIST, PATHS, ROOT, Tree, differences, load, main, names, programs, python_uses, texts

KNOWN = load()
EVERYWHERE = set(KNOWN["versions"])
STAND_IN = {"base_vyostest_shim": ROOT / "packages/ztsh/smoketest/base_vyostest_shim.py"}
# Uses that look first: (file, what it uses). The look is in the file itself.
LOOKED_FOR = {
    ("vyos-register", "vyos.proto.vyconf_client"), ("vyos-register", "vyos.proto.vyconf_client.send_request"),
    ("vyos-register", "--internal-cache"), ("vyos-register", "vyconfd.service"),
    ("vyos-register", "/usr/libexec/vyos/services/vyos-commitd"),
    *(("vyos_box.py", path) for path in KNOWN["files"] if path.endswith("reftree.cache")),
}  # fmt: skip


def listed(dotted: str) -> set[str]:
    """Versions that have a name of VyOS's Python; none where it is not listed."""
    for module, entry in KNOWN["python"].items():
        versions = set(entry.get("in", EVERYWHERE))
        if dotted == module:
            return versions
        for name in names(entry):
            if dotted == f"{module}.{name}" or f"{module}.{name}.".startswith(f"{dotted}."):
                return versions
    return set()


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_our_code_uses_only_listed_names(program: Path) -> None:
    for dotted in sorted(python_uses(program.read_text())):
        if (program.name, dotted) not in LOOKED_FOR:
            assert listed(dotted) == EVERYWHERE, f"{program}: {dotted} is not in {LIST.name} for every version"


def test_what_the_scripts_use_is_found() -> None:
    """The walk above sees what it has to see."""
    conf = python_uses((ROOT / "src/conf_mode/interfaces_zerotier.py").read_text())
    assert conf == {"vyos.ConfigError", "vyos.base.Warning", "vyos.config.Config", "vyos.config.Config.get_config_dict"}
    op = python_uses((ROOT / "src/op_mode/zerotier.py").read_text())
    assert {"vyos.opmode.run", "vyos.opmode.UnconfiguredSubsystem", "vyos.opmode.Error"} <= op
    smoke = python_uses((ROOT / "smoketest/scripts/cli/base_zerotier_test.py").read_text())
    assert "base_vyostest_shim.VyOSUnitTestSHIM.TestCase.cli_commit" in smoke
    register = python_uses((ROOT / "packages/zerotier-multi/vyos/vyos-register").read_text())
    assert {"vyos.xml_ref.is_tag", "vyos.xml_ref.load_reference", "vyos.proto.vyconf_client"} <= register
    assert listed("vyos.opmode.UnconfiguredObject") == set()  # in `current` since July 2024 only


def test_our_files_name_only_listed_files_variables_and_programs() -> None:
    for path in texts():
        text = path.read_text()
        for found in {match.rstrip("/.") for match in PATHS.findall(text)}:
            ours = found.endswith(("/interfaces_zerotier.py", "/zerotier.py", "/list_zerotier.sh"))
            if not ours and (path.name, found) not in LOOKED_FOR:
                entry = KNOWN["files"].get(found)
                assert entry is not None, f"{path}: {found} is not in {LIST.name}"
                assert set(entry.get("in", EVERYWHERE)) == EVERYWHERE, f"{path}: {found} is not on every VyOS"
        for found in re.findall(r"\$\{?(vy[a-z_]+)\}?", text):
            assert found in KNOWN["variables"], f"{path}: the variable {found} is not in {LIST.name}"
        if path.name.endswith(".xml.in"):
            called = re.findall(r"<validator name=\"([^\"]+)\"", text) + re.findall(r"\$\{vyos_completion_dir\}/(\S+?\.sh)", text)
            for found in called:
                here = (ROOT / "src/completion" / found).exists() or (ROOT / "src/validators" / found).exists()
                assert here or found in KNOWN["programs"], f"{path}: {found} is not in {LIST.name}"


def offered(path: Path) -> dict[str, tuple[str, ...] | None]:
    """Public names of a module of the stand-in and what they can be called with."""
    found: dict[str, tuple[str, ...] | None] = {}

    def walk(body: list[Any], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                found[prefix + node.name] = tuple(a.arg for a in node.args.args if a.arg not in ("self", "cls"))
            elif isinstance(node, ast.Assign) and prefix:
                found.update({prefix + t.id: None for t in node.targets if isinstance(t, ast.Name)})
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                made = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
                found[prefix + node.name] = tuple(a.arg for a in made.args.args[1:]) if made else None
                walk(node.body, f"{prefix}{node.name}.")

    walk(ast.parse(path.read_text()).body, "")
    inner = {name.rpartition(".")[0] for name in found if "." in name}
    return {name: arguments for name, arguments in found.items() if name not in inner or arguments is not None}


STAND_INS = {**{f"vyos.{p.stem}".removesuffix(".__init__"): p for p in (ROOT / "packages/ztsh/vyos").glob("*.py")}, **STAND_IN}


@pytest.mark.parametrize("module", sorted(STAND_INS))
def test_the_stand_in_offers_what_is_listed_and_no_more(module: str) -> None:
    entry = KNOWN["python"][module]
    assert set(entry.get("in", EVERYWHERE)) == EVERYWHERE
    here = offered(STAND_INS[module])
    assert set(here) == set(names(entry))
    for name, known in names(entry).items():
        for argument, alternatives in zip(here[name] or (), known.arguments or (), strict=True):
            assert argument in alternatives.split("|"), f"{module}.{name}({argument})"


def test_every_listed_module_has_a_stand_in_or_is_of_vyos_alone() -> None:
    assert {m for m, entry in KNOWN["python"].items() if not entry.get("only-vyos")} == set(STAND_INS)


def test_the_list_is_held_against_a_tree(tmp_path: Path) -> None:
    """The check that is made by hand with checkouts of vyos-1x sees what is missing, what is more and what is fewer."""
    known = {
        "versions": {"old": "", "new": ""},
        "python": {
            "vyos.opmode": {"source": "python/vyos/opmode.py", "names": ["run(module)", "Error", "Gone"]},
            "vyos.new": {"source": "python/vyos/new.py", "names": ["thing(a, b)"], "in": ["new"]},
        },
        "files": {"/usr/share/vyos": {"source": "debian/rules", "text": "usr/share/vyos"}, "/config": {"of": "another"}},
        "variables": {},
        "programs": {"tree": {"source": "src/tree", "in": ["new"]}},
    }
    for path, text in (
        ("python/vyos/opmode.py", "class Error(Exception): pass\ndef run(module): pass\n"),
        ("python/vyos/new.py", "def thing(a): pass\n"),
        ("src/tree", ""),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert differences("old", Tree(str(tmp_path)), known) == [
        "vyos.opmode: Gone is not there",
        "/usr/share/vyos is not there, but the list says that it is",
        "tree is there, but the list says that it is not",
    ]
    assert "vyos.new: thing takes no b" in differences("new", Tree(str(tmp_path)), known)


def test_the_smoketest_types_what_the_readme_shows() -> None:
    readme = (ROOT / "README.md").read_text().partition("## What is configured")[2].split("```")[1].strip().splitlines()
    smoketest = ast.parse((ROOT / "smoketest/scripts/cli/test_op_mode_zerotier.py").read_text())
    typed = next(n.value for n in smoketest.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "example")
    assert ast.literal_eval(typed) == readme


def test_a_place_that_is_no_checkout_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version = next(iter(load()["versions"]))
    remedy = "give a checkout, or a repository and a revision it has\n"
    for place, problem in (
        (f"{tmp_path}", f"{tmp_path} is not a checkout of vyos-1x: it has no directory python/vyos"),
        (f"{tmp_path}@c3f68865", f"{tmp_path} has no revision c3f68865"),
    ):
        monkeypatch.setattr("sys.argv", ["interface", f"{version}={place}"])
        assert main() == 2
        assert capsys.readouterr() == ("", f"{version}={place}: {problem}; {remedy}")
