"""Ansible's way into a router of the lab: ``lab_command`` is what runs a program inside (:meth:`lab.router.Router.command`)."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: lab
short_description: Runs programs in a router of the lab
description: Enters the namespaces of the router.
options:
  command:
    description: Words of the command that runs what follows inside.
    type: list
    elements: str
    vars: [{name: lab_command}]
"""


class Connection(ConnectionBase):
    """One router."""

    transport = "lab"
    has_pipelining = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def _run(self, words: list[str], data: bytes | None) -> tuple[int, bytes, bytes]:
        done = subprocess.run([*self.get_option("command"), *words], input=data or b"", capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._run(["sh", "-c", cmd], in_data)

    def put_file(self, in_path: str, out_path: str) -> None:
        with open(in_path, "rb") as file:
            self._run(["sh", "-c", f"cat >{shlex.quote(out_path)}"], file.read())

    def fetch_file(self, in_path: str, out_path: str) -> None:
        with open(out_path, "wb") as file:
            file.write(self._run(["cat", in_path], None)[1])

    def close(self) -> None:
        self._connected = False


__all__: list[Any] = ["Connection"]
