"""A local user against the instances' APIs: slow connections, and the port of an instance while that does not run."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.attack.conftest import INSTANCES
from tests.attack.settings import Attack
from tests.lab.conftest import ENGINE
from zerotier_multi import names

from lab import Router
from lab.scenario import IDENTITY, processes, show_identity, status, wait_paths

OURS = Path(ENGINE).name == "ztnode"
PORTS = [9993 + number for number in range(INSTANCES)]
PATHS = 2 * 2 * 2  # instances, families, remotes
SILENT = 37.0  # seconds in which zerotier-pathd asks an instance three times and waits for the last answer
CROWD = 40  # connections to each port; the finding was 33

# Holds so many slow connections to each port, every other one with a request that comes byte by byte, and connects again
# when it is cut.
_CROWD = """
import socket, sys, time
ports, count = [int(port) for port in sys.argv[2:]], int(sys.argv[1])
held = {}
while True:
    for key in ((port, number) for port in ports for number in range(count)):
        try:
            if key not in held:
                held[key] = socket.create_connection(("127.0.0.1", key[0]), 0.2)
                held[key].setblocking(False)
                if key[1] % 2:
                    held[key].send(b"GET /status HTTP/1.1\\r\\nX-Slow: ")
            elif key[1] % 2:
                held[key].send(b"x")
            if not held[key].recv(4096):
                held.pop(key).close()
        except BlockingIOError:
            pass
        except OSError:
            if key in held:
                held.pop(key).close()
    print("held", flush=True)
    time.sleep(0.5)
"""

# Takes a port as soon as it is free, and prints what everybody says who comes.
_THIEF = """
import selectors, socket, sys
kind, port = sys.argv[1], int(sys.argv[2])
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
if kind == "tcp":  # beside connections that have just ended
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
print("waits", flush=True)
while True:
    try:
        server.bind(("0.0.0.0", port))
        break
    except OSError:
        continue
print("has it", flush=True)
if kind == "udp":
    while True:
        server.recv(4096)
server.listen()
watch = selectors.DefaultSelector()
watch.register(server, selectors.EVENT_READ)
while True:
    for key, _ in watch.select():
        if key.fileobj is server:
            watch.register(server.accept()[0], selectors.EVENT_READ)
            continue
        said = key.fileobj.recv(65536)
        print("said", said, flush=True)
        if not said:
            watch.unregister(key.fileobj)
"""


@contextmanager
def nobody(router: Router, program: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A program of an unprivileged user; it has begun when it has printed a line."""
    words = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--pdeathsig",
        "KILL",
        "/usr/bin/python3",
        "-c",
        program,
    ]
    made = router.popen([*words, *map(str, arguments)])
    assert made.stdout and made.stdout.readline()
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def shown(router: Router) -> dict[str, object]:
    return dict(router.json([IDENTITY, "show_instances", "--bundle", "zt0", "--raw"]))


def changes(router: Router) -> list[int]:
    return [path["changes"] for path in status(router)["bundles"]["zt0"]["paths"]]


@pytest.fixture
def router(trio: list[Router]) -> Iterator[Router]:
    """The router that is attacked; afterwards all its paths carry traffic again."""
    yield trio[0]
    wait_paths(trio, PATHS, timeout=60.0)


def test_slow_connections_of_a_user_kill_nothing_and_hold_nothing_up(router: Router, attack: Attack) -> None:
    router.run(["systemctl", "restart", "zerotier-pathd"])  # from here on it asks every ten seconds
    before, identity = processes(router), show_identity(router, INSTANCES)
    begin, seen = time.monotonic(), []
    assert len(before) == INSTANCES
    with nobody(router, _CROWD, CROWD, *PORTS):
        fallen = changes(router)
        while not seen or time.monotonic() < begin + attack.either(SILENT, 300.0):
            assert show_identity(router, INSTANCES) == identity
            router.must_configure(f"set interfaces zerotier zt0 description 'round {len(seen)}'")
            seen.append(shown(router))
            if OURS:
                assert [entry["state"] for entry in seen[-1]["instances"]] == ["up"] * INSTANCES
                assert all(entry["version"] for entry in seen[-1]["instances"])
        assert processes(router) == before, "an instance was killed"
        assert changes(router) == fallen, "a path has fallen"
    journal = router.journal("zerotier-pathd")
    assert "it runs but does not answer" not in journal
    if not OURS:  # it has no place left for us; what is said is who has them
        for number, port in enumerate(PORTS, start=1):
            told = f"instance zt0/{number}: [0-9]+ connections of user nobody to TCP port {port} keep its API from answering"
            assert len(re.findall(told, journal)) == 1
        assert any("of user nobody to TCP port" in text for one in seen for text in one["warnings"])
    router.wait(
        lambda: all(entry["answers"] for entry in shown(router)["instances"]), timeout=15, what="answers when the crowd has gone"
    )
    router.must_configure("delete interfaces zerotier zt0 description")


# Where its UDP port is taken zerotier-one takes another one.
@pytest.mark.parametrize("kind", ["tcp", pytest.param("udp", marks=pytest.mark.only_ztnode)])
def test_a_user_who_takes_the_port_of_an_instance_that_died(router: Router, kind: str) -> None:
    """He gets no token; he is named; and the instance is back when the port is free."""
    before = processes(router)
    with nobody(router, _THIEF, kind, PORTS[0]) as thief:
        router.run(["kill", "-KILL", str(before[1])])
        assert thief.stdout and thief.stdout.readline() == "has it\n"
        if OURS and kind == "tcp":  # it works on without
            router.wait(lambda: shown(router)["instances"][0]["state"] == "up", timeout=20, what="the instance")
            assert processes(router)[1] != before[1]
            said = f"TCP port {PORTS[0]} is taken by another program of user nobody; until it is free, the API is available only at {names.instance_run_dir('zt0', 1)}/api.sock"
            assert said in router.journal("zerotier-multi@zt0-1")
        else:
            router.wait(
                lambda: "user nobody; it is started as soon as" in router.journal("zerotier-pathd"), timeout=20, what="a line"
            )
            entry, (warning, *_) = shown(router)["instances"][0], shown(router)["warnings"]
            assert entry["state"] == "down" and "zt0/1 does not run (failed" in warning
            assert f"{kind.upper()} port {PORTS[0]} is taken by python3 (pid" in warning and "of user nobody" in warning
        show_identity(router, INSTANCES - (not OURS or kind == "udp"))
        result = router.configure("set interfaces zerotier zt0 description gap")
        assert result.ok, result.output
        thief.kill()
        assert "X-ZT1-Auth" not in thief.stdout.read()
    begin = time.monotonic()
    router.wait(lambda: len(processes(router)) == INSTANCES, timeout=10, what="the instance back")
    router.wait(lambda: shown(router)["instances"][0]["answers"], timeout=10, what="its answers")
    print(f"back after {time.monotonic() - begin:.1f} s")
    router.must_configure("delete interfaces zerotier zt0 description")


def test_a_token_that_others_could_read_is_replaced_by_a_commit(router: Router) -> None:
    token = "/config/zerotier-multi/zt0/1/authtoken.secret"
    before, old = processes(router), router.read(token)
    router.run(["chmod", "644", token])
    result = router.must_configure("set interfaces zerotier zt0 description 'open token'")
    said, logged = f"{token} could be read by others (mode 0644), so the instance gets a new token", router.journal()
    assert said in " ".join(result.output.split()) and logged.count(said) == 1
    assert old not in result.output + logged

    def replaced() -> bool:
        now = processes(router)
        return len(now) == INSTANCES and now[1] != before[1] and shown(router)["instances"][0]["answers"]

    router.wait(replaced, timeout=20, what="the instance with its new token")
    assert router.read(token) != old and router.run(["stat", "-c", "%a %U", token]).stdout == "600 root\n"
    after = processes(router)
    router.must_configure("delete interfaces zerotier zt0 description")
    assert processes(router) == after and {k: pid for k, pid in after.items() if k > 1} == {
        k: pid for k, pid in before.items() if k > 1
    }
