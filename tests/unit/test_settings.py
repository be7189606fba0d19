"""Settings of local.conf: every row of the table from the CLI to the file, and the table's own machinery."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.definition import Node, definition
from zerotier_multi.engine_choice import choose_engine, engine_problems
from zerotier_multi.homefiles import home_files
from zerotier_multi.local_conf import TUNNEL_PREFIXES, local_conf
from zerotier_multi.plan import Plan, SettingPlan, from_json, to_json
from zerotier_multi.planner import make_plan
from zerotier_multi.settings import ANY, SETTINGS, Given, Key, Setting, Value, given_settings, put, without_live

CPUS = tuple(Cpu(n, n) for n in range(4))
ENGINES = {"zerotier-one": "/sbin/zerotier-one", "ztnode": "/sbin/ztnode"}
# Lines that set a row whose value the definition gives no sample of: path -> line below the bundle.
SAMPLES = {
    "allow-mgmt-from": "allow-mgmt-from 192.0.2.0/24",
    "bonding-policy": "bonding-policy active-backup",
    "custom-policy * base-policy": "custom-policy fast base-policy balance-rr",
    "custom-policy * link-quality latency-weight": "custom-policy fast link-quality latency-weight 0.25",
    "custom-policy * link-quality variance-weight": "custom-policy fast link-quality variance-weight 0.25",
    "custom-policy * link-select-method": "custom-policy fast link-select-method better",
    "custom-policy * links * failover-to": "custom-policy fast links eth1 failover-to eth0",
    "custom-policy * links * ip-pref": "custom-policy fast links eth0 ip-pref 64",
    "custom-policy * links * mode": "custom-policy fast links eth0 mode primary",
    "interface-blacklist": "interface-blacklist eth3",
    "offload disable": "offload disable uso",
    "peer-config * blacklist": "peer-config 0123456789 blacklist 192.0.2.0/24",
    "peer-config * try": "peer-config 0123456789 try 192.0.2.1/9993",
    "peer-specific-bonds * bonding-policy": "peer-specific-bonds 0123456789 bonding-policy broadcast",
    "tcp-relay": "tcp-relay 192.0.2.9/443",
}
TAGS = {"custom-policy": "fast", "links": "eth0", "network-config": "192.0.2.0/24"}  # of paths that have no sample


def line_of(setting: Setting) -> str:
    """A line of the CLI that sets it."""
    node = definition()[setting.path.replace(f"{ANY} ", "")]
    if setting.path in SAMPLES:
        return SAMPLES[setting.path]
    words = setting.path.split()
    path = " ".join(TAGS[words[n - 1]] if word == ANY else word for n, word in enumerate(words))
    return path if node.valueless else f"{path} {node.ranges[0][1] - (100 if setting.counted else 0)}"


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
    assert (value[-len(given.value) :] == list(given.value)) if isinstance(given.value, tuple) else value == given.value
    assert from_json(to_json(plan)) == plan
    default = setting.path in ("disable-port-mapping", "disable-secondary-port")
    assert (digest_of(plan) == digest_of(plan_of(""))) is (setting.live or default)
    assert given.path in line_of(setting)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.path)
def test_a_row_has_its_line_in_the_table_of_the_docs(setting: Setting) -> None:
    table = (Path(__file__).parents[2] / "docs/local-conf.md").read_text()
    key = ".".join("NAME" if part == ANY else part for part in setting.key)
    assert re.search(rf"^\| `{re.escape(key)}` +\| .*`{re.escape(setting.path)}`.* \| .* \| .* \|$", table, re.M)


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


def test_without_settings_local_conf_has_what_every_instance_needs() -> None:
    assert conf_of(plan_of(""), 2)["settings"] == {
        "primaryPort": 9994,
        "allowSecondaryPort": False,
        "portMappingEnabled": False,
        "softwareUpdate": "disable",
        "cpuPinningEnabled": False,
        "interfacePrefixBlacklist": list(TUNNEL_PREFIXES),
        "allowManagementFrom": ["127.0.0.1/32", "::1/128"],
        "secondaryPort": 9994,
    }


@pytest.mark.parametrize("port", [9993, 60000])
def test_zerotier_one_has_no_port_that_is_not_known(port: int) -> None:
    """It would take a random one for port mapping, and as a second when it was offline; firewalls go by ports."""
    plan = plan_of(f"enable-port-mapping\nprimary port {port}")
    further = port + 10000 if port == 9993 else port - 10000
    for k in (1, 4):
        conf = conf_of(plan, k)["settings"]
        assert (conf["allowSecondaryPort"], conf["secondaryPort"]) == (False, port + k - 1)
        assert conf["tertiaryPort"] == further + k - 1 and plan.instance(k).ports == (port + k - 1, further + k - 1)
    ours = conf_of(make_plan(bundle(EXAMPLE), CPUS, "/sbin/ztnode"))["settings"]
    assert "secondaryPort" not in ours and "tertiaryPort" not in ours


def test_a_counted_port_is_one_more_for_each_instance() -> None:
    plan = plan_of("secondary port 20000")
    assert [conf_of(plan, k)["settings"]["secondaryPort"] for k in (1, 2, 4)] == [20000, 20001, 20003]
    assert conf_of(plan)["settings"]["allowSecondaryPort"] is True


def test_lists_are_added_to_what_every_instance_needs() -> None:
    conf = conf_of(plan_of("interface-blacklist eth3\nallow-mgmt-from 192.0.2.0/24"))["settings"]
    assert conf["interfacePrefixBlacklist"] == [*TUNNEL_PREFIXES, "eth3"]
    assert conf["allowManagementFrom"] == ["127.0.0.1/32", "::1/128", "192.0.2.0/24"]


def test_tries_of_a_remote_go_before_those_that_are_configured_for_its_node() -> None:
    key = "ab" * 64
    plan = plan_of(f"""controller-free
remote R2 instance 1 identity 0123456789:0:{key}
remote R2 instance 1 endpoint 192.0.2.1:9993
peer-config 0123456789 try 198.51.100.1/9993
""")
    assert conf_of(plan)["virtual"] == {"0123456789": {"try": ["192.0.2.1/9993", "198.51.100.1/9993"]}}


@pytest.mark.parametrize(
    ("lines", "quality"),
    [
        ("max-latency 80", {"lat_max": 80, "pdv_max": 100, "lat_weight": 0.5, "pdv_weight": 0.5}),
        ("latency-weight 0.3", {"lat_max": 500, "pdv_max": 100, "lat_weight": 0.3, "pdv_weight": 0.7}),
        ("variance-weight 1.0", {"lat_max": 500, "pdv_max": 100, "lat_weight": 0.0, "pdv_weight": 1.0}),
    ],
)
def test_a_link_quality_has_the_eight_values_that_zerotier_one_reads(lines: str, quality: dict[str, float]) -> None:
    policy = "custom-policy fast base-policy balance-aware\ncustom-policy fast link-quality "
    made = conf_of(plan_of(policy + lines))["settings"]["policies"]["fast"]["linkQuality"]
    assert made == {"plr_max": 1.0, "per_max": 1.0, "plr_weight": 0.0, "per_weight": 0.0, **quality}


def test_the_link_selection_has_both_its_names() -> None:
    policy = conf_of(plan_of("custom-policy fast link-select-method better"))["settings"]["policies"]["fast"]
    assert policy == {"linkSelectMethod": "better", "activeReselect": "better"}


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
