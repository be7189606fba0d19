"""HTTP to a controller: certificates checked, redirects not followed, answers of bounded size, the key in no message."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from typing import Any

from zerotier_multi.controller.dialects import Request
from zerotier_multi.controller.settings import Place
from zerotier_multi.listener import look
from zerotier_multi.version import VERSION

TIMEOUT = 10.0  # seconds for a connection, and between two parts of an answer
LIMIT = 4 << 20  # bytes of an answer; ZTNET sends all members at once
_SYSTEM_USERS = 1000  # Debian and VyOS give users of programs numbers below


class ControllerError(RuntimeError):
    """A controller did not do what it was asked to; the text goes on after its address, without its words or the key."""


class Refused(ControllerError):
    """It answered with a status of HTTP that is no success."""

    def __init__(self, status: int) -> None:
        super().__init__(f"answers with HTTP status {status}")
        self.status = status


class Client:
    """A connection to one controller. ``header`` has the key. Close it before the controller does."""

    def __init__(self, place: Place, header: tuple[str, str], ca_file: str | None, insecure: bool) -> None:
        self._place, self._header = place, header
        self._connection = _connection(place, ca_file, insecure)
        self._checked = False

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def ask(self, request: Request) -> Any:
        """The JSON of a good answer, None for an empty one. Raises :class:`ControllerError`."""
        body = None if request.body is None else json.dumps(request.body).encode()
        headers = {
            self._header[0]: self._header[1],
            "Accept": "application/json",
            "User-Agent": f"zerotier-multi/{VERSION}",
            "Connection": "keep-alive",
            **({"Content-Type": "application/json"} if body is not None else {}),
        }
        try:
            self._connect()
            self._connection.request(request.method, self._place.path + request.path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read(LIMIT + 1)
        except ssl.SSLCertVerificationError as error:
            raise ControllerError(f"has a certificate that is not accepted ({error.verify_message.rstrip('.')})") from None
        except (TimeoutError, socket.gaierror, OSError) as error:
            raise ControllerError(f"cannot be reached ({_reason(error)})") from None
        except (ValueError, http.client.HTTPException) as error:  # whose text may hold a header
            raise ControllerError(f"does not speak HTTP as expected ({type(error).__name__})") from None
        return _content(answer.status, content)

    def _connect(self) -> None:
        """Connect where that is to be done, and look who is there before the key is sent."""
        if self._connection.sock is None:
            self._connection.connect()
            self._checked = False
        if self._checked or self._place.secure or not self._place.is_local:
            return
        # While the controller does not run, any user may listen on its port, and would get the key.
        there = self._connection.sock.getpeername()[:2]
        owner = look((there[0], there[1]))
        if owner is None or owner.user >= _SYSTEM_USERS:
            self._connection.close()
            raise ControllerError("has a port that belongs to a user's program, so the key is not sent")
        self._checked = True


def _connection(place: Place, ca_file: str | None, insecure: bool) -> http.client.HTTPConnection:
    host = "127.0.0.1" if place.host == "localhost" and not place.secure else place.host
    if not place.secure:
        return http.client.HTTPConnection(host, place.port, timeout=TIMEOUT)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError):
        raise ControllerError(f"cannot be checked, because {ca_file} is no file of PEM certificates") from None
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, place.port, timeout=TIMEOUT, context=context)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, socket.gaierror):
        return "its name does not resolve to an address"
    if isinstance(error, ssl.SSLError):
        return "no TLS connection"
    return error.strerror or type(error).__name__


def _content(status: int, content: bytes) -> Any:
    if 300 <= status < 400:
        raise ControllerError("redirects to another address, where the key is not sent")
    if not 200 <= status < 300:
        raise Refused(status)
    if len(content) > LIMIT:
        raise ControllerError(f"sends more than {LIMIT >> 20} MiB")
    if not content.strip():
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ControllerError("does not send JSON") from None
