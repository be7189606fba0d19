"""QEMU's machine protocol: what is done to a machine from outside."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from lab.process import LabError


class Qmp:
    """A connection to a machine's control socket."""

    def __init__(self, path: Path, timeout: float = 60.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("r")
        self._file.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Carry out a command. Raises :class:`LabError` with QEMU's reason."""
        request: dict[str, Any] = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while line := self._file.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"QEMU refused {command}: {answer['error']['desc']}")
            if "return" in answer:  # anything else is an event
                return answer["return"]
        raise LabError(f"QEMU ended while it was asked for {command}")

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()
