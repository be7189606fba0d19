"""Tokens of instances are told to root's listeners alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from zerotier_multi import listener, names
from zerotier_multi.listener import ESTABLISHED, LISTENING, Sock, crowd, is_root_at, look, others, rows
from zerotier_multi.ztapi import ApiError, ZeroTierApi


def test_who_listens_and_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        assert look(place) == look(place) and look(place).user == os.geteuid() == 0
        with socket.create_connection(place) as connection:
            assert is_root_at(connection)  # not accepted yet: who listens
            accepted, _ = server.accept()
            assert is_root_at(connection)
            with accepted:
                there = look(place, connection.getsockname())
                assert there and there.state == ESTABLISHED and there.inode and there in rows()
    assert look(place) is None and not is_root_at(connection)


def test_the_kernel_s_table_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as connection:
        place, here = server.getsockname(), connection.getsockname()
        told = look(place), look(place, here), look(here, place)
        monkeypatch.setattr(listener, "_ask_kernel", none)
        assert (look(place), look(place, here), look(here, place)) == told and is_root_at(connection)
        assert look(("127.0.0.1", 1)) is None


def tcp(own: str, other: str, state: int = ESTABLISHED, user: int = 1000, inode: int = 5) -> Sock:
    (a, b), (c, d) = own.rsplit(":", 1), other.rsplit(":", 1)
    return Sock((a, int(b)), (c, int(d)), state, user, inode)


def test_who_else_holds_connections() -> None:
    def pair(caller: str, user: int, at: str = "127.0.0.1:9993", inode: int = 5) -> list[Sock]:
        return [tcp(caller, at, user=user, inode=inode), tcp(at, caller, user=0)]

    sockets = [
        tcp("0.0.0.0:9993", "0.0.0.0:0", LISTENING, 0),
        *pair("127.0.0.1:40000", 65534), *pair("127.0.0.1:40001", 65534), *pair("127.0.0.2:40001", 4242),
        *pair("127.0.0.1:40002", 0),  # root's own
        *pair("127.0.0.1:40003", 65534, "127.0.0.1:9994"),  # another port
        *pair("127.0.0.1:40004", 0, inode=0),  # closed by its caller
        tcp("127.0.0.1:9993", "127.0.0.1:40005", user=0),  # its caller has gone
        *pair("::1:40006", 65534, "::1:9993"),
        tcp("198.51.100.1:9993", "203.0.113.9:40000", user=0),  # from outside
    ]  # fmt: skip
    found = others(9993, sockets)
    assert found == {"user nobody": 3, "user 4242": 1, "host 203.0.113.9": 1}
    assert crowd(found) == "3 connections of user nobody and 1 of user 4242 and 1 of host 203.0.113.9"
    assert crowd(Counter({"user nobody": 1})) == "1 connection of user nobody"


NOBODY = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
caller, _ = server.accept()
caller.settimeout(5)
print(caller.recv(4096), flush=True)
"""


def test_another_user_on_the_port_is_not_told_the_token(tmp_path: Path) -> None:
    (tmp_path / "authtoken.secret").write_text("the token")
    thief = subprocess.Popen([sys.executable, "-c", NOBODY], stdout=subprocess.PIPE, text=True, user=65534, group=65534, env={})
    assert thief.stdout
    with pytest.raises(ApiError, match="belongs to another program, so the token of the instance is not sent"):
        ZeroTierApi(tmp_path, int(thief.stdout.readline())).status()
    assert thief.communicate(timeout=10)[0] == "b''\n"


def test_an_instance_of_root_is_asked(tmp_path: Path) -> None:
    assert os.geteuid() == 0
    (tmp_path / "authtoken.secret").write_text("the token")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                assert b"X-ZT1-Auth: the token" in caller.recv(4096)
                caller.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"online":1}')

        thread = threading.Thread(target=answer)
        thread.start()
        assert ZeroTierApi(tmp_path, server.getsockname()[1]).status() == {"online": 1}
        thread.join()


@pytest.mark.parametrize("where", ["homes/zt0/2", "run/zt0-2"])
def test_the_socket_is_taken_first_and_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Of a service, or in the home: an older ztnode that an upgrade has left running has it there."""
    monkeypatch.setattr(names, "HOME_ROOT", tmp_path / "homes")
    monkeypatch.setattr(names, "INSTANCE_RUN_ROOT", tmp_path / "run")
    home = names.home("zt0", 2)
    for made in (home, tmp_path / where):
        made.mkdir(parents=True, exist_ok=True)
    (home / "authtoken.secret").write_text("the token")
    said = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / where / "api.sock"))
        server.listen()

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                said.append(caller.recv(4096))
                caller.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"online":1}')

        thread = threading.Thread(target=answer)
        thread.start()
        assert ZeroTierApi(home, 1).status() == {"online": 1}
        thread.join()
    assert b"GET /status" in said[0] and b"X-ZT1-Auth" not in said[0]
    # One that a killed process has left is no way in.
    with pytest.raises(ApiError, match="the instance on port 1 does not answer"):
        ZeroTierApi(home, 1).status()


SWAP = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
caller, _ = server.accept()
server.close()
print("taken", flush=True)
caller.settimeout(5)
print(caller.recv(4096), flush=True)
"""


def test_who_has_accepted_us_is_asked_for_not_who_listens_now() -> None:
    """Somebody takes the connection and leaves the port to the instance before we look."""
    thief = subprocess.Popen(["/usr/bin/python3", "-c", SWAP], stdout=subprocess.PIPE, text=True, user=65534, group=65534, env={})
    assert thief.stdout
    place = ("127.0.0.1", int(thief.stdout.readline()))
    with socket.create_connection(place) as connection:
        assert thief.stdout.readline() == "taken\n"
        with socket.create_server(place):
            assert look(place) and look(place).user == 0
            assert not is_root_at(connection)
    thief.communicate(timeout=10)
