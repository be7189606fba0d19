"""The ways in to ztnode's API: the socket in the home for root, TCP for everybody with the token, and crowds on it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.process import wait
from tests.engine.test_contract import PORT, Node, engine, hosts, node  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

NOBODY, SOMEBODY = 65534, 1234
QUESTION = b"GET /status HTTP/1.0\r\n\r\n"


@pytest.fixture
def program(node: Node) -> Iterator[Callable[[int, str], subprocess.Popen[str]]]:
    """Start a program in the namespace of the node as a user; it has begun when it has printed a line."""
    running = []

    def start(user: int, text: str) -> subprocess.Popen[str]:
        command = [
            "ip",
            "netns",
            "exec",
            node.host.name,
            "setpriv",
            f"--reuid={user}",
            "--clear-groups",
            "/usr/bin/python3",
            "-c",
            text,
        ]
        made = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(made)
        assert made.stdout and made.stdout.readline() == "ready\n"
        return made

    yield start
    for made in running:
        made.kill()
        made.wait()


def at_socket(node: Node, question: bytes = QUESTION) -> bytes:
    """The first line of an answer at the socket in the home."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(3)
        connection.connect(str(node.home / "api.sock"))
        connection.sendall(question)
        return connection.recv(4096).partition(b"\r\n")[0]


def crowd(count: int) -> str:
    """Slow requests that say one more byte now and then; the ends of their connections are printed when all have ended."""
    return f"""
import socket, time
begin, ends = time.monotonic(), []
held = [socket.create_connection(("127.0.0.1", {PORT})) for _ in range({count})]
for connection in held:
    connection.setblocking(False)
print("ready", flush=True)
while held and time.monotonic() < begin + 20:
    for connection in list(held):
        try:
            connection.send(b"G")
            over = connection.recv(1) == b""
        except BlockingIOError:
            over = False
        except OSError:
            over = True
        if over:
            held.remove(connection)
            ends.append(time.monotonic() - begin)
    time.sleep(0.2)
print(len(held), *(round(end, 1) for end in ends), flush=True)
"""


def test_the_socket_is_root_s_and_needs_no_token(node: Node) -> None:
    node.start()
    where = node.home / "api.sock"
    assert where.is_socket() and where.stat().st_mode & 0o777 == 0o600
    assert at_socket(node) == b"HTTP/1.1 200 OK"
    assert at_socket(node, b"GET /nothing HTTP/1.0\r\n\r\n") == b"HTTP/1.1 404 Not Found"
    # The kernel says who calls, should the modes ever be wrong.
    for path in (where, *where.parents[:4]):
        path.chmod(0o777 if path == where else 0o755)
    ask = (
        f"import socket; s = socket.socket(1); s.connect({str(where)!r}); s.sendall({QUESTION!r});"
        "print(s.recv(4096).split()[1].decode())"
    )
    asked = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", ask],
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == "401\n"
    assert node.stop() == 0 and not where.exists()


def test_the_socket_of_a_service_is_not_in_the_home(node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that an older version has left there goes, and nothing else of its name."""
    left = node.home / "api.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(left))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    node.start()
    assert (tmp_path / "api.sock").is_socket() and not left.exists()
    assert node.stop() == 0 and not (tmp_path / "api.sock").exists()
    left.write_text("mine\n")
    node.start()
    assert left.read_text() == "mine\n"


def test_a_socket_that_a_killed_process_has_left_is_replaced(node: Node) -> None:
    node.start()
    assert node.process
    for pid in node.pids():
        subprocess.run(["kill", "-KILL", str(pid)], check=True)
    node.process.wait(timeout=5)
    assert (node.home / "api.sock").is_socket()
    node.start()
    assert at_socket(node) == b"HTTP/1.1 200 OK"


def test_without_room_for_the_socket_there_is_tcp(node: Node) -> None:
    (node.home / "api.sock").mkdir()
    node.start()
    assert node.get("/status")[0] == 200
    assert "api.sock cannot be created" in (node.home.parent / "home.log").read_text()


def test_a_crowd_leaves_room_for_others_and_is_cut_in_time(
    node: Node, program: Callable[[int, str], subprocess.Popen[str]]
) -> None:
    node.start()
    crowds = [program(NOBODY, crowd(40)), program(NOBODY - 1, crowd(40)), program(NOBODY - 2, crowd(40))]
    begin = time.monotonic()
    assert at_socket(node) == b"HTTP/1.1 200 OK" and node.get("/status")[0] == 200  # 24 places are theirs, not all
    crowds[2].kill()
    crowds[2].wait()

    # Another user comes in as well once one of three is gone.
    ask = f"import socket; s = socket.create_connection(('127.0.0.1', {PORT})); s.sendall({QUESTION!r}); print(s.recv(99).split()[1].decode(), flush=True)"

    def answered() -> bool:
        done = subprocess.run(
            ["ip", "netns", "exec", node.host.name, "setpriv", f"--reuid={SOMEBODY}", "--clear-groups", "/usr/bin/python3", "-c", ask],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout == "401\n"

    wait(answered, timeout=3, what="an answer for another user")
    assert time.monotonic() - begin < 8
    for one in crowds[:2]:
        assert one.stdout
        left, *ends = one.stdout.readline().split()
        assert left == "0" and len(ends) == 40
        cut = [float(end) for end in ends if float(end) > 5]
        assert len(cut) == 8 and all(9.5 < end < 12 for end in cut), cut


def test_somebody_on_the_tcp_port_is_named_and_does_not_hold_the_node_down(
    node: Node, program: Callable[[int, str], subprocess.Popen[str]]
) -> None:
    listen = f"import socket, time; s = socket.create_server(('127.0.0.1', {PORT})); print('ready', flush=True); time.sleep(60)"
    thief = program(NOBODY, listen)
    node.start(answer=False)
    log = Path(node.home.parent / "home.log")
    wait(lambda: f"only at {node.home}/api.sock" in log.read_text(), timeout=15, what="a line about the port")
    assert f"TCP port {PORT} is taken by python3 (pid {thief.pid}) of user nobody; until it is free" in log.read_text()
    assert at_socket(node) == b"HTTP/1.1 200 OK"
    thief.kill()
    thief.wait()
    wait(lambda: node.get("/status")[0] == 200, timeout=5, what="the API on TCP")
    assert f"TCP port {PORT} is free again" in log.read_text()


@pytest.mark.parametrize(("mode", "user"), [(0o644, 0), (0o600, NOBODY)])
def test_a_token_that_others_can_have_read_is_replaced(node: Node, mode: int, user: int) -> None:
    token = node.home / "authtoken.secret"
    token.write_text("0123456789abcdef")
    token.chmod(mode)
    os.chown(token, user, -1)
    node.start()
    assert node.token() != "0123456789abcdef" and (token.stat().st_mode & 0o777, token.stat().st_uid) == (0o600, 0)
    log = (node.home.parent / "home.log").read_text()
    assert "authtoken.secret could be read by others; a new token replaces it" in log
    assert "0123456789abcdef" not in log and node.token() not in log
