"""What op mode changes, its scripts and its definitions."""

from __future__ import annotations

import importlib.util
import inspect
import os
import subprocess
import re
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from lxml import etree
from tests.unit import op_box
from tests.unit.op_box import PLAN
from zerotier_multi import commit, engine, names, restarts, turn
from zerotier_multi.engine import IdentityError, generate_identity
from zerotier_multi.identity import PublicIdentity
from zerotier_multi.op import actions, api, gather, monitor
from zerotier_multi.op.errors import NotAllowed, NotConfigured, Unavailable
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plan import Plan, to_json

ROOT = Path(__file__).resolve().parent.parent.parent


class Box:
    """Records what is done to it; a restarted device gets a new ifindex, unless it is to stay away."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.index = {i.device: 10 + i.number for i in PLAN.instances}
        self.stays_away: set[str] = set()

    def ask(self, request: dict) -> dict:
        if request["op"] == "drain":
            self.done += [f"drain {device}" for device in request["devices"]]
            return {"ok": True}
        paths = [{"remote": "R2", "family": 4, "instance": i.number, "state": "up"} for i in PLAN.instances]
        return {"bundles": {"zt0": {"paths": paths}}}

    def systemctl(self, verb: str, *units: str, check: bool = True) -> str:
        self.done += [f"{verb} {unit}" for unit in units]
        for instance in PLAN.instances:
            if verb == "restart" and instance.unit in units and instance.device not in self.stays_away:
                self.index[instance.device] += 100
        return ""


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Box]:
    made = Box()
    homes = tuple(replace(i, home=str(tmp_path / str(i.number)), engine="/bin/true") for i in PLAN.instances)
    plan = replace(PLAN, instances=homes)
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    names.RUN_DIR.mkdir()
    names.plan_file("zt0").write_text(to_json(plan))
    for instance in homes:
        home = Path(instance.home)
        home.mkdir()
        secret = f"00000000a{instance.number}:0:{'ab' * 64}:{'cd' * 64}"
        (home / "identity.secret").write_text(secret)
        (home / "identity.public").write_text(secret[:141])
    monkeypatch.setattr(restarts, "ask", made.ask)
    monkeypatch.setattr(actions.systemd, "systemctl", made.systemctl)
    monkeypatch.setattr(actions, "_device_index", lambda instance: made.index[instance.device])
    monkeypatch.setattr(actions, "PATIENCE", 0.2)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    yield made


def steps(box: Box) -> list[str]:
    return [step for step in box.done if not step.startswith("reset-failed")]


def test_instances_restart_one_after_the_other(box: Box) -> None:
    actions.restart("zt0", None, lambda _: None)
    assert steps(box) == [s for i in PLAN.instances for s in (f"drain {i.device}", f"restart {i.unit}")]


R2, R3, R2_IPV6 = ("R2", 4), ("R3", 4), ("R2", 6)
STOPS = "stops until it is back, because no other path there is up."


@pytest.mark.parametrize(
    ("up", "notice"),
    [
        ({1: {R2, R3}, 2: {R2}, 3: {R3}}, "its flows move to the other paths."),
        ({1: {R2}}, f"traffic to R2 {STOPS}"),
        ({1: {R2, R2_IPV6}, 2: {R3}}, f"traffic to R2 {STOPS}"),
        ({1: {R2, R3}}, f"traffic to R2, R3 {STOPS}"),
        ({1: {R2, R3}, 2: {R3}}, f"its flows move to the other paths, but traffic to R2 {STOPS}"),
        ({1: {R2, R2_IPV6}, 2: {R2}}, f"its flows move to the other paths, but traffic to R2 (IPv6) {STOPS}"),
    ],
)
def test_a_restart_says_which_traffic_it_stops(
    box: Box, monkeypatch: pytest.MonkeyPatch, up: dict[int, set[tuple[str, int]]], notice: str
) -> None:
    paths = [{"remote": r, "family": f, "instance": k, "state": "up"} for k, found in up.items() for r, f in found]
    told = {"bundles": {"zt0": {"paths": [*paths, {"remote": "R2", "family": 4, "instance": 4, "state": "down"}]}}}
    monkeypatch.setattr(restarts, "ask", lambda request: box.ask(request) if request["op"] == "drain" else told)
    said: list[str] = []
    actions.restart("zt0", "1", said.append)
    actions.restart("zt0", "4", said.append)  # without a path that is up
    assert [sentence for sentence in said if " restarts" in sentence] == [f"zt0/1 restarts; {notice}", "zt0/4 restarts."]


def test_a_restart_ends_with_the_first_instance_that_stays_away(box: Box) -> None:
    box.stays_away = {"zt0p2"}
    with pytest.raises(
        Unavailable, match="^zt0/2 carried no traffic within .* after its restart, so no other instance was restarted; see: "
    ):
        actions.restart("zt0", None, lambda _: None)
    assert len(steps(box)) == 4


@pytest.mark.parametrize("number", ["9", "0", "01", "foo", "-1", "9" * 20])
def test_what_is_no_instance_is_said(box: Box, number: str) -> None:
    for command in (lambda: actions.restart("zt0", number), lambda: actions.reset_identity("zt0", number, True)):
        with pytest.raises(NotConfigured, match=f"^zt0 has no instance {number}; its instances: 1, 2, 3, 4$"):
            command()
    assert box.done == []


@pytest.mark.parametrize("request_", ["status", "drain"])
@pytest.mark.parametrize("runs", [True, False])
def test_a_restart_without_the_daemon_says_how_to_start_it(
    box: Box, monkeypatch: pytest.MonkeyPatch, request_: str, runs: bool
) -> None:
    silent = "zerotier-pathd does not answer (timeout); see: journalctl -u zerotier-pathd"

    def ask(request: dict) -> dict:
        if request["op"] == request_:
            raise PathdError(silent)
        return box.ask(request)

    def systemctl(verb: str, *units: str, check: bool = True) -> str:
        return f"Id={names.PATHD_UNIT}\nActiveState={'active' if runs else 'inactive'}\n"

    monkeypatch.setattr(restarts, "ask", ask)
    monkeypatch.setattr(actions.systemd, "systemctl", systemctl)
    stopped = "zerotier-pathd is not running, so the paths are not monitored; start it with: sudo systemctl start zerotier-pathd"
    before = "no instance can be restarted without interruption" if request_ == "status" else "zt0/1 was not restarted"
    with pytest.raises(Unavailable) as refused:
        actions.restart("zt0", "1", lambda _: None)
    assert str(refused.value) == f"{before}: {silent if runs else stopped}"


def test_a_restart_waits_for_a_commit_and_says_so(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "PATIENCE", 0.2)
    somebody, said = turn.Turn(), list[str]()
    assert somebody.take()
    with pytest.raises(Unavailable, match=r"^zt0/1 was not restarted: a commit was not done after .*; try again when it is$"):
        actions.restart("zt0", None, said.append)
    waits = "zt0/1 restarts when a commit or another command is done."
    assert box.done == [] and said == [waits]
    somebody.end()
    actions.restart("zt0", "1", said.append)
    assert steps(box) == ["drain zt0p1", f"restart {PLAN.instances[0].unit}"] and said.count(waits) == 1


def test_a_commit_goes_between_two_restarts_and_not_while_one_is_away(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would restart the others at once, because one that is away carries nothing."""

    def committed() -> None:
        other = turn.Turn()
        assert other.take()
        box.done.append("commit")
        names.plan_file("zt0").write_text(to_json(replace(actions.enabled_plan_of("zt0"), mtu=1300)))
        other.end()

    def ask(request: dict) -> dict:
        if request["op"] == "drain":
            other.start()
        elif "commit" not in box.done:
            assert not turn.Turn().take(0.0)
        return box.ask(request)

    other = threading.Thread(target=committed)
    monkeypatch.setattr(restarts, "ask", ask)
    with pytest.raises(Unavailable, match="^zt0/2 was not restarted: zt0 was changed meanwhile; try again$"):
        actions.restart("zt0", None, lambda _: None)
    other.join()
    assert steps(box) == ["drain zt0p1", f"restart {PLAN.instances[0].unit}", "commit"]


@pytest.mark.parametrize("answer", ["", "n", "no", "yess"])
def test_identities_stay_without_a_yes(box: Box, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    said: list[str] = []
    actions.reset_identity("zt0", None, False, said.append)
    assert box.done == [] and said[-1] == "Nothing was changed."
    assert "zt0/1 loses its identity, node 00000000a1, for good." in said


def test_a_reset_says_which_networks_end_with_the_node(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    networks = Path(actions.enabled_plan_of("zt0").instances[1].home) / "controller.d/network"
    networks.mkdir(parents=True)
    for network in ("00000000a2000001", "00000000a2000002", "00000000c2000001"):
        (networks / f"{network}.json").write_text("{}")
    monkeypatch.setattr("builtins.input", lambda _question: "n")
    said: list[str] = []
    actions.reset_identity("zt0", None, False, said.append)
    assert said[1:4] == [
        "zt0/2 loses its identity, node 00000000a2, for good.",
        "It is the controller of 00000000a2000001, 00000000a2000002, and such a network ends with its node: "
        "all its members need another network.",
        "zt0/3 loses its identity, node 00000000a3, for good.",
    ]


def test_an_identity_is_deleted_after_a_yes_and_made_anew(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = actions.enabled_plan_of("zt0")

    def generate(change: commit.Change) -> None:
        assert change.plan == plan
        for instance in plan.instances:
            secret = Path(instance.home) / "identity.secret"
            if not secret.exists():
                secret.write_text(f"00000000c{instance.number}:0:{'ab' * 64}:{'cd' * 64}")

    monkeypatch.setattr(commit, "_generate", generate)
    monkeypatch.setattr(commit, "_apply", lambda change: box.done.append("apply"))
    monkeypatch.setattr("builtins.input", lambda _question: "y")
    said: list[str] = []
    actions.reset_identity("zt0", "2", False, said.append)
    assert box.done == ["drain zt0p2", f"stop {plan.instances[1].unit}", "apply"]
    assert said[-1] == "zt0/2 is node 00000000c2 now."
    assert not (Path(plan.instances[1].home) / "identity.public").exists()
    assert (Path(plan.instances[0].home) / "identity.secret").read_text().startswith("00000000a1")
    assert "cd" * 64 not in "".join(said)


@pytest.mark.parametrize("what", ["commit", "deletion", "reset"])
def test_who_answers_late_undoes_nothing(box: Box, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The question may stand for hours; what others have changed in that time stays."""
    plan = actions.enabled_plan_of("zt0")
    file, secret = names.plan_file("zt0"), Path(plan.instances[1].home) / "identity.secret"
    monkeypatch.setattr(commit, "_generate", lambda _change: box.done.append("generate"))
    monkeypatch.setattr(commit, "_apply", lambda _change: box.done.append("apply"))

    def typed(_question: str) -> str:
        match what:
            case "commit":
                file.write_text(to_json(replace(plan, mtu=1300)))
            case "deletion":
                file.unlink()
            case _:
                secret.write_text(f"00000000b2:0:{'ab' * 64}:{'cd' * 64}")
        return "y"

    monkeypatch.setattr("builtins.input", typed)
    with pytest.raises(Unavailable, match=rf"^zt0{'/2' if what == 'reset' else ''} was changed meanwhile; try again$"):
        actions.reset_identity("zt0", None, False, lambda _: None)
    assert box.done == [] and all((Path(i.home) / "identity.secret").exists() for i in plan.instances)
    assert not file.exists() or (actions.enabled_plan_of("zt0").mtu == 1300) == (what == "commit")


def test_why_no_identity_was_made_is_said(tmp_path: Path) -> None:
    """Also of zerotier-one, which says nothing and ends with 0 when the disk is full."""
    silent, talker, home = tmp_path / "silent", tmp_path / "talker", tmp_path / "home"
    silent.write_text("#!/bin/sh\n>$3\n>$4\n")
    talker.write_text("#!/bin/sh\necho 'cannot write x: Permission denied' >&2; exit 1\n")
    home.mkdir()
    for program in (silent, talker):
        program.chmod(0o755)
    with pytest.raises(IdentityError, match="cannot write x: Permission denied$"):
        generate_identity(str(talker), home)
    with pytest.raises(IdentityError, match=r"it left an incomplete identity \(ValueError\)$"):
        generate_identity(str(silent), home)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(home)], check=True)
    try:
        (home / "full").write_bytes(bytes(4096))
        with pytest.raises(IdentityError, match="could not create an identity in .*: No space left on device$"):
            generate_identity(str(silent), home)
        assert [path.name for path in home.iterdir()] == ["full"]
    finally:
        subprocess.run(["umount", str(home)], check=True)


def test_a_search_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence says so, and what it has begun is gone. A start of zerotier-pathd has as long."""
    unit = ROOT / "packages/zerotier-multi/systemd/zerotier-pathd.service"
    assert f"TimeoutStartSec={engine.LIMIT:g}\n" in unit.read_text()
    monkeypatch.setattr(engine, "LIMIT", 0.2)
    endless, home = tmp_path / "endless", tmp_path / "home"
    endless.write_text("#!/bin/sh\n>$3\nexec sleep 60\n")
    endless.chmod(0o755)
    home.mkdir()
    with pytest.raises(
        IdentityError, match=r"could not create .*: it was not done after 0.2 s; commit again when the CPU is less busy$"
    ):
        generate_identity(str(endless), home)
    assert not list(home.iterdir())


def test_a_new_identity_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    identity = f"89e92ceee5:0:{'ab' * 64}"
    engine.write_text(f"#!/bin/sh\necho {identity}:{'cd' * 64} >$3\necho {identity} >$4\n")
    engine.chmod(0o755)
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(actions.names, "RUN_DIR", run / "zerotier-multi")
    monkeypatch.setattr(actions.box, "find_engines", lambda: {"ztnode": str(engine)})
    modes = []

    def spied(program: str, home: Path) -> PublicIdentity:
        modes.append(home.stat().st_mode & 0o777)
        return generate_identity(program, home)

    monkeypatch.setattr(actions, "generate_identity", spied)
    found = actions.new_identity()
    assert found == {"schema": 1, "node": "89e92ceee5", "public": identity, "secret": f"{identity}:{'cd' * 64}"}
    assert list(run.iterdir()) == [] and modes == [0o700]
    assert found["secret"] in actions.identity_text(found)
    monkeypatch.setattr(actions.box, "find_engines", dict)
    with pytest.raises(Unavailable, match="no engine is installed"):
        actions.new_identity()


def test_only_root_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for call in (gather.require_root, actions.new_identity, lambda: gather.snapshot([])):
        with pytest.raises(NotAllowed, match="root is required"):
            call()


def test_a_monitor_follows_what_is_committed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is left open on a screen for days."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    shorter = replace(PLAN, instances=PLAN.instances[:2], paths=PLAN.paths[:2])
    names.plan_file("zt0").write_text(to_json(shorter))
    watched: list[Plan] = []

    class Watcher:
        def __init__(self, plans: list[Plan]) -> None:
            self._plan = plans[0]
            watched.append(self._plan)

        def look(self) -> Snapshot:
            return op_box.box(self._plan)

    monkeypatch.setattr(monitor, "Watcher", Watcher)
    live = monitor.Live("zt0")
    assert all("instances 2/2, paths 2/2" in live.block(False) for _ in range(2)) and watched == [shorter]
    names.plan_file("zt0").write_text(to_json(PLAN))
    assert all("instances 4/4, paths 4/4" in live.block(False) for _ in range(2)) and watched == [shorter, PLAN]
    names.plan_file("zt0").unlink()
    with pytest.raises(NotConfigured, match=r"^interfaces zerotier zt0 is not configured; configured bundles: none$"):
        live.block(False)


def test_on_a_narrow_terminal_a_long_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What is drawn is counted in lines; the terminal continues long lines again at the end."""
    with monitor._screen():
        begin = capsys.readouterr().out
    assert "\x1b[?7l" in begin and "\x1b[?7h" in capsys.readouterr().out


def test_a_process_and_its_counters_are_read(tmp_path: Path) -> None:
    assert gather.read_process(os.getpid()).memory > 1 << 20
    assert gather.read_process(0) is None and gather.read_counters("zt0p1", tmp_path) is None
    assert gather.read_counters("lo").rx_bytes >= 0


# -- the scripts and the definition


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("op_mode_zerotier", ROOT / "src/op_mode/zerotier.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands() -> list[str]:
    tree = etree.parse(str(ROOT / "op-mode-definitions/zerotier.xml.in"))
    return [element.text for element in tree.iter("command")]


def test_every_command_of_the_definition_exists_with_its_options(script: ModuleType) -> None:
    found = set()
    for command in commands():
        assert not re.search(r"[^=]\"\$", command), f"{command}: a word with a dash would be an option"
        if "zerotier_monitor.py" in command or "zerotier_benchmark.py" in command:
            continue
        name, options = re.fullmatch(r"(?:LESSOPEN= )?sudo \$\{vyos_op_scripts_dir\}/zerotier\.py (\w+)(.*)", command).groups()
        known = inspect.signature(getattr(script, name)).parameters
        assert {o.replace("-", "_") for o in re.findall(r"--([\w-]+)", options)} <= set(known)
        assert ("raw" in known) == name.startswith(("show_", "generate_"))
        found.add(name)
    public = {n for n, f in inspect.getmembers(script, inspect.isfunction) if not n.startswith("_")}
    assert found == public


def test_the_positions_in_commands_are_those_of_the_words() -> None:
    """``$N`` must be the N-th word, and that word the name of a tag node's instance."""

    def walk(element: etree._Element, words: list[str]) -> Iterator[tuple[list[str], str]]:
        for child in element.iterchildren("node", "tagNode", "leafNode"):
            here = [*words, child.get("name"), *(["*"] if child.tag == "tagNode" else [])]
            if child.find("command") is not None:
                yield here, child.findtext("command")
            if child.find("children") is not None:
                yield from walk(child.find("children"), here)

    for words, command in walk(etree.parse(str(ROOT / "op-mode-definitions/zerotier.xml.in")).getroot(), []):
        used = {int(n) for n in re.findall(r"\$(\d)", command)}
        assert used == {at for at, word in enumerate(words, start=1) if word == "*"}, words


def test_completion_without_anything_configured_is_empty() -> None:
    remotes = ["--remotes"], ["--remotes", "zt250"], ["--remotes", "../../etc/passwd"], ["--remotes", "zt0/../$(id)"]
    for arguments in ([], ["--instances"], ["--instances", "zt250"], ["--instances", "$(id)"], *remotes):
        done = subprocess.run([ROOT / "src/completion/list_zerotier.sh", *arguments], capture_output=True, text=True, check=True)
        assert done.stderr == "" and re.fullmatch(r"(zt\d+\n|\d+\n)*", done.stdout)


HOSTILE = [
    "../../etc/shadow",
    "/etc/shadow",
    "x" * 5000,
    "zt0/../zt1",
    "a b",
    "",
    "-x",
    "--",
    "\x1b[2Jx",
    "x\nset system",
    "²",
    "$(id)",
    "%s",
    "\udcff",
]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs a script as the shell does: its exit status, and what it told."""

    def call(name: str, *arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / "src/op_mode" / name), run_name="__main__")
        told = capsys.readouterr()
        return int(end.value.code or 0), (told.out + told.err).strip()

    return call


@pytest.mark.parametrize("value", [*HOSTILE, "zt999", "eth0"])
def test_a_hostile_value_gets_one_sentence(called: Callable[..., tuple[int, str]], value: str) -> None:
    """Whatever the argument: no traceback, nothing that a terminal acts on, no file of that name."""
    calls = [("zerotier.py", "show_bundle", f"--bundle={value}"), ("zerotier_monitor.py", f"--bundle={value}")]
    calls += [("zerotier.py", "show_interfaces", f"--bundle={value}")] if value else []
    calls += [("zerotier.py", "show_identity", f"--bundle={value}", "--name=R1")]
    calls += [("zerotier.py", "show_identity", "--bundle=zt0", f"--name={value}")] if value in HOSTILE else []
    for script, *arguments in calls:
        status, told = called(script, *arguments)
        assert status == 1 and told.isprintable() and len(told) < 250, told
        assert ("cannot be the name of a remote" if f"--name={value}" in arguments else "is not configured") in told


@pytest.mark.parametrize("value", ["", "x", "²", "1e3", "9" * 5000, "0x1", "../1", "1\n2", "-1", "--"])
def test_a_hostile_number_gets_one_sentence(box: Box, called: Callable[..., tuple[int, str]], value: str) -> None:
    for command in ("restart_bundle", "reset_identity"):
        status, told = called("zerotier.py", command, "--bundle=zt0", f"--instance={value}")
        assert status == 1 and told.isprintable() and told.startswith("zt0 has no instance "), told
    assert box.done == []


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        (KeyboardInterrupt, 130, "Nothing was changed."),
        (EOFError, 1, "nobody answered, so nothing was changed; type y, or pass it on the standard input"),
    ],
)
def test_who_does_not_answer_changes_nothing(
    box: Box, called: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, end: type, status: int, told: str
) -> None:
    def typed(_question: str) -> str:
        raise end

    monkeypatch.setattr("builtins.input", typed)
    got, text = called("zerotier.py", "reset_identity", "--bundle=zt0")
    assert (got, text.splitlines()[-1]) == (status, told) and box.done == []


def test_a_command_that_somebody_ends_says_nothing_of_it(
    called: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_bundle: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "_look", interrupted)
    assert called("zerotier.py", "show_bundle", "--bundle=zt0") == (130, "")


def test_the_name_of_a_remote_is_that_of_the_definition() -> None:
    definition = etree.parse(ROOT / "interface-definitions/interfaces_zerotier.xml.in")
    assert definition.xpath("//tagNode[@name='remote']/properties/constraint/regex/text()") == [names.REMOTE_RE.pattern]
