"""zerotier-one under a controller that sets addresses and routes, and whose members this router authorizes by its API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.lab.conftest import packages, programs

from lab import Lab, Router
from lab.controller import PORT, StockController, controller, planet_text
from lab.underlay import PREFIX4

pytestmark = pytest.mark.both_engines

ZT = "set interfaces zerotier zt0"
SHOW = "/usr/libexec/vyos/op_mode/zerotier.py"
READ_NETWORKS = """
import json
from pathlib import Path
from zerotier_multi.ztapi import ZeroTierApi
print(json.dumps(ZeroTierApi(Path("/config/zerotier-multi/zt0/1"), 9993).networks()))
"""
WORDS = {"allow-managed": "allowManaged", "allow-global": "allowGlobal", "allow-default": "allowDefault", "allow-dns": "allowDNS"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(packages(), programs=programs("zerotier-one")) as made:
        yield made


@pytest.fixture(scope="module")
def router(lab: Lab) -> Router:
    return lab.add_routers(["R1"])[0]


@pytest.fixture(scope="module")
def made(lab: Lab, router: Router, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockController]:
    with controller(lab.underlay, "zerotier-one", router, tmp_path_factory.mktemp("controller") / "home") as found:
        assert isinstance(found, StockController)
        found.start(manager=f"{PREFIX4}.0/24")
        yield found


def networks(router: Router) -> dict[str, dict[str, Any]]:
    """What the instance says of its networks."""

    def look() -> list[dict[str, Any]] | None:
        answer = router.run(["/usr/bin/python3", "-c", READ_NETWORKS], check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    return {entry["id"]: entry for entry in router.wait(look, what="the API of the instance")}


def bundle(router: Router) -> dict[str, Any]:
    return dict(json.loads(router.run([SHOW, "show_bundle", "--bundle", "zt0", "--raw"]).stdout))


def test_a_controller_sets_what_it_may_and_its_members_are_authorized_from_here(router: Router, made: StockController) -> None:
    first, second = (f"{made.address}00000{n}" for n in (1, 2))
    route = {"target": "10.77.0.0/16", "via": "10.147.17.9"}
    made.add_network(first, managed={"routes": [{"target": "10.147.17.0/24"}, route]})
    made.add_network(second)
    lines = [
        "instances 1", f"network-id {first}", f"network-id {second}", f"planet {planet_text(made)}",
        f"network {first} allow-managed", f"network {first} address 10.147.17.5/24", f"network {second} address 10.20.0.5/24",
        "controller type zerotier-one", f"controller url http://{PREFIX4}.200:{PORT}", f"controller api-key {made.token}",
        "controller authorize", "controller assign-addresses", "controller insecure",
    ]  # fmt: skip
    committed = router.must_configure("\n".join(f"{ZT} {line}" for line in lines))
    assert "controller insecure" in str(committed) and made.token not in str(committed)

    router.wait(lambda: {e["status"] for e in networks(router).values()} == {"OK"}, timeout=60, what="both networks joined")
    router.wait(lambda: bundle(router)["controller"]["state"] == "done", timeout=30, what="the attempt at the controller")
    entry = bundle(router)
    assert entry["engine_reason"] == f"auto: network {first} allow-managed needs it" and entry["state"] == "up"
    assert (entry["controller"]["members_done"], entry["warnings"]) == (2, [])

    node = entry["instances"][0]["node"]
    for network, device, address in ((first, "zt0p1", "10.147.17.5"), (second, f"zt0n{second[-8:]}", "10.20.0.5")):
        member = made.member(network, node)
        assert (member["name"], member["authorized"], member["ipAssignments"]) == (f"R1 {device}", True, [address])

    told = networks(router)
    assert [told[first][word] for word in WORDS.values()] == [True, False, False, False]
    assert [told[second][word] for word in WORDS.values()] == [False] * 4
    router.wait(lambda: router.json(["ip", "-j", "route", "show", "10.77.0.0/16"]), what="the route of the controller")

    # An address that only the controller has set stays on the device; without leave it goes.
    made.change_member(first, node, {"ipAssignments": ["10.147.17.5", "10.147.17.6"]})

    def addresses() -> set[str]:
        device = router.json(["ip", "-j", "addr", "show", "dev", "zt0p1"])[0]
        return {a["local"] for a in device["addr_info"] if a["family"] == "inet"}

    router.wait(lambda: addresses() == {"10.147.17.5", "10.147.17.6"}, timeout=60, what="the address of the controller")
    router.must_configure(f"{ZT} description x")  # the daemon looks again
    assert addresses() == {"10.147.17.5", "10.147.17.6"}


def test_a_further_network_that_puts_the_instance_out_is_told_and_authorizes_it_again(
    router: Router, made: StockController
) -> None:
    second = f"{made.address}000002"
    node = bundle(router)["instances"][0]["node"]

    def told() -> list[str]:
        """What the events about the second network say, the first first."""
        fields = ["ZEROTIER_EVENT=network-state", f"ZEROTIER_NETWORK={second}"]
        text = router.run(["journalctl", "-t", "zerotier-pathd", "-o", "json", "--no-pager", *fields], check=False).stdout
        return [json.loads(line)["ZEROTIER_TO"] for line in text.splitlines()]

    router.wait(lambda: told()[-1:] in ([], ["up"]), what="the events of the beginning")
    before = len(told())
    made.authorize(second, node, False)
    router.wait(lambda: "unauthorized" in told()[before:], timeout=180, what="the event about the further network")
    router.wait(lambda: made.member(second, node)["authorized"], timeout=60, what="a member that is authorized again")
    router.wait(lambda: told()[-1] == "up", timeout=180, what="the event that it is a member again")
    router.wait(lambda: bundle(router)["state"] == "up", what="a member of both networks")


def test_each_word_is_in_the_api(router: Router, made: StockController) -> None:
    first, second = (f"{made.address}00000{n}" for n in (1, 2))
    changes = [f"{ZT} network {second} {word}" for word in WORDS]
    router.must_configure("\n".join([f"delete interfaces zerotier zt0 network {first} allow-managed", *changes]))
    router.wait(lambda: set(networks(router)) == {first, second}, what="an instance that was restarted")
    told = networks(router)
    assert [told[second][word] for word in WORDS.values()] == [True] * 4
    assert [told[first][word] for word in WORDS.values()] == [False] * 4
    router.wait(lambda: not router.json(["ip", "-j", "route", "show", "10.77.0.0/16"]), what="the route is gone")


def test_the_key_is_nowhere_where_others_can_read_it(router: Router, made: StockController) -> None:
    for command in (
        ["journalctl", "--no-pager", "-o", "export"],
        ["setpriv", "--reuid=65534", "--clear-groups", "grep", "-rsa", made.token, "/run/zerotier-multi", "/run/ztsh", "/config"],
        ["ztsh", "show", "zerotier", "zt0"],
    ):
        assert made.token not in router.run(command, check=False).stdout
    public = router.run(["setpriv", "--reuid=65534", "--clear-groups", "ztsh", "show", "configuration"]).stdout
    assert "api-key" in public and made.token not in public
    assert made.token in router.run(["cat", "/run/zerotier-multi/pathd/controller/zt0"]).stdout
    for show in ("", " commands", " json", " | json", " | commands"):
        shown, hidden = (router.run(["ztsh", "-c", f"show configuration{show}{end}"]).stdout for end in ("", " | strip-private"))
        assert made.token in shown and "api-key" in hidden and made.token not in hidden, show


def test_a_new_node_is_authorized_with_the_key_that_was_there(router: Router, made: StockController) -> None:
    """Neither a reset nor an archive has the key, so both leave it."""
    first = f"{made.address}000001"
    node = bundle(router)["instances"][0]["node"]
    router.run(["ztsh", "generate", "zerotier", "archive", "/config/r1"], text_input="correct horse battery\n")

    def becomes_a_member(wanted: str, *command: str) -> None:
        router.run(list(command), text_input="correct horse battery\n")
        assert router.run(["cat", "/run/zerotier-multi/pathd/controller/zt0"]).stdout == made.token
        is_member = lambda: wanted in made.members(first) and made.member(first, wanted)["authorized"]  # noqa: E731
        router.wait(is_member, timeout=60, what="a member that is authorized")

    router.run([SHOW, "reset_identity", "--bundle", "zt0", "--no-prompt"])
    new = router.wait(lambda: bundle(router)["instances"][0]["node"], what="another node")
    assert new != node
    becomes_a_member(new, "true")
    becomes_a_member(node, "ztsh", "import", "zerotier", "archive", "/config/r1", "replace")


def test_a_controller_that_is_gone_holds_no_commit_up_and_is_said(router: Router, made: StockController) -> None:
    made.stop()
    router.must_configure(f"delete interfaces zerotier zt0 controller authorize\n{ZT} description y")

    def warned() -> list[str]:
        return [
            w for w in bundle(router)["warnings"] if w.startswith(f"controller http://{PREFIX4}.200:{PORT} cannot be reached (")
        ]

    router.wait(lambda: len(warned()) == 1, timeout=30, what="the sentence about the controller")
    router.must_configure("delete interfaces zerotier zt0")
    assert router.run(["test", "-e", "/run/zerotier-multi/pathd/controller/zt0"], check=False).returncode == 1
