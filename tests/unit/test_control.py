"""The control socket, with real clients: good ones, silent ones, and many of those."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.loop import Loop
from zerotier_multi import systemd
from zerotier_multi.pathd import control
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.pathd.control_socket import ControlSocket
from zerotier_multi.pathd.loop import run


@pytest.fixture
def box(tmp_path: Path) -> Iterator[tuple[Path, Loop]]:
    loop, path = Loop(), tmp_path / "socket"

    async def handler(request: dict, root: bool) -> dict:
        return {"asked": request, "root": root}

    door = ControlSocket(loop, handler, path, privileged=True)
    yield path, loop
    loop.run_until_complete(door.close())
    assert loop.watched == 0 and not path.exists()
    loop.close()


def client(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(5)
    made.connect(str(path))
    return made


def answer(loop: Loop, sock: socket.socket, question: bytes) -> dict:
    sock.sendall(question)
    loop.turn()
    with sock.makefile("rb") as file:
        return json.loads(file.readline())


def test_a_question_in_pieces_is_answered(box: tuple[Path, Loop]) -> None:
    path, loop = box
    with client(path) as sock:
        sock.sendall(b'{"op": "sta')
        loop.turn()
        assert answer(loop, sock, b'tus"}\n')["asked"] == {"op": "status"}


@pytest.mark.parametrize("question", [b"\n", b"[]\n", b"\xff\n", b"[" * 60000 + b"\n"])
def test_what_is_no_request_is_told_so(box: tuple[Path, Loop], question: bytes) -> None:
    path, loop = box
    with client(path) as sock:
        assert answer(loop, sock, question) == {"error": "not a request"}


def crowd(path: Path, loop: Loop, count: int) -> list[socket.socket]:
    """So many clients that have come and said nothing."""
    clients = []
    for _ in range(count):
        clients.append(client(path))
        loop.turn()
    return clients


def test_a_client_that_is_put_out_while_it_speaks(box: tuple[Path, Loop]) -> None:
    """One look at the sockets finds both the new client and the request of the one that gives way to it."""
    path, loop = box
    clients = crowd(path, loop, 32)
    clients.append(client(path))
    clients[0].sendall(b"{}\n")
    loop.turn()
    assert answer(loop, clients[-1], b"{}\n")["asked"] == {}
    for sock in clients:
        sock.close()


def test_silent_clients_do_not_use_up_the_descriptors(box: tuple[Path, Loop]) -> None:
    path, loop = box
    silent = crowd(path, loop, 200)
    try:
        assert loop.watched <= 40
        assert silent[0].recv(1) == b"", "the oldest are put out"
        with client(path) as sock:
            assert answer(loop, sock, b"{}\n")["asked"] == {}
        assert answer(loop, silent[-1], b"{}\n")["asked"] == {}
    finally:
        for sock in silent:
            sock.close()


def served(path: Path, hang_up: int) -> threading.Thread:
    """A daemon at ``path`` that dies over the first ``hang_up`` requests and answers the next one."""

    def serve() -> None:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(path))
            door.listen()
            for number in range(hang_up + 1):
                caller, _ = door.accept()
                with caller, caller.makefile("rb") as file:
                    question = file.readline()
                    if number == hang_up:
                        caller.sendall(b'{"asked": ' + question.strip() + b"}\n")

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize("hang_up", [0, 1, 3])
def test_a_daemon_that_died_is_asked_again_once_it_is_back(tmp_path: Path, hang_up: int) -> None:
    path, threads = tmp_path / "socket", []

    def comes_back() -> bool:
        if not threads:
            threads.append(served(path, hang_up))
        return True

    assert ask({"op": "status"}, 5.0, path, comes_back) == {"asked": {"op": "status"}}
    threads[0].join()


@pytest.mark.parametrize(("active", "waits"), [
    ("active", True), ("activating", True), ("deactivating", True), ("inactive", False), ("failed", False),
])  # fmt: skip
def test_systemd_says_whether_a_daemon_comes_back(monkeypatch: pytest.MonkeyPatch, active: str, waits: bool) -> None:
    """One that is restarted, as with an upgrade, ends before it starts, and has closed its socket by then."""
    monkeypatch.setattr(control.systemd, "unit_states", lambda units: {unit: systemd.UnitState(active) for unit in units})
    assert control._comes_back() == waits


@pytest.mark.parametrize("left_behind", [False, True])
def test_a_daemon_that_does_not_come_back_is_not_waited_for(tmp_path: Path, left_behind: bool) -> None:
    path, asked = tmp_path / "socket", []
    if left_behind:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(path))
    with pytest.raises(PathdError, match="zerotier-pathd does not answer"):
        ask({"op": "status"}, 60.0, path, lambda: bool(asked.append(1)))
    assert len(asked) == 1


def test_who_asks_is_more_patient_than_the_watchdog() -> None:
    """Otherwise a commit fails before the daemon that hangs is started again; a slow start is not ended either."""
    unit = Path(__file__).parents[2] / "packages/zerotier-multi/systemd/zerotier-pathd.service"
    said = dict(line.split("=", 1) for line in unit.read_text().splitlines() if re.match(r"\w+Sec=\d", line))
    assert control._PATIENCE >= 1.5 * float(said["WatchdogSec"])
    assert float(said["TimeoutStartSec"]) > 2 * 90, "what systemd allows by itself"


def test_patience_with_a_daemon_that_never_comes_ends(tmp_path: Path) -> None:
    with pytest.raises(PathdError, match="FileNotFoundError"):
        ask({"op": "status"}, 0.2, tmp_path / "socket", lambda: True)


def test_what_everybody_asks_is_worked_out_now_and_then_only(tmp_path: Path) -> None:
    loop, path, worked = Loop(), tmp_path / "socket", []

    async def handler(request: dict, root: bool) -> dict:
        worked.append(root)
        return {"answer": len(worked)}

    door = ControlSocket(loop, handler, path, privileged=False)
    for _ in range(100):
        with client(path) as sock:
            loop.turn()
            answer(loop, sock, b'{"op": "status"}\n')
    assert set(worked) == {False} and len(worked) < 50
    with client(path) as sock:
        loop.turn()
        assert answer(loop, sock, b'{"op": "sync"}\n') == {"answer": len(worked)}, "what is no status is asked each time"
    loop.run_until_complete(door.close())
    loop.close()


def test_a_request_that_waits_delays_no_other(tmp_path: Path) -> None:
    loop, path = Loop(), tmp_path / "socket"
    done = asyncio.Event()

    async def handler(request: dict, _root: bool) -> dict:
        if request["op"] == "drain":
            await done.wait()
        return {"did": request["op"]}

    door = ControlSocket(loop, handler, path, privileged=True)
    with client(path) as slow, client(path) as quick, client(path) as gone:
        slow.sendall(b'{"op": "drain"}\n')
        gone.sendall(b'{"op": "drain"}\n')
        gone.close()
        assert answer(loop, quick, b'{"op": "status"}\n') == {"did": "status"}
        done.set()
        assert answer(loop, slow, b"") == {"did": "drain"}
    loop.turn()
    assert loop.watched == 1, "the door alone"
    loop.run_until_complete(door.close())
    loop.close()


def test_an_error_in_a_request_ends_the_daemon(tmp_path: Path) -> None:
    loop, path = asyncio.new_event_loop(), tmp_path / "socket"

    async def handler(_request: dict, _root: bool) -> dict:
        raise OSError(5, "a broken daemon")

    ControlSocket(loop, handler, path, privileged=True)
    with client(path) as sock:
        sock.sendall(b"{}\n")
        with pytest.raises(OSError, match="a broken daemon"):
            run(loop)
    loop.close()


def test_a_crowd_at_the_door_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, waiting, turned_away = tmp_path / "socket", [], threading.Event()
    monkeypatch.setattr(control.time, "sleep", lambda _seconds: turned_away.set())
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(1)
        while True:
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            try:
                sock.connect(str(path))
            except BlockingIOError:
                sock.close()
                break
            waiting.append(sock)

        def serve() -> None:
            assert turned_away.wait(5)
            for _ in range(len(waiting) + 1):
                caller, _ = door.accept()
                with caller, caller.makefile("rb") as file:
                    if file.readline():
                        caller.sendall(b'{"ok": true}\n')

        for sock in waiting:
            sock.shutdown(socket.SHUT_WR)
        thread = threading.Thread(target=serve)
        thread.start()
        assert ask({"op": "status"}, 5.0, path, lambda: False) == {"ok": True}
        thread.join()
        for sock in waiting:
            sock.close()
