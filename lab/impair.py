"""Delay, loss, rate and reordering: netem where the kernel has it, else a relay in user space.

The relay takes the router's port off the bridge and moves its frames by hand, those towards the router with
the impairment. It is slow (some 100 Mbit/s) but the same for a test of faults.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.process import LabError, run, wait

ETH_P_ALL = 3
PACKET_OUTGOING = 4
PLAIN = ("tx", "off", "tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off")
QUEUE_LIMIT = 5000  # frames waiting, as in a router's buffer


@dataclass(frozen=True)
class Impairment:
    """What happens to frames on their way to a router: milliseconds, per cent, Mbit/s."""

    delay_ms: float = 0
    jitter_ms: float = 0
    loss_pct: float = 0
    rate_mbit: float = 0
    reorder_pct: float = 0

    def netem_words(self) -> list[str]:
        """The same for ``tc qdisc … netem``."""
        words = ["limit", "100000"]
        if self.delay_ms:
            words += ["delay", f"{self.delay_ms}ms", *([f"{self.jitter_ms}ms"] if self.jitter_ms else [])]
        if self.loss_pct:
            words += ["loss", f"{self.loss_pct}%"]
        if self.reorder_pct:
            words += ["reorder", f"{self.reorder_pct}%"]
        if self.rate_mbit:
            words += ["rate", f"{self.rate_mbit}mbit"]
        return words


def kernel_has_netem(namespace: str) -> bool:
    """Whether a netem queue can be made; tried on ``lo`` of a network namespace."""
    done = run(["tc", "-n", namespace, "qdisc", "replace", "dev", "lo", "root", "netem"], check=False)
    run(["tc", "-n", namespace, "qdisc", "del", "dev", "lo", "root"], check=False)
    return done.returncode == 0


class Relay:
    """The relay of one port: made, it works; closed, the port is on the bridge again.

    ``home`` is the network namespace of the bridge, ``namespace`` that of the router.
    """

    def __init__(self, home: str, port: str, namespace: str, impairment: Impairment) -> None:
        self._home, self._port = home, port
        self._inner, self._outer = f"{port}i", f"{port}o"
        base = ["ip", "-n", home, "link"]
        run([*base, "add", self._inner, "type", "veth", "peer", "name", self._outer])
        run([*base, "set", self._outer, "master", "br0", "up"])
        run([*base, "set", self._inner, "up", "promisc", "on"])
        run([*base, "set", port, "nomaster", "promisc", "on"])
        # Frames must be whole and checked before a program can move them.
        for device in (self._inner, self._outer, port):
            run(["ip", "netns", "exec", home, "ethtool", "-K", device, *PLAIN])
        run(["ip", "netns", "exec", namespace, "ethtool", "-K", "eth0", *PLAIN])
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", home, sys.executable, "-m", "lab.impair", port, self._inner, json.dumps(asdict(impairment))],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout
        if self._process.stdout.readline() != b"ready\n":
            raise LabError(f"the relay of {port} does not start")

    def close(self) -> None:
        """Put the port back onto the bridge."""
        self._process.kill()
        self._process.wait()
        base = ["ip", "-n", self._home, "link"]
        run([*base, "set", self._port, "master", "br0", "promisc", "off"], check=False)
        run([*base, "del", self._inner], check=False)
        wait(lambda: not Path(f"/proc/{self._process.pid}").exists(), timeout=5, what="end of the relay")


def relay(port: str, bridge: str, impairment: Impairment) -> None:
    """Move frames between two devices until killed; those from ``bridge`` to ``port`` are impaired."""
    ends = {}
    for device in (port, bridge):
        ends[device] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        ends[device].bind((device, ETH_P_ALL))
        ends[device].setblocking(False)
    queue: list[tuple[float, int, bytes]] = []
    free, count = 0.0, 0  # when the link has sent what it was given
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        pause = max(0.0, queue[0][0] - now) if queue else None
        readable, _, _ = select.select(list(ends.values()), [], [], pause)
        now = time.monotonic()
        for end in readable:
            while True:
                try:
                    frame, address = end.recvfrom(65536)
                except BlockingIOError:
                    break
                if address[2] == PACKET_OUTGOING:
                    continue
                if end is ends[port]:
                    _send(ends[bridge], frame)
                elif random.random() * 100 >= impairment.loss_pct and len(queue) < QUEUE_LIMIT:
                    delay = impairment.delay_ms + random.uniform(-1, 1) * impairment.jitter_ms
                    if random.random() * 100 < impairment.reorder_pct:
                        delay = 0.0
                    if impairment.rate_mbit:
                        free = max(free, now) + len(frame) * 8 / impairment.rate_mbit / 1e6
                    count += 1
                    heapq.heappush(queue, (max(now, free) + max(delay, 0.0) / 1000, count, frame))
        while queue and queue[0][0] <= now:
            _send(ends[port], heapq.heappop(queue)[2])


def _send(end: socket.socket, frame: bytes) -> None:
    try:
        end.send(frame)
    except OSError:
        return  # a full queue or an unplugged port loses the frame, as a wire does


if __name__ == "__main__":
    relay(sys.argv[1], sys.argv[2], Impairment(**json.loads(sys.argv[3])))
