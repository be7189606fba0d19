"""Identities that move to another router, that two routers have, and that come from the configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Router
from lab.scenario import IDENTITY, connect, loopback, reach, status, wait_paths
from tests.lab.conftest import ENGINE, new_lab

PASSPHRASE, ARCHIVE = "correct horse battery", "/config/r1.archive"
ZT = "set interfaces zerotier zt0"
# Prints the arguments and environments of processes that have what is read
_IN_PROCESSES = """
import glob, sys
key = sys.stdin.read().encode()
for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
    try:
        found = key in open(path, "rb").read()
    except OSError:
        continue
    if found:
        print(path)
"""


@pytest.fixture(scope="module")
def routers() -> Iterator[list[Router]]:
    """R1 and R2 with a link, and R3 with nothing."""
    with new_lab() as lab:
        made = lab.add_routers(["R1", "R2", "R3"])
        connect(made[:2], 2, engine=Path(ENGINE).name)
        yield made


def nodes(router: Router) -> list[str]:
    shown = router.json([IDENTITY, "show_identity", "--bundle", "zt0", "--raw"])
    return [entry["identity"].partition(":")[0] for entry in shown["instances"]]


def zerotier(router: Router) -> str:
    """The configuration of the bundle as lines."""
    lines = router.run(["ztsh", "config", "commands"]).stdout.splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("set interfaces zerotier "))


def warnings(router: Router) -> str:
    return "\n".join(router.json([IDENTITY, "show_bundle", "--bundle", "zt0", "--raw"])["warnings"])


def test_another_router_takes_over_from_an_archive(routers: list[Router]) -> None:
    """R2 is not touched. R1 loses its bundle and keeps its homes."""
    r1, r2, r3 = routers
    before, lines, other = nodes(r1), zerotier(r1), zerotier(r2)
    written = r1.run(["ztsh", "generate", "zerotier", "archive", ARCHIVE], text_input=f"{PASSPHRASE}\n").stdout
    assert before[0] in written and r1.run(["stat", "-c", "%a", ARCHIVE]).stdout.strip() == "600"
    r3.write("/config/base64", r1.run(["base64", ARCHIVE]).stdout)
    r3.run(["sh", "-c", f"base64 -d /config/base64 >{ARCHIVE}"])
    take = ["ztsh", "import", "zerotier", "archive", ARCHIVE]
    refused = r3.run(take, text_input="something else\n", check=False)
    assert refused.returncode and "the passphrase is wrong" in refused.stdout + refused.stderr
    r1.must_configure("delete interfaces zerotier")
    r3.run(take, text_input=f"{PASSPHRASE}\n")
    r3.must_configure(lines)
    wait_paths([r2, r3], 2, timeout=60)
    reach(r2, loopback(r2), loopback(r1))
    assert nodes(r3) == before and zerotier(r2) == other


def test_one_identity_in_two_places_is_said_at_both_ends(routers: list[Router]) -> None:
    r1, r2, r3 = routers
    assert "identity" not in warnings(r2) + warnings(r3)
    r1.must_configure(zerotier(r3))
    states = lambda: [(r.name, status(r)["bundles"]["zt0"]["paths"]) for r in routers]  # noqa: E731
    try:
        r2.wait(lambda: "two routers with the identity of R1 send over zt0/" in warnings(r2), timeout=60, what="a word at R2")
        told = "R2 hears another router with the identity of zt0/"
        r2.wait(lambda: told in warnings(r1) + warnings(r3), timeout=60, what="a word at R1 or R3")
    except Exception:
        print(json.dumps(states(), indent=1))
        raise
    r3.must_configure("delete interfaces zerotier")
    wait_paths([r1, r2], 2, timeout=60)


def test_an_identity_in_the_configuration_is_in_no_place_for_others(routers: list[Router]) -> None:
    router = routers[0]
    before = nodes(router)
    made = router.json([IDENTITY, "generate_identity", "--raw"])
    router.must_configure(f"{ZT} instance 1 identity secret {made['secret']}\n")
    assert nodes(router) == [made["node"], before[1]]
    shown = [IDENTITY, "show_instances", "--bundle", "zt0", "--raw"]
    router.wait(lambda: router.json(shown)["instances"][0]["node"] == made["node"], what="its node")
    refused = router.configure(f"{ZT} instance 2 identity secret {made['secret']}\n")
    assert not refused.ok and f"is of node {made['node']}, as that of zt0/1" in refused.output, refused
    key = made["secret"].rpartition(":")[2]
    assert key not in refused.output
    found = router.run(["grep", "-rlaF", key, "/run", "/etc", "/var/log", "/tmp"], check=False).stdout.split()
    modes = {path: router.run(["stat", "-c", "%a %U:%G", path]).stdout.strip() for path in found}
    assert set(modes.values()) <= {"640 root:vyattacfg", "600 root:root"}, modes
    assert key not in router.run(["journalctl", "--no-pager", "-o", "export"]).stdout
    assert router.run(["/usr/bin/python3", "-c", _IN_PROCESSES], text_input=key).stdout == ""
    assert router.run(["stat", "-c", "%a", "/config/zerotier-multi/zt0/1/identity.secret"]).stdout.strip() == "600"
    router.must_configure("delete interfaces zerotier zt0 instance\n")
    assert nodes(router) == before


def test_a_configured_identity_moves_with_its_bundle(routers: list[Router]) -> None:
    """And back, while zt0 has a home with it."""
    router = routers[2]
    made = router.json([IDENTITY, "generate_identity", "--raw"])
    lines = ("instances 1", "network-id 8056c2e21c000001", f"instance 1 identity secret {made['secret']}")
    router.must_configure("".join(f"{ZT} {line}\n" for line in lines))
    for old, new in (("zt0", "zt1"), ("zt1", "zt0")):
        router.must_configure(f"edit interfaces\nrename zerotier {old} to zerotier {new}\ntop\n")
        shown = router.json([IDENTITY, "show_instances", "--bundle", new, "--raw"])["instances"]
        assert [entry["node"] for entry in shown] == [made["node"]]
    router.must_configure("delete interfaces zerotier\n")


def test_a_late_yes_undoes_no_commit(routers: list[Router]) -> None:
    router = routers[0]
    before = nodes(router)
    command = f"mkfifo /tmp/answer; exec {IDENTITY} reset_identity --bundle zt0 <>/tmp/answer"
    asked = router.popen(["sh", "-c", command])
    assert asked.stdout is not None
    told = ""
    while "[y/N]" not in told:
        told += asked.stdout.read(1) or pytest.fail(f"it does not ask: {told}")
    router.must_configure(f"{ZT} mtu 1300\n")
    router.run(["sh", "-c", "echo y >/tmp/answer"])
    told, _ = asked.communicate(timeout=60)
    assert asked.returncode == 1 and "zt0 was changed meanwhile; try again" in told
    assert nodes(router) == before and json.loads(router.read("/run/zerotier-multi/zt0.json"))["mtu"] == 1300
