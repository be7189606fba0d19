"""Tokens of instances are told to root's listeners alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from zerotier_multi.listener import listens_as_root
from zerotier_multi.ztapi import ApiError, ZeroTierApi


def test_who_listens(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: {}:2709 00000000:0000 {} 00000000:00000000 00:00000000 00000000 {:5} 0 1 1 0 100 0 0 10 0\n"
    table = tmp_path / "tcp"
    for rows, good in (
        ([], False),
        ([("0100007F", "0A", 0)], True),
        ([("00000000", "0A", 0), ("0100007F", "01", 1000)], True),
        ([("0100007F", "0A", 1000)], False),
        ([("0100007F", "0A", 0), ("00000000", "0A", 1000)], False),
    ):
        table.write_text(head + "".join(row.format(*entry) for entry in rows))
        assert listens_as_root(9993, table) is good
        assert not listens_as_root(9994, table)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert listens_as_root(server.getsockname()[1])


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
    with pytest.raises(ApiError, match="belongs to another program than the instance, so its token is not told"):
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
