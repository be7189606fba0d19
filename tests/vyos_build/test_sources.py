"""Packages built from checkouts by their own Debian packaging: which, in which order, again only when something changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from builder import checkouts, source_builds, worktree
from builder.chroot import Chroot
from builder.control import Stock, clauses, stanzas
from builder.errors import BuildError
from builder.log import Log
from builder.repository import newest, read_given, write_flat
from builder.schedule import Step, schedule
from tests.vyos_build.conftest import Maker, git, write
from tests.vyos_build.debs import make_deb


def planned(directory: Path, *wanted: str, debian: str = "", given: str = "") -> list[Step]:
    found, unusable = checkouts.find(directory)
    assert not unusable
    stock = Stock()
    stock.add(stanzas(debian))
    return schedule(wanted, found, list(stanzas(given)), stock)


def names(steps: list[Step]) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.source.name, step.after) for step in steps]


def test_real_builds(tmp_path: Path, checkout: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    """dpkg-buildpackage in a throw-away copy of this machine's file system, as a user without rights or network."""
    look = (
        "(cat /usr/share/zlib/said; cat /dev/stdin </dev/null; awk '/^Uid/ {print $$2}' /proc/self/status; ls; "
        "cat /proc/sys/net/ipv4/conf/lo/forwarding; grep -o '[a-z0-9]*:' /proc/net/dev)"
    )
    checkout("zlib")
    app = checkout("app", head="Build-Depends: zlib (>= 1.0)\n", command=look)
    checkout("broken", command="echo it breaks here >&2; false")
    checkout("late", head="Build-Depends: broken\n")
    (app / "stale").write_text("of an earlier build")
    (app / "new").write_text("not committed yet")
    steps = planned(tmp_path / "sources", "app", "late", "broken")
    assert names(steps) == [("broken", ()), ("zlib", ()), ("app", ("zlib",)), ("late", ("broken",))]
    place, into = Chroot(Path("/"), ""), tmp_path / "built"
    write(into, {".tree-x/of-a-run/that-was-killed": ""})

    def build() -> tuple[dict[str, str], list[str]]:
        done = source_builds.build(planned(tmp_path / "sources", "app", "late", "broken"), [], place, into, Log(tmp_path / "log"))
        said = [line.partition("] ")[2] or line for line in capsys.readouterr().out.splitlines()]
        return {one.name: one.failure for one in done}, said

    failures, said = build()
    assert (failures["zlib"], failures["app"]) == ("", ""), (into / "app/build.log").read_text()
    assert failures["late"] == "it needs broken, which could not be built"
    assert failures["broken"] == f"build-in-chroot ended with 2; the full log is {into}/broken/build.log"
    assert "it breaks here" in said
    deb = next((into / "app").glob("app_1.0_all.deb"))
    content = subprocess.run(
        f"dpkg-deb --fsys-tarfile {deb} | tar -xO ./usr/share/app/said", shell=True, capture_output=True, text=True
    )
    assert content.stdout.split() == ["built", "64999", "debian", "new", "1", "lo:"]
    # Nothing is left of it on this machine, and the checkout is as it was.
    assert not (Path("/repository").exists() or Path("/usr/share/zlib").exists())
    assert str(into) not in Path("/proc/self/mounts").read_text()
    assert sorted(path.name for path in into.iterdir()) == ["app", "broken", "zlib"]
    assert worktree.changes(app) == {"new"}
    # Again: only what failed. A change of what it was built with builds a package again.
    tail = [line.split(" ", 2)[::2] for line in build()[1] if "built before" in line]
    assert [number for number, _ in tail] == ["2/4", "3/4"]
    (tmp_path / "sources/zlib/more").write_text("")
    again = [line for line in build()[1] if "packages" in line]
    assert [line.rpartition(" in ")[0].split(": ")[1] for line in again] == ["1 packages", "1 packages"]
    assert "zlib" in again[0] and "and 1 changed files" in again[0]


def test_what_nobody_needs_is_not_built(tmp_path: Path, checkout: Maker) -> None:
    checkout("app", head="Build-Depends: debhelper, doc <!nodoc>, other [arm64]\n", package="Depends: liba | libb, dash\n")
    for name in ("liba", "libb", "dash", "debhelper", "other", "unused"):
        checkout(name)
    debian = "Package: debhelper\nVersion: 13\n\nPackage: doc\nVersion: 1\n\nPackage: dash\nVersion: 2\n"
    steps = planned(tmp_path / "sources", "app", debian=debian)
    # The first alternative; at run time the checkout beside Debian's, for a build Debian's.
    assert names(steps) == [("app", ()), ("dash", ()), ("liba", ())]
    assert not steps[0].missing


def test_what_is_built_for_another_comes_first_with_what_it_needs_to_run(tmp_path: Path, checkout: Maker) -> None:
    checkout("app", head="Build-Depends: virtual-dev\n")
    checkout("lib", package="Provides: virtual-dev\nDepends: run (= ${binary:Version})\n")
    checkout("run")
    checkout("zz", head="Build-Depends: app\n")
    steps = planned(tmp_path / "sources", "zz")
    assert names(steps) == [("lib", ()), ("run", ()), ("app", ("lib", "run")), ("zz", ("app",))]


def test_a_missing_build_dependency_and_a_circle_are_told_before_anything_runs(tmp_path: Path, checkout: Maker) -> None:
    checkout("aa", head="Build-Depends: bb\n")
    checkout("bb", head="Build-Depends: aa\n")
    checkout("cc", head="Build-Depends: nowhere (>= 2) | never\n")
    checkout("dd", head="Build-Depends: given\n")
    steps = planned(tmp_path / "sources", "aa", "cc", "dd", given="Package: given\nVersion: 1\n")
    done = source_builds.build(
        [s for s in steps if s.source.name != "dd"], [], Chroot(Path("/nowhere"), ""), tmp_path / "built", Log(tmp_path / "log")
    )
    assert {one.name: one.failure for one in done} == {
        "aa": "it and bb need each other; put the package of one into PACKAGES and remove its checkout",
        "bb": "it needs aa, which could not be built",
        "cc": "nothing has its build dependency nowhere (>= 2) | never; put its checkout into SOURCES or its package into PACKAGES",
    }
    assert not [step for step in steps if step.source.name == "dd" and step.missing]


def test_two_checkouts_of_one_package_are_refused_where_it_is_needed(tmp_path: Path, checkout: Maker) -> None:
    one = checkout("fork/app")
    other = checkout("app")
    checkout("fine")
    for tree in (one, other):
        (tree / "debian/control").write_text((other / "debian/control").read_text())
    assert names(planned(tmp_path / "sources", "fine")) == [("fine", ())]
    with pytest.raises(BuildError, match=f"^{other} and {one} both build app; remove one of them from SOURCES$"):
        planned(tmp_path / "sources", "app")


def test_checkouts_that_cannot_be_used_are_named(tmp_path: Path, checkout: Maker) -> None:
    tree = checkout("good")
    git(tree, "worktree", "add", "--quiet", str(tmp_path / "sources/linked"))
    (checkout("no-version") / "debian/changelog").write_text("soon\n")
    (checkout("nothing-here") / "debian/control").write_text("Source: nothing-here\n\nPackage: x\nArchitecture: arm64\n")
    write(tmp_path / "sources", {"no-git/debian/control": "Source: no-git\n", "plain/file": ""})
    found, unusable = checkouts.find(tmp_path / "sources")
    assert [source.name for source in found] == ["good"]
    assert {path.name: reason for path, reason in unusable.items()} == {
        "linked": "it is a linked work tree or a submodule of git; give a clone",
        "no-version": "its debian/ cannot be read (debian/changelog does not begin with a version)",
        "nothing-here": "its debian/ cannot be read (debian/control has no package for amd64)",
    }
    assert [source.name for source in checkouts.find(tree)[0]] == ["good"]


def test_a_fingerprint_is_that_of_the_content(tmp_path: Path, checkout: Maker) -> None:
    tree = checkout("app")
    index = (tree / ".git/index").read_bytes()
    seen = [worktree.fingerprint(tree)]
    for change in (
        lambda: (tree / "stale").write_text("ignored"), lambda: (tree / "new").write_text("1"), lambda: (tree / "new").write_text("2"),
        lambda: (tree / "new").chmod(0o755), lambda: (tree / "debian/rules").write_text("other"), lambda: os.symlink("/nowhere", tree / "link"),
    ):  # fmt: skip
        change()
        seen.append(worktree.fingerprint(tree))
    assert seen[0] == seen[1] and len(set(seen)) == 6
    assert (tree / ".git/index").read_bytes() == index


def test_the_same_package_twice_leaves_the_given_file_as_it_is(tmp_path: Path) -> None:
    """A hard link of one must not be written through with the other's bytes."""
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        make_deb(tmp_path / place, "app", "1.0", "all", file=f"usr/{place}")
    given = [*read_given(tmp_path / "one"), *read_given(tmp_path / "two")]
    before = given[0].path.read_bytes()
    write_flat(given, tmp_path / "repository")
    assert given[0].path.read_bytes() == before
    assert [package.path for package in newest(given)] == [given[1].path]
    assert (tmp_path / "repository/pool/app_1.0_all.deb").read_bytes() == given[1].path.read_bytes()


@pytest.mark.parametrize(("text", "kept"), [
    ("aa [amd64]", ["aa"]), ("aa [arm64]", []), ("aa [!arm64]", ["aa"]), ("aa [!amd64 !i386]", []), ("aa [linux-any]", ["aa"]),
    ("aa [any-amd64 arm64] (>= 1)", ["aa"]), ("aa <!nocheck>", ["aa"]), ("aa <stage1>", []), ("aa <stage1> <!nodoc !cross>", ["aa"]),
    ("aa (>= 1) [arm64] | bb", ["bb"]), ("aa (<< 2)", ["aa (<< 2)"]),
])  # fmt: skip
def test_a_relation_for_other_machines_or_profiles_is_none(text: str, kept: list[str]) -> None:
    assert [str(relation) for clause in clauses(text) for relation in clause] == kept
