"""The end that receives: a listener on the transit addresses of a bundle that ends with the run.

It is reached through the member devices alone, by the remotes that are configured, and by one run.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import selectors
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from zerotier_multi import box, systemd
from zerotier_multi.cpu import placement_order
from zerotier_multi.op.benchmark import wire
from zerotier_multi.op.benchmark.usage import look
from zerotier_multi.op.errors import Unavailable
from zerotier_multi.op.gather import enabled_plan_of, require_root
from zerotier_multi.plan import Plan

WAITING = 600.0  # seconds without a run until the listener ends
IDLE = 60.0  # seconds without a word of the other end
CONNECTIONS = 256  # at once

Say = Callable[[str], None]


def tell(sentence: str) -> None:
    """Progress, for a person; the answer itself goes to the standard output."""
    print(sentence, file=sys.stderr, flush=True)


def serve(bundle: str, say: Say = tell, waiting: float = WAITING) -> None:
    """Receive what one run of a remote sends. Raises :class:`Unavailable` when there is nothing to listen on, or no run."""
    require_root()
    plan = enabled_plan_of(bundle)
    with ExitStack() as stack:
        listeners = open_listeners(plan, stack)
        places = ", ".join(f"{sock.getsockname()[0]} ({device})" for device, sock, _ in listeners)
        say(
            f"{bundle} waits on TCP port {wire.PORT} of {places}; type at the other router: zerotier benchmark {bundle} remote NAME"
        )
        leave_instances_alone(plan, stack)
        server = Server(plan, listeners, stack)
        if not server.run(waiting):
            raise Unavailable(f"no run of a remote of {bundle} began within {waiting:.0f} s, so the listener has ended")
    say("The run is over; nothing listens any more.")


def open_listeners(plan: Plan, stack: ExitStack) -> list[tuple[str, socket.socket, int]]:
    """A listener for each member device and family that has a path: device, socket, instance. Raises :class:`Unavailable`."""
    made = []
    for device, address, number in sorted(
        {(path.device, own, path.instance) for path in plan.paths if (own := wire.own_address(plan, path))}
    ):
        try:
            made.append((device, stack.enter_context(wire.listener(device, address)), number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Unavailable(
                    f"TCP port {wire.PORT} of {address} is taken; a benchmark of {plan.bundle} runs already"
                ) from None
            # a device that is not there, or has no address yet
    if not made:
        raise Unavailable(f"no instance of {plan.bundle} has its device and address; see: show zerotier {plan.bundle} instances")
    return made


def leave_instances_alone(plan: Plan, stack: ExitStack) -> None:
    """Work, with threads that start from now on, on CPUs that no instance is pinned to, where there are any."""
    before = os.sched_getaffinity(0)
    taken = {cpu for i in plan.instances for cpu in i.cpus}
    if free := before - taken:
        os.sched_setaffinity(0, free)
        stack.callback(os.sched_setaffinity, 0, before)


def describe(plan: Plan) -> dict[str, Any]:
    """What the other end wants to know of this one."""
    topology = box.read_topology()
    return {
        "ok": True,
        "version": wire.VERSION,
        "bundle": plan.bundle,
        "instances": {str(i.number): list(i.cpus) for i in plan.instances},
        "order": list(placement_order(topology)),
        "cores": {str(cpu.number): cpu.core for cpu in topology},
    }


def pids_of(plan: Plan) -> dict[int, int]:
    """Processes of the instances that run."""
    states = systemd.unit_states([i.unit for i in plan.instances])
    return {i.number: pid for i in plan.instances if (pid := states[i.unit].pid)}


class Server:
    """Accepts connections of remotes; each has a thread."""

    def __init__(self, plan: Plan, listeners: Iterable[tuple[str, socket.socket, int]], stack: ExitStack) -> None:
        self._plan, self._listeners = plan, list(listeners)
        self._allowed = {ipaddress.ip_address(path.via) for path in plan.paths}
        self._received: dict[int, int] = defaultdict(int)
        self._lock = threading.Lock()
        self._session: str | None = None
        self._open: set[socket.socket] = set()
        self._over, self._wake = (stack.enter_context(sock) for sock in socket.socketpair())
        stack.callback(self._close)

    def run(self, waiting: float) -> bool:
        """Until a run is over; False when none began in so many seconds."""
        end = time.monotonic() + waiting
        with selectors.DefaultSelector() as selector:
            selector.register(self._over, selectors.EVENT_READ)
            for _, sock, number in self._listeners:
                selector.register(sock, selectors.EVENT_READ, number)
            while True:
                rest = None if self._session else end - time.monotonic()
                if rest is not None and rest <= 0:
                    return False
                for key, _ in selector.select(rest):
                    if key.fileobj is self._over:
                        return True
                    assert isinstance(key.fileobj, socket.socket)
                    self._accept(key.fileobj, key.data)

    def _accept(self, sock: socket.socket, number: int) -> None:
        try:
            connection, peer = sock.accept()
        except OSError:
            return
        with self._lock:
            good = ipaddress.ip_address(peer[0].partition("%")[0]) in self._allowed and len(self._open) < CONNECTIONS
            if good:
                self._open.add(connection)
        if good:
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()
        else:
            connection.close()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            connection.settimeout(wire.PATIENCE)
            message = wire.hear(connection)
            if message.get("role") == "data" and self._session and message.get("session") == self._session:
                self._take(connection, number)
            elif message.get("role") == "control":
                self._control(connection, message)
        except (wire.WireError, OSError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _take(self, connection: socket.socket, number: int) -> None:
        """Receive and forget; with MSG_TRUNC the kernel copies nothing, as it would not for a packet that is forwarded."""
        connection.settimeout(IDLE)
        buffer = bytearray(wire.BLOCK)
        while size := connection.recv_into(buffer, wire.BLOCK, socket.MSG_TRUNC):
            with self._lock:
                self._received[number] += size

    def _control(self, connection: socket.socket, message: Mapping[str, Any]) -> None:
        with self._lock:
            taken, wrong = self._session is not None, message.get("version") != wire.VERSION
            if not taken and not wrong:
                self._session = str(message.get("session"))
        if taken or wrong:
            why = "another run is under way" if taken else f"it speaks version {wire.VERSION} of this benchmark, update the older"
            return wire.say(connection, {"ok": False, "why": why})
        try:
            pids = pids_of(self._plan)
            wire.say(connection, describe(self._plan))
            connection.settimeout(IDLE)
            while wire.hear(connection).get("op") == "look":
                with self._lock:
                    received = dict(self._received)
                wire.say(connection, look(pids, received).to_json())
        finally:
            self._wake.send(b"x")

    def _close(self) -> None:
        with self._lock:
            left = list(self._open)
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself
