"""A commit that the router cannot follow."""

from __future__ import annotations

import errno
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, ROOT, bundle
from tests.unit.op_box import PLAN
from tests.unit.test_configured_identity import secret
from zerotier_multi import commit, names, systemd
from zerotier_multi.cpu import Cpu
from zerotier_multi.homefiles import HomeFiles
from zerotier_multi.identity import SecretIdentity
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.pathd.kernel.sysctls import HASH_POLICIES
from zerotier_multi.plan import Plan, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.plans import published_plans
from zerotier_multi.units import dropin

SILENT = "zerotier-pathd does not answer (TimeoutError); see: journalctl -u zerotier-pathd.service"


@pytest.mark.parametrize("wanted", [replace(PLAN, mtu=1300), None], ids=["changed", "deleted"])
@pytest.mark.parametrize("before", [PLAN, None], ids=["there", "new"])
@pytest.mark.parametrize("fault", [PathdError(SILENT), systemd.SystemdError("systemctl start: failed")])
def test_the_plan_before_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Exception, before: Plan | None, wanted: Plan | None
) -> None:
    """It is not configured, so nothing may be published that no later commit takes away; and no process was touched."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    path = names.plan_file("zt0")
    if before:
        path.write_text(to_json(before))
    seen: list[bool] = []
    done: list[str] = []

    def systemctl(*words: str, **_options: bool) -> str:
        done.append(words[0])
        if words[0] == "start" and isinstance(fault, systemd.SystemdError):
            raise fault
        return ""

    def ask(_request: object) -> dict[str, object]:
        seen.append(path.exists())
        raise fault

    monkeypatch.setattr(systemd, "systemctl", systemctl)
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    monkeypatch.setattr(commit, "ask", ask)
    with pytest.raises(commit.CommitError, match=r"^interfaces zerotier zt0: (zerotier-pathd does not answer|systemctl start)"):
        commit.apply(commit.Change("zt0", wanted))
    assert seen == ([wanted is not None] if isinstance(fault, PathdError) else [])
    assert (path.read_text() if path.exists() else None) == (to_json(before) if before else None)
    assert done == ["start", "kill"], "one that is only late reads what came back"


@pytest.mark.parametrize(("change", "left"), [
    (commit.Change("zt0", PLAN), "a key"),
    (commit.Change("zt0", PLAN, api_key="another"), "another"),
    (commit.Change("zt0", PLAN, api_key=None), None),
    (commit.Change("zt0", None), None),
], ids=["plan alone", "other key", "no controller", "deleted"])  # fmt: skip
def test_who_has_a_plan_alone_leaves_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: commit.Change, left: str | None
) -> None:
    """Op mode starts instances anew by their plan, which has no secret."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    monkeypatch.setattr(commit, "ask", lambda _request: {})
    commit._publish_key("zt0", "a key")
    commit._follow(change)
    key = names.controller_key("zt0")
    assert (key.read_text() if key.exists() else None) == left


@pytest.mark.parametrize(
    ("lines", "settings"),
    [
        ([], {}),
        (["system ip multipath layer4-hashing"], {HASH_POLICIES[0]: "1"}),
        ([f"system {family} multipath layer4-hashing" for family in ("ip", "ipv6")], dict.fromkeys(HASH_POLICIES, "1")),
        (["system ip multipath ignore-unreachable-nexthops"], {}),
    ],
)
def test_the_daemon_is_told_of_the_hash_policy_of_the_router(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[str], settings: dict[str, str]
) -> None:
    """By the script, with what VyOS gives it: the bundle is deleted, and the policy is configured."""
    tree: dict[str, object] = {}
    for line in lines:
        at: dict = tree
        for word in line.split():
            at = at.setdefault(word, {})

    class Config:
        def get_config_dict(self, path: list[str], **_options: bool) -> object:
            at: object = tree
            for word in path:
                at = at.get(word, {}) if isinstance(at, dict) else {}
            return at

    script = runpy.run_path(str(ROOT / "src/conf_mode/interfaces_zerotier.py"))
    monkeypatch.setenv("VYOS_TAGNODE_VALUE", "zt0")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    asked: list[object] = []
    monkeypatch.setattr(commit, "ask", lambda request: asked.append(request) or {})
    config = script["get_config"](Config())
    script["verify"](config)
    script["generate"](config)
    script["apply"](config)
    assert asked == [{"op": "sync", "settings": settings}]


OTHER = make_plan(
    bundle(f"{EXAMPLE}network-config 192.0.2.0/24 trusted-path 7\n"), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/ztnode"
)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """A router that runs :data:`PLAN`: what is in its homes, by their place."""
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "config")
    monkeypatch.setattr(names, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(names, "UNIT_DROPIN_ROOT", tmp_path / "system")
    monkeypatch.setattr(commit, "read_hosts", dict)
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    systemd.apply_dropins({i.unit: dropin(i, "before") for i in PLAN.instances}, [])
    commit._generate(change(PLAN))
    commit._publish(change(PLAN))
    commit._before.clear()
    return lambda: {
        str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".lock"
    }


def change(plan: Plan) -> commit.Change:
    """To this plan, with the homes of the test."""
    return commit.Change(
        "zt0", replace(plan, instances=tuple(replace(i, home=str(names.home("zt0", i.number))) for i in plan.instances))
    )


def test_homes_are_as_before_where_the_disk_is_full(files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs reads its local.conf again by itself, so it would follow a commit that was refused."""
    before = files()

    def sync_home(home: Path, wanted: HomeFiles, real: Callable[..., object] = commit.sync_home) -> object:
        if home.name == "3":
            raise OSError(errno.ENOSPC, "No space left on device", str(home / "local.conf"))
        return real(home, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(commit, "sync_home", sync_home)
        with pytest.raises(commit.CommitError, match=r"3/local\.conf cannot be written \(No space left on device\); free space"):
            commit.generate(change(OTHER))
    assert files() == before
    commit.generate(change(OTHER))
    commit._turn.end()
    assert files() != before


def test_homes_are_as_before_where_the_daemon_does_not_follow(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])

    def silent(_request: object) -> dict[str, object]:
        raise PathdError(SILENT)

    monkeypatch.setattr(commit, "ask", silent)
    commit.generate(change(OTHER))
    assert files() != before
    with pytest.raises(commit.CommitError, match="does not answer"):
        commit.apply(change(OTHER))
    assert files() == before


@pytest.mark.parametrize("started", [False, True])
def test_what_was_restarted_keeps_what_it_was_restarted_for(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, started: bool
) -> None:
    """Before the first process is touched everything goes back, its plan too; after it nothing does."""
    before = files()
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    monkeypatch.setattr(commit, "ask", lambda _request: {})

    def refuse(*_given: object) -> None:
        raise systemd.SystemdError("systemctl start: refused")

    def no_reload(*words: str, check: bool = True) -> str:
        if words[0] == "daemon-reload" and not started and check:
            refuse()
        return f"{OTHER.instances[0].unit} loaded active running\n" if words[0] == "list-units" else ""

    monkeypatch.setattr(systemd, "systemctl", no_reload)
    monkeypatch.setattr(commit, "_start", refuse)
    commit.generate(change(OTHER))
    with pytest.raises(commit.CommitError, match="systemctl start: refused"):
        commit.apply(change(OTHER))
    after = files()
    changed = {name for name, content in before.items() if after[name] != content}
    assert {Path(name).name for name in changed} == (
        {"local.conf", names.plan_file("zt0").name, names.DROPIN_NAME} if started else set()
    )


def test_what_the_daemon_wrote_by_the_plan_of_before_is_not_what_an_instance_starts_with(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes homes where an address of a name has changed, or an instance is not on its network, without a commit's turn."""
    before = files()
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    monkeypatch.setattr(commit, "_await_devices", lambda _instances: None)
    commit.generate(change(OTHER))
    wanted = files()
    homes = {name for name in wanted if name.endswith("local.conf") and wanted[name] != before[name]}
    assert homes

    def ask(_request: object) -> dict[str, object]:
        plan = change(PLAN).plan
        assert plan
        for instance in plan.instances:
            commit.sync_home(Path(instance.home), commit._files(plan, instance))
        assert {name for name in homes if files()[name] == before[name]} == homes
        return {}

    monkeypatch.setattr(commit, "ask", ask)
    monkeypatch.setattr(commit, "_start", lambda *_given: None)
    commit.apply(change(OTHER))
    assert {name: files()[name] for name in homes} == {name: wanted[name] for name in homes}


@pytest.mark.parametrize("had", [True, False], ids=["another before", "none before"])
def test_an_identity_of_a_refused_commit_does_not_stay(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, had: bool
) -> None:
    """The next start of the instance would be another node, which no remote knows."""
    home = names.home("zt0", 1)
    if had:
        (home / "identity.secret").write_text(secret(2))
    before = files()
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])

    def interrupted(_request: object) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(commit, "ask", interrupted)
    given = replace(change(PLAN), secrets={1: SecretIdentity.parse(secret(1))})
    commit.generate(given)
    assert (home / "identity.secret").read_text().strip() == secret(1)
    with pytest.raises(KeyboardInterrupt):
        commit.apply(given)
    assert files() == before


def test_homes_of_op_mode_stay_as_it_has_left_them(files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive was put back: what its homes had before belongs to a node that is gone."""
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    monkeypatch.setattr(commit, "ask", lambda _request: (_ for _ in ()).throw(PathdError(SILENT)))
    (plan,) = published_plans()
    local = names.home("zt0", 1) / "local.conf"
    right = local.read_bytes()
    with pytest.raises(commit.CommitError, match="does not answer"):
        commit.renew({"zt0": plan}, lambda: local.write_text("of another node") and None)
    assert local.read_bytes() == right


# -- the end of a commit


def test_a_commit_waits_for_devices_that_will_come(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not for that of an instance that has ended, nor of one that its controller has not admitted."""
    monkeypatch.setattr(commit.usage, "SYSFS", tmp_path / "net")
    monkeypatch.setattr(commit, "SOON", 0.02)
    monkeypatch.setattr(commit.restarts, "PATIENCE", 5.0)
    made = change(PLAN).plan
    assert made is not None
    first, second, *others = made.instances
    for instance in made.instances[:2]:
        conf = Path(instance.home, "networks.d", f"{instance.network_id}.conf")
        conf.parent.mkdir(exist_ok=True)
        conf.write_text("n=x")
    for instance in others:
        conf = Path(instance.home, "networks.d", f"{instance.network_id}.conf")
        conf.write_text("")
    asked: list[list[str]] = []

    def unit_states(units: list[str]) -> dict[str, systemd.UnitState]:
        asked.append(units)
        if len(asked) == 3:
            (tmp_path / "net" / first.device).mkdir(parents=True)
        return {unit: systemd.UnitState("failed" if unit == second.unit else "active", 1) for unit in units}

    monkeypatch.setattr(systemd, "unit_states", unit_states)
    commit._await_devices(made.instances)
    assert asked[:3] == [sorted([first.unit, second.unit])] * 3 and asked[3:] == [[second.unit]]


def test_what_runs_under_other_settings_is_restarted_and_what_is_pinned_elsewhere_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(systemd, "started_digest", {1: "old", 2: "new", 3: "new"}.get)
    monkeypatch.setattr(systemd, "repin", lambda pid, cpus, everywhere: done.append(("pin", pid, cpus)))
    monkeypatch.setattr(systemd, "start", lambda units: done.append(("start", units)))
    monkeypatch.setattr(commit.restarts, "restart", lambda bundle, stale: done.append((bundle, [i.number for i in stale])))
    units = {i.unit: i for i in PLAN.instances}
    kinds = [("active", 1), ("active", 2), ("inactive", 0), ("activating", 0)]
    states = {unit: systemd.UnitState(word, pid) for unit, (word, pid) in zip(units, kinds, strict=True)}
    commit._start("zt0", units, states, dict.fromkeys(units, "new"))
    three = [unit for unit in units if not states[unit].running]
    assert done == [("pin", 2, PLAN.instances[1].cpus), ("start", three), ("zt0", [1])] and len(three) == 1
