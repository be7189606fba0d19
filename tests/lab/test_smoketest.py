"""The smoketests as the packages install them, on routers that have a bundle of their own; they mostly wait, so side by side."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import Lab, Router
from lab.scenario import example, processes
from lab.smoketest import PROGRAMS, as_user
from tests.lab.conftest import ENGINE

MAY_STOP = ["env", "ZTM_STOP_BUNDLES=yes"]
# One that is too old for us, as routers have it for something else
OLD = "#!/bin/sh\necho 1.10.2\n"


def homes(router: Router) -> str:
    """Secrets of all homes that it has."""
    return router.run(["sh", "-c", "cd /config/zerotier-multi && sha256sum */*/identity.secret"]).stdout


def state(router: Router) -> tuple[str, str, str]:
    """What the tests must not change."""
    return router.run(["ztsh", "show", "configuration"]).stdout, homes(router), router.read("/config/config.boot")


def test_the_installed_smoketests_pass_and_leave_the_router_as_it_was(lab: Lab) -> None:
    routers = lab.add_routers([f"R{number}" for number, _ in enumerate(PROGRAMS, start=1)])
    with ThreadPoolExecutor(len(PROGRAMS)) as side_by_side:
        list(side_by_side.map(passes, routers, PROGRAMS))  # a failure of any is raised here


def passes(router: Router, program: str) -> None:
    router.must_configure(example(router, [], 1, engine=Path(ENGINE).name), save=True)
    if ENGINE == "ztnode":
        router.write("/usr/local/bin/zerotier-one", OLD, mode=0o755)
    before = state(router)
    done = router.run([*as_user(router), *MAY_STOP, program], check=False, timeout=900)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    ran = re.search(r"^Ran (\d+) tests? in ", output, re.MULTILINE)
    assert ran and int(ran[1]) > 0, output
    assert not re.search(r"\bskipped\b", output), output
    assert state(router) == before
    router.wait(lambda: list(processes(router)) == [1], timeout=60, what="its own bundle again")


@pytest.fixture(scope="module")
def used(lab: Lab) -> Iterator[Router]:
    """A router in use."""
    router = lab.add_router("used")  # the third one, for which a /30 has no room
    router.must_configure(example(router, [], 1, engine=Path(ENGINE).name, subnet_lengths=(29,)), save=True)
    router.wait(lambda: list(processes(router)) == [1], what="its bundle")
    yield router
    router.close()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "hangup"])
def test_who_stops_a_smoketest_gets_his_configuration_back(used: Router, program: str, how: signal.Signals) -> None:
    before = state(used)
    command = used.command([*MAY_STOP, program])
    # As at a terminal: the signal comes to all of its processes, and whoever reads is gone
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    used.wait(
        lambda: used.run(["test", "-e", "/run/zerotier-multi/zt254.json"], check=False).returncode == 0, timeout=120, what="a test"
    )
    assert state(used)[0] != before[0]
    assert running.stdout
    running.stdout.close()
    os.killpg(running.pid, how)
    os.killpg(running.pid, how)
    assert running.wait(timeout=120) != 0
    name = Path(program).name
    used.wait(lambda: used.run(["pgrep", "-f", name], check=False).returncode == 1, timeout=120, what=f"the end of {name}")
    assert state(used) == before
    used.wait(lambda: list(processes(used)) == [1], timeout=60, what="its own bundle again")
    assert used.run(["find", "/tmp", "-name", "zerotier-*", "-o", "-name", "vyos-smoketest-*"]).stdout == ""


def refused(router: Router, command: list[str]) -> str:
    """The sentence of a smoketest that does not begin; nothing has changed."""
    before, pids = state(router), processes(router)
    done = router.run(command, check=False)
    assert done.returncode == 1 and done.stdout == "", done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert (state(router), processes(router)) == (before, pids)
    return done.stderr


def test_a_smoketest_says_why_it_does_not_begin(used: Router) -> None:
    program = PROGRAMS[0]
    assert "zt0 would be stopped while the tests run" in refused(used, [program])
    started = [*MAY_STOP, program]

    used.run(["useradd", "--groups", "vyattacfg", "other"])
    assert "the tests need root: sudo -n true: sudo: a password is required; run them as root" in refused(
        used, ["runuser", "--user", "other", "--", *started]
    )

    for make, words in (
        ("address add 198.18.14.9/26 dev lan", "lan has the address 198.18.14.9/26, and the tests use 198.18.14.0/24"),
        ("route add 198.18.0.0/15 dev lan", "there is a route to 198.18.0.0/15, and the tests use 198.18.14.0/24"),
    ):
        used.run(["sh", "-ec", f"ip link add lan type bridge; ip link set lan up; ip {make}"])
        try:
            said = used.run(started, check=False).stderr
            assert words in said and "Traceback" not in said
        finally:
            used.run(["ip", "link", "del", "lan"])

    second = example(used, [], 1, bundle=1, transit=["10.15.0.0/28"], engine=Path(ENGINE).name, subnet_lengths=(29,))
    used.must_configure(second.replace("zt1 ", "zt254 "))
    assert "zt254 is configured, which the tests use" in refused(used, started)
    used.must_configure("delete interfaces zerotier zt254")

    holder = "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0zerotier-multi-smoketest'); print(flush=True); time.sleep(60)"
    other = used.popen(["/usr/bin/python3", "-c", holder])
    assert other.stdout and other.stdout.readline() == "\n"
    assert "these tests run on this router already" in refused(used, started)
    other.kill()
    other.wait()


def test_a_smoketest_that_cannot_begin_puts_the_bundles_back(used: Router) -> None:
    """What it finds out after it has deleted them; here, that somebody has the object with which it asks the kernel."""
    before = state(used)
    used.run(["ip", "nexthop", "add", "id", str(0x7B000001), "blackhole"])
    done = used.run([*MAY_STOP, PROGRAMS[0]], check=False, timeout=120)
    used.run(["ip", "nexthop", "del", "id", str(0x7B000001)])
    assert done.returncode == 1 and "RTNETLINK answers: File exists" in done.stderr, done.stderr
    assert state(used) == before
    used.wait(lambda: list(processes(used)) == [1], timeout=60, what="its own bundle again")
