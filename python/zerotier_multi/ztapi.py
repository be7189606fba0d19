"""Client of the local API that every engine serves."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

from zerotier_multi.apiway import connect, headers
from zerotier_multi.listener import is_root_at


class ApiError(RuntimeError):
    """An instance does not answer; the text is one sentence and never holds the token."""


class ZeroTierApi:
    """The API of one instance, found by its home and port. Needs to read the home, so root."""

    def __init__(self, home: Path, port: int, timeout: float = 2.0) -> None:
        self._home, self._port, self._timeout = home, port, timeout

    def get(self, path: str) -> Any:
        """Decoded answer to ``GET path``. Raises :class:`ApiError`.

        The client closes first, because a server that does keeps its port in TIME_WAIT, on which
        zerotier-one 1.14.1 cannot start again.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        try:
            connection.sock = connect(self._home, self._port, self._timeout)
            if not is_root_at(connection.sock):
                raise ApiError(f"port {self._port} belongs to another program, so the token of the instance is not sent")
            connection.request("GET", path, headers={**headers(self._home, connection.sock), "Connection": "keep-alive"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ApiError(f"the instance on port {self._port} does not answer ({type(error).__name__})") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise ApiError(f"the instance on port {self._port} answered {answer.status} to {path}")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError(f"the instance on port {self._port} did not send JSON") from None

    def status(self) -> dict[str, Any]:
        """Address, version and what it listens on."""
        return dict(self.get("/status"))

    def peers(self) -> list[dict[str, Any]]:
        """Peers with their paths; only ``lastReceive`` tells whether a path lives."""
        return list(self.get("/peer"))

    def networks(self) -> list[dict[str, Any]]:
        """Networks with device, MTU and status."""
        return list(self.get("/network"))
