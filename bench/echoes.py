"""Round trips to two addresses of one peer in turns, and what one of them takes longer.

``python3 -m bench.echoes serve PORT ADDRESS...`` answers; ``… ask PORT COUNT BYTES OWN=PEER OWN=PEER`` asks the pairs of
addresses alternately and prints the times of each turn. Turns last fractions of a millisecond, so what drifts on a machine meets
both alike. The sockets of both are connected, as those of TCP are: the route is looked up once, not for each datagram.
"""

from __future__ import annotations

import itertools
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence

from bench.ends import End
from lab.process import LabError

PORT = 7007
PATIENCE = 1.0  # seconds for an answer

Turn = tuple[int, int]  # nanoseconds of a round trip to the first and to the second address


def added(turns: Sequence[Turn], block: int) -> tuple[float, ...]:
    """Nanoseconds that a round trip to the second address takes longer: the median of each block of turns.

    The last block may be longer; fewer turns than a block are one.
    """
    blocks = max(1, len(turns) // block)
    longer = [second - first for first, second in turns]
    ends = [*(number * block for number in range(blocks)), len(longer)]
    return tuple(float(statistics.median(longer[begin:end])) for begin, end in itertools.pairwise(ends))


def exchange(first: tuple[End, End], second: tuple[End, End], count: int, size: int) -> list[Turn]:
    """``count`` turns of datagrams with ``size`` bytes. Raises :class:`LabError` when too many answers are lost."""
    (here, there), (_, also) = first, second
    module = [sys.executable, "-m", "bench.echoes"]
    server = there.place.popen([*module, "serve", str(PORT), there.address, also.address])
    try:
        there.place.listens(PORT, "u")
        pairs = [f"{own.address}={peer.address}" for own, peer in (first, second)]
        limit = 60 + count / 200  # seconds; a round trip takes less than a millisecond
        text = here.place.run([*module, "ask", str(PORT), str(count), str(size), *pairs], timeout=limit).stdout
    finally:
        server.kill()
        server.wait()
    turns = [(int(one), int(other)) for one, other in json.loads(text)]
    if len(turns) < count / 2:
        raise LabError(f"echoes from {there.address} and {also.address}: only {len(turns)} of {count} turns had both answers")
    return turns


def _answer(own: socket.socket) -> None:
    message, peer = own.recvfrom(65536)
    own.connect(peer)
    while True:
        own.send(message)
        message = own.recv(65536)


def serve(port: int, addresses: Sequence[str]) -> None:
    """Answer one peer at each address, for ever."""
    threads = []
    for address in addresses:
        own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        own.bind((address, port))
        threads.append(threading.Thread(target=_answer, args=(own,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _trip(own: socket.socket, message: bytes) -> int | None:
    begin = time.perf_counter_ns()
    try:
        own.send(message)
        own.recv(65536)
    except TimeoutError:
        return None
    return time.perf_counter_ns() - begin


def ask(port: int, count: int, size: int, pairs: Sequence[str]) -> list[Turn]:
    """Turns in which both were answered; each address is asked first in half of them."""
    sockets, message = [], bytes(size)
    for pair in pairs:
        own, _, peer = pair.partition("=")
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].settimeout(PATIENCE)
        sockets[-1].bind((own, 0))
        sockets[-1].connect((peer, port))
    found, lost = [], 0
    for number in range(count):
        first = number % 2
        times = {which: _trip(sockets[which], message) for which in (first, 1 - first)}
        if times[0] is not None and times[1] is not None:
            found.append((times[0], times[1]))
            continue
        lost += 1
        if lost > count / 2:
            break
        for one in sockets:  # a late answer is not that of the next turn
            _drain(one)
    return found


def _drain(own: socket.socket) -> None:
    own.setblocking(False)
    try:
        while True:
            own.recv(65536)
    except BlockingIOError:
        own.settimeout(PATIENCE)


def main(arguments: Sequence[str]) -> int:
    """Entry point of both ends."""
    what, port, *rest = arguments
    if what == "serve":
        serve(int(port), rest)
    else:
        json.dump(ask(int(port), int(rest[0]), int(rest[1]), rest[2:]), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
