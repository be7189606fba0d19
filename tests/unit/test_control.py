"""The control socket, with real clients: good ones, silent ones, and many of those."""

from __future__ import annotations

import json
import re
import selectors
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from zerotier_multi.pathd import control
from zerotier_multi.pathd.control import ControlSocket, PathdError, ask


@pytest.fixture
def box(tmp_path: Path) -> Iterator[tuple[Path, selectors.BaseSelector]]:
    selector, path = selectors.DefaultSelector(), tmp_path / "socket"
    ControlSocket(selector, lambda request, root: {"asked": request, "root": root}, path, privileged=True)
    yield path, selector
    for key in list(selector.get_map().values()):
        selector.unregister(key.fileobj)
        key.fileobj.close()


def client(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(5)
    made.connect(str(path))
    return made


def work(selector: selectors.BaseSelector) -> None:
    while ready := selector.select(0):
        for key, _ in ready:
            key.data()


def answer(selector: selectors.BaseSelector, sock: socket.socket, question: bytes) -> dict:
    sock.sendall(question)
    work(selector)
    with sock.makefile("rb") as file:
        return json.loads(file.readline())


def test_a_question_in_pieces_is_answered(box: tuple[Path, selectors.BaseSelector]) -> None:
    path, selector = box
    with client(path) as sock:
        sock.sendall(b'{"op": "sta')
        work(selector)
        assert answer(selector, sock, b'tus"}\n')["asked"] == {"op": "status"}


@pytest.mark.parametrize("question", [b"\n", b"[]\n", b"\xff\n", b"[" * 60000 + b"\n"])
def test_what_is_no_request_is_told_so(box: tuple[Path, selectors.BaseSelector], question: bytes) -> None:
    path, selector = box
    with client(path) as sock:
        assert answer(selector, sock, question) == {"error": "not a request"}


def crowd(path: Path, selector: selectors.BaseSelector, count: int) -> list[socket.socket]:
    """So many clients that have come and said nothing."""
    clients = []
    for _ in range(count):
        clients.append(client(path))
        work(selector)
    return clients


def test_a_client_that_is_put_out_while_it_speaks(box: tuple[Path, selectors.BaseSelector]) -> None:
    """One look at the sockets finds both the new client and the request of the one that gives way to it."""
    path, selector = box
    clients = crowd(path, selector, 32)
    clients.append(client(path))
    clients[0].sendall(b"{}\n")
    work(selector)
    assert answer(selector, clients[-1], b"{}\n")["asked"] == {}
    for sock in clients:
        sock.close()


def test_silent_clients_do_not_use_up_the_descriptors(box: tuple[Path, selectors.BaseSelector]) -> None:
    path, selector = box
    silent = crowd(path, selector, 200)
    try:
        assert len(selector.get_map()) <= 40
        assert silent[0].recv(1) == b"", "the oldest are put out"
        with client(path) as sock:
            assert answer(selector, sock, b"{}\n")["asked"] == {}
        assert answer(selector, silent[-1], b"{}\n")["asked"] == {}
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
    selector, path, worked = selectors.DefaultSelector(), tmp_path / "socket", []

    def handler(request: dict, root: bool) -> dict:
        worked.append(root)
        return {"answer": len(worked)}

    door = ControlSocket(selector, handler, path, privileged=False)
    for _ in range(100):
        with client(path) as sock:
            work(selector)
            answer(selector, sock, b'{"op": "status"}\n')
    assert set(worked) == {False} and len(worked) < 50
    with client(path) as sock:
        work(selector)
        assert answer(selector, sock, b'{"op": "sync"}\n') == {"answer": len(worked)}, "what is no status is asked each time"
    door.close()


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
