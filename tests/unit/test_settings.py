"""Settings of local.conf: every row of the table from the CLI to the file, and the table's own machinery."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.definition import Node, definition
from zerotier_multi.engine_choice import choose_engine, engine_problems
from zerotier_multi.homefiles import home_files, local_conf
from zerotier_multi.plan import Plan, SettingPlan, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.settings import ANY, SETTINGS, Given, Key, Setting, Value, given_settings, put, without_live

CPUS = tuple(Cpu(n, n) for n in range(4))
ENGINES = {"zerotier-one": "/sbin/zerotier-one", "ztnode": "/sbin/ztnode"}
# Lines that set a row whose value the definition gives no sample of: path -> line below the bundle.
SAMPLES: dict[str, str] = {"offload disable": "offload disable uso"}


def line_of(setting: Setting) -> str:
    """A line of the CLI that sets it."""
    node = definition()[setting.path.replace(f"{ANY} ", "")]
    if setting.path in SAMPLES:
        return SAMPLES[setting.path]
    return setting.path if node.valueless else f"{setting.path} {node.ranges[0][1]}"


def plan_of(text: str) -> Plan:
    return make_plan(bundle(EXAMPLE + text), CPUS, "/usr/sbin/zerotier-one")


def conf_of(plan: Plan, instance: int = 1) -> dict[str, Any]:
    return dict(json.loads(local_conf(plan, plan.instances[instance - 1])))


def digest_of(plan: Plan) -> str:
    return home_files(plan, plan.instances[0], None).restart_digest


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_a_row_goes_from_the_cli_to_local_conf(setting: Setting) -> None:
    parsed, plan = bundle(EXAMPLE + line_of(setting)), plan_of(line_of(setting))
    (given,) = parsed.settings
    value: Any = conf_of(plan)
    for part in given.key:
        value = value[part]
    assert value == (list(given.value) if isinstance(given.value, tuple) else given.value)
    assert from_json(to_json(plan)) == plan
    assert (digest_of(plan) == digest_of(plan_of(""))) is setting.live
    assert given.path in line_of(setting)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_an_engine_that_lacks_it_is_not_taken(setting: Setting) -> None:
    automatic, ours = bundle(EXAMPLE + line_of(setting)), bundle(EXAMPLE + line_of(setting) + "\nengine ztnode")
    choice, refused = choose_engine(automatic, ENGINES, {}), [str(problem) for problem in engine_problems(ours, ENGINES, {})]
    if setting.lacks:
        (given,) = automatic.settings
        assert choice and (choice.program, choice.reason) == ("/sbin/zerotier-one", f"auto: {given.path} needs it")
        why = f"needs zerotier-one, because ztnode {setting.lacks}; set engine auto"
        assert refused == [f"interfaces zerotier zt0 {given.path} {why}"]
    else:
        assert choice and choice.program == "/sbin/ztnode" and refused == []


def test_without_settings_local_conf_has_ours_alone() -> None:
    settings = conf_of(plan_of(""))["settings"]
    assert {setting.key[-1] for setting in SETTINGS}.isdisjoint(settings)


# -- the machinery, with rows of every kind

TABLE = (
    Setting("low", ("settings", "low"), lacks="has none"),
    Setting("no-relay", ("settings", "relay"), live=True, when_set=False),
    Setting("options cores", ("settings", "concurrency")),
    Setting("from", ("settings", "allowFrom")),
    Setting("net * mtu", ("physical", ANY, "mtu")),
    Setting("policy * link * mode", ("settings", "policies", ANY, "links", ANY, "mode"), live=True),
)
NODES = {
    "low": Node(valueless=True),
    "no-relay": Node(valueless=True),
    "options cores": Node(ranges=((2, 8),), message="Cores must be 2 to 8"),
    "from": Node(multi=True),
    "net": Node(tag=True),
    "net mtu": Node(ranges=((1000, 9000),), message="MTU must be 1000 to 9000"),
    "policy link mode": Node(words=frozenset({"primary", "spare"})),
    "instance options cores": Node(ranges=((2, 8),)),
}


def given(tree: dict[str, Any], above: str = "") -> tuple[dict[Key, Value], list[tuple[str, str, str]]]:
    wrong: list[tuple[str, str, str]] = []
    found = given_settings(tree, NODES, above, lambda *what: wrong.append(what), TABLE)
    return {setting.key: setting.value for setting in found}, wrong


@pytest.mark.parametrize(
    ("tree", "settings"),
    [
        ({}, {}),
        ({"low": {}, "no-relay": {}}, {("settings", "low"): True, ("settings", "relay"): False}),
        ({"options": {"cores": "4"}}, {("settings", "concurrency"): 4}),
        ({"from": "192.0.2.0/24"}, {("settings", "allowFrom"): ("192.0.2.0/24",)}),
        ({"from": ["192.0.2.1/32", "192.0.2.2/32"]}, {("settings", "allowFrom"): ("192.0.2.1/32", "192.0.2.2/32")}),
        (
            {"net": {"192.0.2.0/24": {"mtu": "1400"}, "198.51.100.0/24": {}}},
            {("physical", "192.0.2.0/24", "mtu"): 1400},
        ),
        (
            {"policy": {"fast": {"link": {"eth1": {"mode": "spare"}, "eth0": {"mode": "primary"}}}}},
            {
                ("settings", "policies", "fast", "links", "eth1", "mode"): "spare",
                ("settings", "policies", "fast", "links", "eth0", "mode"): "primary",
            },
        ),
    ],
)
def test_values_are_typed_by_the_definition(tree: dict[str, Any], settings: dict[Key, Value]) -> None:
    assert given(tree) == (settings, [])


def test_a_value_that_the_definition_does_not_take_is_told_with_its_path() -> None:
    tree = {"options": {"cores": "1"}, "net": {"192.0.2.0/24": {"mtu": "x"}}}
    assert given(tree) == (
        {},
        [("options cores", "1", "cores must be 2 to 8"), ("net 192.0.2.0/24 mtu", "x", "MTU must be 1000 to 9000")],
    )


def test_an_instance_has_the_settings_that_the_definition_gives_it() -> None:
    assert given({"options": {"cores": "4"}, "low": {}}, "instance") == ({("settings", "concurrency"): 4}, [])


def test_what_an_instance_has_of_its_own_goes_before_the_bundles() -> None:
    parsed = bundle(EXAMPLE + "instance 2 weight 3")
    row = Setting("options cores", ("settings", "concurrency"))
    parsed = replace(
        parsed,
        settings=(Given(row, row.path, row.key, 4),),
        overrides={2: replace(parsed.override(2), settings=(Given(row, row.path, row.key, 8),))},
    )
    plan = make_plan(parsed, CPUS, "/usr/sbin/zerotier-one")
    assert plan.instances[0].settings == (SettingPlan(row.key, 4),) and plan.instances[1].settings == (SettingPlan(row.key, 8),)
    assert [conf_of(plan, k)["settings"]["concurrency"] for k in (1, 2)] == [4, 8]


def test_no_setting_takes_the_place_of_what_every_instance_needs() -> None:
    plan = plan_of("")
    made_up = tuple(SettingPlan(key, value) for key, value in (
        (("settings", "primaryPort"), 1), (("physical", "10.14.0.0/28", "blacklist"), False), (("physical", "10.14.0.0/28", "mtu"), 1400),
    ))  # fmt: skip
    plan = replace(plan, instances=(replace(plan.instances[0], settings=made_up),))
    conf = conf_of(plan)
    assert conf["settings"]["primaryPort"] == 9993 and conf["physical"]["10.14.0.0/28"] == {"blacklist": True, "mtu": 1400}


def test_only_what_is_read_at_the_start_restarts() -> None:
    conf: dict[str, Any] = {"settings": {}}
    for key, value in ((TABLE[0].key, True), (TABLE[1].key, False), (("physical", "192.0.2.0/24", "mtu"), 1400)):
        put(conf, key, value)
    put(conf, ("settings", "policies", "fast", "links", "eth1", "mode"), "spare")
    put(conf, ("settings", "policies", "fast", "basePolicy"), "balance-rr")
    assert without_live(conf, TABLE) == {"settings": {"low": True, "policies": {"fast": {"basePolicy": "balance-rr"}}}}
