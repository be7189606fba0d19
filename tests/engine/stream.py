"""One end of checked data: ``python3 stream.py send|receive tcp|udp ADDRESS PORT BYTES SEED``.

Both ends make the same data out of the seed, in pieces of all sizes: the receiver knows each byte that must come. Over UDP a piece
is a datagram, which begins with its number and may be lost. A receiver prints ``listening``, at its end what it has as JSON, and
ends with 1 when anything was not as it was sent. ``BYTES`` are those of the sender; a receiver of UDP ends with SIGTERM.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import struct
import sys
import time

POOL = 1 << 24
TCP_SIZES = (1, 7, 100, 1333, 1334, 1335, 4000, 16384, 40000, 65535)
UDP_SIZES = (8, 9, 63, 500, 1200, 1200, 1200, 1200, 1365, 1366, 1367, 4000)
NUMBER = struct.Struct("!Q")
PAUSE, BURST = 0.001, 24  # seconds between bursts of so many datagrams, so that most of them find room


class Pieces:
    """The data of a seed."""

    def __init__(self, seed: int, sizes: tuple[int, ...]) -> None:
        self._pool = random.Random(seed).randbytes(POOL + max(sizes))
        self._sizes = sizes

    def __call__(self, number: int) -> bytes:
        """Piece ``number``; all differ in place, size or both."""
        start = number * 7919 * 97 % POOL
        return self._pool[start : start + self._sizes[number * 31 % 1009 % len(self._sizes)]]


def send_tcp(address: tuple[str, int], amount: int, seed: int) -> None:
    """At least ``amount`` bytes; the receiver's last word is awaited."""
    pieces, number = Pieces(seed, TCP_SIZES), 0
    with socket.create_connection(address, 30) as sock:
        sock.settimeout(120)
        while amount > 0:
            data = pieces(number)
            sock.sendall(data)
            number, amount = number + 1, amount - len(data)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)


def receive_tcp(address: tuple[str, int], seed: int) -> dict[str, int]:
    """Compare a connection with what it must be."""
    pieces, number, total, wrong = Pieces(seed, TCP_SIZES), 0, 0, 0
    with socket.create_server(address, family=_family(address[0])) as listener:
        print("listening", flush=True)
        sock, _ = listener.accept()
        sock.settimeout(120)
        with sock, sock.makefile("rb", buffering=1 << 20) as stream:
            while True:
                expected = pieces(number)
                data = stream.read(len(expected))
                if not data:
                    return {"bytes": total, "pieces": number, "wrong": wrong}
                wrong += data != expected
                total, number = total + len(data), number + 1


def send_udp(address: tuple[str, int], amount: int, seed: int) -> None:
    """At least ``amount`` bytes in datagrams."""
    pieces, number = Pieces(seed, UDP_SIZES), 0
    with socket.socket(_family(address[0]), socket.SOCK_DGRAM) as sock:
        sock.connect(address)
        while amount > 0:
            for _ in range(BURST):
                data = NUMBER.pack(number) + pieces(number)
                sock.send(data)
                number, amount = number + 1, amount - len(data)
            time.sleep(PAUSE)


def receive_udp(address: tuple[str, int], seed: int) -> dict[str, int]:
    """Compare datagrams until SIGTERM."""
    pieces, got, total, wrong, late, last = Pieces(seed, UDP_SIZES), 0, 0, 0, 0, -1
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    with socket.socket(_family(address[0]), socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(0.2)
        print("listening", flush=True)
        while True:
            try:
                data = sock.recv(65536)
            except TimeoutError:
                if ended:
                    return {"bytes": total, "pieces": got, "wrong": wrong, "late": late}
                continue
            number = NUMBER.unpack_from(data)[0] if len(data) >= NUMBER.size else -1
            wrong += number < 0 or data[NUMBER.size :] != pieces(number)
            late += number <= last
            got, total, last = got + 1, total + len(data), max(last, number)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def main(arguments: list[str]) -> int:
    """Entry point."""
    role, kind, address, port, amount, seed = arguments
    where = address, int(port)
    if role == "send":
        (send_tcp if kind == "tcp" else send_udp)(where, int(amount), int(seed))
        return 0
    found = (receive_tcp if kind == "tcp" else receive_udp)(where, int(seed))
    print(json.dumps(found), flush=True)
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
