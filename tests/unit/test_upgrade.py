"""An upgrade leaves instances running, and says what they run; what is not installed cannot be restarted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit import op_box
from zerotier_multi import names, restarts
from zerotier_multi.op import actions, data, gather
from zerotier_multi.op.errors import Unavailable
from zerotier_multi.plan import to_json

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = "zerotier-multi"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the package zerotier-multi, as its rules lay them out."""
    tree = tmp_path_factory.mktemp("tree")
    left_out = shutil.ignore_patterns("build", "__pycache__", ".debhelper")
    sources = "packages/zerotier-multi packages/ztsh python src interface-definitions op-mode-definitions smoketest"
    for name in sources.split():
        shutil.copytree(ROOT / name, tree / name, ignore=left_out)
    place = tree / "packages" / NAME
    shutil.rmtree(place / "debian" / NAME, ignore_errors=True)
    subprocess.run(["make", "-s", "-f", "debian/rules", "override_dh_auto_install"], cwd=place, capture_output=True, check=True)
    return place / "debian" / NAME


def test_needrestart_leaves_instances_to_their_user(package: Path) -> None:
    """It would restart all of them in one command; of zerotier-pathd it may, because that loses nothing."""
    (file,) = (package / "etc/needrestart/conf.d").iterdir()
    assert file.suffix == ".conf"
    units = ["zerotier-multi@zt0-1.service", "zerotier-multi@zt12-16.service", "zerotier-pathd.service", "ssh.service"]
    # As needrestart reads a file, and as it takes the first expression that fits.
    program = """
        my %nrconf = (override_rc => {qr(^dbus) => 0});
        eval do { local(@ARGV, $/) = shift; <> }; die $@ if $@;
        for my $unit (@ARGV) { print "$unit\\n" if grep { $unit =~ /$_/ && !$nrconf{override_rc}->{$_} } keys %{$nrconf{override_rc}}; }
    """
    done = subprocess.run(["perl", "-e", program, str(file), *units], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == units[:2]


@contextmanager
def running(program: Path) -> Iterator[int]:
    """The number of a process that runs a program."""
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "60"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_a_process_of_which_the_program_is_another_one_now_is_known(tmp_path: Path) -> None:
    def replaced() -> bool:
        found = gather.read_process(pid)
        assert found is not None
        return found.replaced

    program = tmp_path / "ztnode"
    with running(program) as pid:
        assert not replaced()
        shutil.copy("/bin/sleep", tmp_path / "new")
        os.replace(tmp_path / "new", program)  # as dpkg does it
        assert replaced()
        program.unlink()
        assert not replaced()  # a restart would bring nothing


@pytest.mark.parametrize(
    ("numbers", "subject"), [([], ""), ([2], "zt0/2 runs"), ([1, 2, 3, 4], "zt0/1-4 run"), ([1, 3, 4], "zt0/1,3-4 run")]
)
def test_instances_on_the_program_of_before_are_named(numbers: list[int], subject: str) -> None:
    seen = op_box.box()
    units = {op_box.PLAN.instances[number - 1].unit for number in numbers}
    processes = {unit: replace(process, replaced=unit in units) for unit, process in seen.last.processes.items()}
    warnings = data.summary(replace(seen, last=replace(seen.last, processes=processes)))["bundles"][0]["warnings"]
    told = f"{subject} the program from before the upgrade; to change it: restart zerotier zt0"
    assert warnings == ([told] if numbers else [])


def test_the_package_of_the_engine_names_the_bundles_that_run_on(tmp_path: Path) -> None:
    """And no other: zt1 has been restarted since, zt2 runs another engine, an instance of zt3 is not there."""
    script = (ROOT / "packages/ztnode/debian/postinst").read_text()
    old, new, other = (tmp_path / name / engine for name, engine in (("old", "ztnode"), ("new", "ztnode"), ("old", "zerotier-one")))
    old.parent.mkdir()
    new.parent.mkdir()
    with running(old) as first, running(new) as second, running(other) as third:
        old.unlink()
        other.unlink()
        units = {"zt10-1": first, "zt0-1": second, "zt0-2": first, "zt0-12": first, "zt1-1": second, "zt2-1": third, "zt3-1": 0}
        listed = "\n".join(f"MainPID={pid}\nId=zerotier-multi@{name}.service\n" for name, pid in units.items())
        fake = tmp_path / "systemctl"
        fake.write_text(f"#!/bin/sh\ncat <<'END'\n{listed}END\n")
        fake.chmod(0o755)

        def told(*arguments: str) -> str:
            booted = script.replace("/run/systemd/system", str(tmp_path))
            env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
            done = subprocess.run(["sh", "-c", booted, "postinst", *arguments], env=env, capture_output=True, text=True, check=True)
            return done.stdout + done.stderr

        line = "ztnode: {} runs the program from before the upgrade; to change it: restart zerotier {}\n"
        assert told("configure", "0.2.0") == line.format("zt0", "zt0") + line.format("zt10", "zt10")
        assert told("configure", "") == told("abort-upgrade", "0.2.0") == ""
        fake.write_text("#!/bin/sh\nexit 1\n")
        assert told("configure", "0.2.0") == ""


def test_an_engine_that_is_not_installed_is_no_reason_to_stop_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = tuple(replace(i, home=str(tmp_path), engine=str(tmp_path / "ztnode")) for i in op_box.PLAN.instances)
    plan = replace(op_box.PLAN, instances=homes)
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    names.RUN_DIR.mkdir()
    names.plan_file("zt0").write_text(to_json(plan))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(actions, "_watch", lambda plan, instance: lambda: True)
    monkeypatch.setattr(actions, "paths_up", lambda bundle: {})
    asked: list[object] = []
    monkeypatch.setattr(restarts, "ask", asked.append)
    monkeypatch.setattr(actions.systemd, "systemctl", lambda *words, **_: asked.append(words))
    with pytest.raises(Unavailable) as refused:
        actions.restart("zt0", None, asked.append)
    assert str(refused.value) == (
        f"zt0/1 was not restarted, because it could not start again: {tmp_path}/ztnode is not installed; install the package ztnode"
    )
    assert asked == []
    shutil.copy("/bin/true", tmp_path / "ztnode")
    actions.restart("zt0", "1", asked.append)
    assert ("restart", plan.instances[0].unit) in asked
