"""The control socket, with real clients: good ones, silent ones, and many of those."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from zerotier_multi.pathd.control import ControlSocket


@pytest.fixture
def box(tmp_path: Path) -> Iterator[tuple[Path, selectors.BaseSelector]]:
    selector, path = selectors.DefaultSelector(), tmp_path / "socket"
    ControlSocket(selector, lambda request, root: {"asked": request, "root": root}, path)
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
