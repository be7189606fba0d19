"""The daemon's end of its control sockets; :mod:`control` is the other end, and says what is asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from asyncio import AbstractEventLoop, Task
from collections.abc import Awaitable, Callable
from pathlib import Path

from zerotier_multi.pathd.control import Request

_LIMIT = 65536  # bytes of a request
_FRESH = 0.1  # seconds for which everybody gets the same answer; making one takes longer than giving it
_CLIENTS = 32  # that may be silent at once; anybody on the router may connect

Handler = Callable[[Request, bool], Awaitable[Request]]


class ControlSocket:
    """Listens for requests inside the daemon's loop; one coroutine per client, so a slow or silent one delays nobody.

    ``privileged`` is root's socket: its directory must let nobody else in, and who gets in all the same is not answered.
    """

    def __init__(self, loop: AbstractEventLoop, handler: Handler, path: Path, *, privileged: bool) -> None:
        self._loop, self._handler, self._path, self._privileged = loop, handler, path, privileged
        self._clients: dict[Task[None], None] = {}  # the oldest first
        self._status: tuple[float, Request] = (-_FRESH, {})  # when it was made, and what it was
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._socket.bind(str(path))
        path.chmod(0o600 if privileged else 0o666)
        self._socket.listen(128)
        loop.add_reader(self._socket, self._accept)

    async def close(self) -> None:
        """Accept no more requests, and end those under way."""
        self._path.unlink(missing_ok=True)
        self._loop.remove_reader(self._socket)
        self._socket.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except OSError:
            return
        if len(self._clients) >= _CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.cancel()
        client.setblocking(False)
        task = self._loop.create_task(self._serve(client))
        self._clients[task] = None
        task.add_done_callback(lambda ended: self._ended(ended, client))

    def _ended(self, task: Task[None], client: socket.socket) -> None:
        client.close()
        self._clients.pop(task, None)
        if not task.cancelled() and (error := task.exception()):
            self._loop.call_exception_handler({"message": "a request has failed", "exception": error})

    async def _serve(self, client: socket.socket) -> None:
        line = await self._line(client)
        if line is not None:
            reply = json.dumps(await self._answer(client, line)).encode() + b"\n"
            with contextlib.suppress(OSError):
                await self._loop.sock_sendall(client, reply)

    async def _line(self, client: socket.socket) -> bytes | None:
        """The request, or None where the client leaves without one."""
        buffer = b""
        while b"\n" not in buffer:
            try:
                data = await self._loop.sock_recv(client, _LIMIT)
            except OSError:
                data = b""
            buffer += data
            if not data or len(buffer) >= _LIMIT:
                break
        line, end, _rest = buffer.partition(b"\n")
        return line if end else None

    async def _answer(self, client: socket.socket, line: bytes) -> Request:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict):
            return {"error": "not a request"}
        if self._privileged:
            _pid, uid, _gid = struct.unpack("=iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            return await self._handler(request, True) if uid == 0 else {"error": "this socket is for root only"}
        if request.get("op") != "status":
            return await self._handler(request, False)
        at, answer = self._status
        now = time.monotonic()
        if now - at >= _FRESH:
            answer = await self._handler({"op": "status"}, False)
            self._status = (now, answer)
        return answer
