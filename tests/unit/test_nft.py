"""Our table in the real nftables of a namespace: it stands as wanted, and comes back."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.unit.test_mss import devices, plan
from tests.unit.test_spoofed import DEVICES, HUB, LOCAL, plans_of
from tests.unit.op_box import PLAN
from zerotier_multi.pathd.nftables import mss, solicited, spoofed, table as nft
from zerotier_multi.pathd.nftables.table import LOOK, Table

NAMESPACE = f"nft-{os.getpid()}"
NFT = ("ip", "netns", "exec", NAMESPACE, "nft")


def run(*arguments: str) -> str:
    return subprocess.run([*NFT, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def table() -> Iterator[Table]:
    """One whose events are those of a network namespace of its own, too."""
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    made: list[Table] = []

    def make() -> None:
        with open(f"/run/netns/{NAMESPACE}") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0
        made.append(Table(NFT))

    thread = threading.Thread(target=make)  # a socket stays in the namespace that it was made in
    thread.start()
    thread.join()
    yield made[0]
    assert made[0].events
    made[0].events.close()
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def wanted(text: str = "") -> str:
    plans = [plan(text)]
    return nft.script(mss.chains(plans, devices(1394)), spoofed.chains(plans, ()))


WANTED, OTHER = wanted(), wanted("ip adjust-mss 1200\nvrf blue")


def test_it_stands_changes_and_goes(table: Table) -> None:
    run("add table inet others")
    assert table.hold("", 0.0) == ([], []) and run("list", "tables") == "table inet others\n"
    assert table.hold(WANTED, 1.0) == ([], [])
    assert run("list", "ruleset").count("maxseg size set") == 4
    assert table.hold(OTHER, 2.0) == ([], []) and " 1200" in run("list", "ruleset")
    assert table.hold("", 3.0) == ([], []) and run("list", "tables") == "table inet others\n"


def test_a_daemon_that_does_not_know_all_bundles_leaves_what_the_one_before_has_made(table: Table) -> None:
    assert Table(NFT).hold(OTHER, 0.0) == ([], [])
    before = run("list", "ruleset")
    for wanted_now in (WANTED, "", WANTED):
        assert table.hold(wanted_now, 1.0, keep=True) == ([], []) and run("list", "ruleset") == before
    assert table.hold(WANTED, 2.0) == ([], []) and " 1200" not in run("list", "ruleset")
    # What it has made itself has nothing of others in it.
    assert table.hold(OTHER, 3.0, keep=True) == ([], []) and " 1200" in run("list", "ruleset")


def test_a_daemon_that_does_not_know_all_bundles_makes_a_table_where_there_is_none(table: Table) -> None:
    for wanted_now, size in ((WANTED, False), (OTHER, True)):
        assert table.hold(wanted_now, 1.0, keep=True) == ([], []) and (" 1200" in run("list", "ruleset")) == size


def test_chains_of_several_vrfs_stand(table: Table) -> None:
    plans = plans_of(HUB)
    assert table.hold(nft.script(spoofed.chains(plans, LOCAL, DEVICES)), 0.0) == ([], [])
    found = run("list", "ruleset")
    assert 'iifname "zt0p*" jump own-sources-red' in found and 'iifname "zt1p*" jump own-sources-blue' in found


def test_what_a_daemon_before_has_left_goes_too(table: Table) -> None:
    assert Table(NFT).hold(WANTED, 0.0) == ([], [])
    assert table.hold("", 0.0) == ([], []) and run("list", "tables") == ""


@pytest.mark.parametrize(
    "deed", ["flush ruleset", "flush chain inet zerotier_multi zt0", "delete rule inet zerotier_multi forward handle {}"]
)
def test_who_changes_it_is_heard_and_it_comes_back(table: Table, deed: str) -> None:
    table.hold(WANTED, 0.0)
    table.touched()  # its own doing, that it hears of as well
    assert table.hold(WANTED, 1.0) == ([], [])
    before = run("-s", "list", "ruleset")
    run("add table inet others")
    assert not table.touched(), "tables of others are not ours"
    run("delete table inet others")
    handle = next(line.rpartition(" ")[2] for line in run("-a", "list", "ruleset").splitlines() if "jump zt0" in line)
    run(deed.format(handle))
    assert table.touched()
    problems, drifted = table.hold(WANTED, 2.0)
    assert problems == [] and drifted == ["nft table inet zerotier_multi was changed by another program and has been restored"]
    assert run("-s", "list", "ruleset") == before


def test_an_audit_sees_what_it_has_not_heard_of(table: Table) -> None:
    table.hold(WANTED, 0.0)
    run("flush", "ruleset")
    assert table.hold(WANTED, LOOK - 1) == ([], []) and run("list", "ruleset") == ""
    assert table.hold(WANTED, LOOK)[1] and run("list", "ruleset").count("maxseg") == 4


def test_without_nft_one_sentence_tells_it_and_nothing_is_tried_all_the_time() -> None:
    table = Table(("/nonexistent/nft",))
    assert table.hold("", 0.0) == ([], [])
    problem = (
        "the MSS of forwarded TCP connections is not adjusted, and packets with forged source addresses are accepted "
        "(nft is not installed; install nftables)"
    )
    assert table.hold(WANTED, 1.0) == ([problem], [])
    begin = time.monotonic()
    for _ in range(1000):
        assert table.hold(WANTED, 2.0) == ([problem], [])
    assert time.monotonic() - begin < 0.5
    assert table.hold("", 3.0) == ([], [])


def test_what_nft_refuses_is_told_and_tried_again(table: Table) -> None:
    problems, _ = table.hold("table inet zerotier_multi { nonsense }", 0.0)
    assert len(problems) == 1 and problems[0].startswith("the MSS of forwarded TCP connections is not adjusted, ")
    assert table.hold(WANTED, 1.0) == ([], []) and run("list", "ruleset").count("maxseg") == 4


def test_solicitations_are_limited_where_a_bundle_runs(table: Table) -> None:
    disabled = replace(PLAN, bundle="zt1", instances=())
    assert solicited.chains([]) == solicited.chains([disabled]) == ""
    wanted = solicited.chains([PLAN, disabled, replace(PLAN, bundle="zt2")])
    assert wanted.count("drop") == 4 and '"zt0p*"' in wanted and '"zt2p*"' in wanted
    assert table.hold(nft.script(wanted), 0.0) == ([], [])
    assert table.hold(nft.script(wanted), LOOK + 1.0) == ([], []), "it reads back as it was"
