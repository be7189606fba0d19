"""From sites.yml to the lines of each router, and from what runs to what is wanted (the Ansible role's filters)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.configuration import ROOT, SCHEMA, given
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from ztsh.session import Session
from ztsh.text import set_commands
from ztsh.words import split

PLUGIN = ROOT / "ansible/roles/zerotier_multi/filter_plugins/zerotier_fleet.py"


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("zerotier_fleet", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fleet = _load(PLUGIN)
ZT = "set interfaces zerotier zt0"


def identity(node: int) -> str:
    return f"{node:010x}:0:{node:0128x}"


def sites(**more: Any) -> dict[str, Any]:
    return {
        "network_id": "8056c2e21c000001",
        "instances": 2,
        "transit": ["10.14.0.0/24", "2001:db8:14::/120"],
        "sites": [
            {"name": "R1", "number": 1, "underlay": ["198.51.100.1", "2001:db8:0:1::1"], "addresses": ["10.0.55.1/32"]},
            {"name": "R2", "number": 2, "underlay": ["r2.example.org"], "prefixes": ["192.168.2.0/24"], "primary_port": 10000},
            {"name": "R3", "number": 3, "addresses": ["10.0.55.3/32"], "settings": ["description 'the third one'"]},
        ],
        **more,
    }


IDENTITIES = {
    name: {"instances": [{"instance": k, "identity": identity(16 * n + k)} for k in (1, 2)]}
    for n, name in enumerate(("R1", "R2", "R3"), start=1)
}


def session(lines: list[str]) -> Session:
    """A candidate that the lines have made, by the shell's own definitions."""
    made = Session(SCHEMA)
    made.candidate = {}
    for line in lines:
        verb, *path = split(line).words
        (made.set if verb == "set" else made.delete)(path)
    return made


def test_the_lines_of_a_site() -> None:
    assert fleet.site_lines(sites(), "R1", IDENTITIES, "") == [
        f"{ZT} address 10.0.55.1/32",
        f"{ZT} instances 2",
        f"{ZT} network-id 8056c2e21c000001",
        f"{ZT} controller-free",
        f"{ZT} primary port 9993",
        f"{ZT} transit site 1",
        f"{ZT} transit prefix 10.14.0.0/24",
        f"{ZT} transit prefix 2001:db8:14::/120",
        f"{ZT} transit subnet-length 26",
        f"{ZT} transit subnet-length 122",
        f"{ZT} remote R2 site 2",
        f"{ZT} remote R2 prefix 192.168.2.0/24",
        f"{ZT} remote R2 instance 1 identity {identity(33)}",
        f"{ZT} remote R2 instance 1 endpoint r2.example.org:10000",
        f"{ZT} remote R2 instance 2 identity {identity(34)}",
        f"{ZT} remote R2 instance 2 endpoint r2.example.org:10001",
        f"{ZT} remote R3 site 3",
        f"{ZT} remote R3 prefix 10.0.55.3/32",
        f"{ZT} remote R3 instance 1 identity {identity(49)}",
        f"{ZT} remote R3 instance 2 identity {identity(50)}",
    ]
    assert f"{ZT} remote R1 instance 2 endpoint '[2001:db8:0:1::1]:9994'" in fleet.site_lines(sites(), "R2", IDENTITIES, "")
    assert f"{ZT} description 'the third one'" in fleet.own_lines(sites(), "R3")


@pytest.mark.parametrize("name", ["R1", "R2", "R3"])
def test_the_lines_are_a_configuration_that_has_every_path(name: str) -> None:
    made = session(fleet.site_lines(sites(), name, IDENTITIES, ""))
    parsed = parse_bundle("zt0", given(made)["zt0"])
    assert check_bundle(parsed, tuple(Cpu(n, n) for n in range(4))) == []
    assert sorted(remote.name for remote in parsed.remotes) == sorted({"R1", "R2", "R3"} - {name})
    assert all(instance.identity for remote in parsed.remotes for instance in remote.instances.values())
    # By itself it is one too: that is the commit which makes the identities.
    session(fleet.own_lines(sites(), name))


def test_identities_of_a_site_that_was_not_asked_stay() -> None:
    running = "\n".join(fleet.site_lines(sites(), "R1", IDENTITIES, ""))
    fewer = {name: IDENTITIES[name] for name in ("R1", "R3")}
    assert fleet.site_lines(sites(), "R1", fewer, running) == running.splitlines()
    # Those that R1 does not know either are missing; those of an instance that is no more go.
    assert not [line for line in fleet.site_lines(sites(), "R1", fewer, "") if "R2" in line and "identity" in line]
    assert "instance 2" not in "".join(fleet.site_lines(sites(instances=1), "R1", fewer, running))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"instances": 4},
        {"instances": 1, "transit": ["10.14.0.0/24"], "subnet_length": [28]},
        {"settings": ["balance weights auto", "health-check disable"]},
        {"sites": sites()["sites"][:2]},
        {"sites": [{**sites()["sites"][0], "addresses": []}, *sites()["sites"][1:]]},
        {"network_id": "8056C2E21C000002"},
    ],
)
def test_the_changes_lead_to_what_is_wanted_and_then_there_are_none(changed: dict[str, Any]) -> None:
    """As VyOS shows and takes them; carried out by the shell, whose tree keeps what a deletion leaves empty."""
    old = session(fleet.site_lines(sites(settings=["description old"]), "R1", IDENTITIES, ""))
    old.set(["interfaces", "zerotier", "zt1", "disable"])
    running = set_commands(old.candidate, SCHEMA)
    new = sites(**changed)
    wanted = fleet.site_lines(new, "R1", IDENTITIES, running)
    lines = fleet.changes(wanted, new, running)
    assert "delete interfaces zerotier zt0 description" in lines
    done = session([*running.splitlines(), *lines])
    expected = session([*wanted, "set interfaces zerotier zt1 disable"])
    assert done.candidate == expected.candidate
    assert fleet.changes(wanted, new, set_commands(done.candidate, SCHEMA)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"instances": 8, "transit": ["10.15.0.0/23", "2001:db8:15::/119"]},
        {"instances": 3, "subnet_length": [27, 123]},
        {"instances": 3, "sites": [{**sites()["sites"][0], "addresses": ["10.0.66.1/32"]}, *sites()["sites"][1:]]},
        {"instances": 3, "settings": ["balance weights auto"]},
    ],
)
@pytest.mark.parametrize("edition", ["debian", "vyos"])
def test_more_instances_come_with_another_transit(edition: str, changed: dict[str, Any]) -> None:
    """The commit that makes the identities is one that the router takes, and keeps the remotes that it has."""
    old = session([*fleet.site_lines(sites(), "R1", IDENTITIES, ""), "set interfaces zerotier zt1 disable"])
    running = set_commands(old.candidate, SCHEMA)
    new = sites(**changed)
    wanted = fleet.introduction(fleet.own_lines(new, "R1"), new, running)
    made = session([*running.splitlines(), *fleet.changes(wanted, new, running)])
    if edition == "debian":
        made = session([*running.splitlines(), *fleet.whole(wanted, new)])
    parsed = parse_bundle("zt0", given(made)["zt0"])
    assert check_bundle(parsed, tuple(Cpu(n, n) for n in range(8))) == []
    before, after = (fleet.paths_of(set_commands(one.candidate, SCHEMA), "zt0") for one in (old, made))
    assert [path for path in after if "remote" in path] == [path for path in before if "remote" in path]
    assert set(fleet.paths_of("\n".join(fleet.own_lines(new, "R1")), "zt0")) == {path for path in after if "remote" not in path}
    assert "set interfaces zerotier zt1 disable" in set_commands(made.candidate, SCHEMA)


def test_a_router_without_the_bundle_gets_the_lines_of_its_own() -> None:
    own = fleet.own_lines(sites(), "R1")
    assert fleet.introduction(own, sites(), "set interfaces zerotier zt1 remote R2 site 2\n") == own


def test_only_the_lines_of_the_bundle_are_kept() -> None:
    mine = [f"{ZT} instances '2'", f"{ZT} description 'the first\"s'"]
    others = [
        "set interfaces wireguard wg0 private-key 'c2VjcmV0'",
        "set interfaces zerotier zt01 instances '1'",
        "set interfaces zerotier zt1",
    ]
    assert fleet.of_bundle("\n".join([others[0], *mine, *others[1:]]), sites()) == "\n".join(mine)
    assert fleet.of_bundle(ZT, sites()) == ZT
    assert fleet.of_bundle("", sites()) == ""


def test_a_file_for_ztsh_is_all_of_the_bundle() -> None:
    assert fleet.whole(["set interfaces zerotier zt3 instances 1"], sites(bundle="zt3")) == [
        "delete interfaces zerotier zt3",
        "set interfaces zerotier zt3 instances 1",
    ]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"netword_id": 1}, "the fleet has the unknown key netword_id; the keys are bundle, instances, "),
        ({"transit": []}, "the fleet has no transit"),
        ({"network_id": 8056}, "network_id needs quotes in YAML, or it is read as a number"),
        ({"sites": [{"number": 1}]}, "a site has no name"),
        ({"sites": [{"name": "A", "number": 1}, {"name": "B", "number": 1}]}, "the number 1 is that of two sites; give each site its own"),
        ({"sites": [{"name": "A", "number": 1}, {"name": "A", "number": 2}]}, "the name A is that of two sites"),
        ({"sites": [{"name": "A"}]}, "site A has no number; give it one from 1 up that no other site has"),
        ({"sites": [{"name": "A", "number": 1, "underlay": "192.0.2.1"}]}, "underlay of site A must be a list"),
        ({"sites": [{"name": "A", "number": 1, "instances": 33}]}, "instances of site A must be 1 to 32"),
        ({"sites": [{"name": "A", "number": 1, "addresses": ["x"]}]}, "address x of site A must be like 10.0.55.1/32"),
        ({"sites": [{"name": f"S{n}", "number": n} for n in range(1, 34)]}, "33 sites are too many for one full mesh; make fleets of up to 32"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(fleet.FleetError) as refused:
        fleet.own_lines(sites(**changed), "R1")
    assert str(refused.value).startswith(sentence)


def test_a_host_of_the_inventory_must_be_a_site() -> None:
    with pytest.raises(fleet.FleetError, match="^R9 is no site; add it to sites.yml, or take it out of the inventory$"):
        fleet.site_lines(sites(), "R9", IDENTITIES, "")


def test_a_site_has_been_introduced_once_all_its_instances_have_an_identity() -> None:
    assert fleet.introduced(IDENTITIES["R1"], sites(), "R1") is True
    assert fleet.introduced(IDENTITIES["R1"], sites(instances=3), "R1") is False
