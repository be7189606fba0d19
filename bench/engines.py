"""``python3 -m bench.engines ENGINE …``: throughput of one instance of each engine, interleaved rounds in one run.

Two network namespaces joined by a veth, a controller-free link between them, iperf3 TCP; both ends, iperf3 and
the kernel share the machine. What counts is the ratio within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.instance import joined, mtu_of
from lab.process import run, wait
from zerotier_multi.box import engine_version


@contextmanager
def link(engine: str) -> Iterator[tuple[str, str]]:
    """Two namespaces with a running link over one instance each; the addresses are 10.14.0.1 and .2."""
    spaces = (f"bench{os.getpid()}a", f"bench{os.getpid()}b")
    underlay = ("198.51.100.1", "198.51.100.2")
    try:
        for space in spaces:
            run(["ip", "netns", "add", space])
        run(["ip", "-n", spaces[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", spaces[1]])
        for space, address in zip(spaces, underlay, strict=True):
            for device in ("lo", "eth0"):
                run(["ip", "-n", space, "link", "set", device, "up"])
            run(["ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0"])
        with joined(engine, spaces, underlay):
            yield spaces
    finally:
        for space in spaces:
            run(["ip", "netns", "del", space], check=False)


def throughput(spaces: tuple[str, str], streams: int, seconds: int) -> float:
    """Received Mbit/s from the first namespace to the second."""
    server = subprocess.Popen(
        ["ip", "netns", "exec", spaces[1], "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait(lambda: ":5201" in run(["ip", "netns", "exec", spaces[1], "ss", "-Hlnt"]).stdout, timeout=5, what="iperf3 server")
    command = ["iperf3", "-J", "-c", "10.14.0.2", "-P", str(streams), "-t", str(seconds)]
    report = json.loads(run(["ip", "netns", "exec", spaces[0], *command], timeout=seconds + 30).stdout)
    server.wait(timeout=10)
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e6


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="bench.engines", description=__doc__)
    parser.add_argument("engines", nargs="+", metavar="ENGINE", help="path of a program; the first is what others are compared to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    arguments = parser.parse_args()
    figures: dict[tuple[str, int], list[float]] = {}
    for _ in range(arguments.rounds):
        for engine in arguments.engines:
            with link(engine) as spaces:
                for streams in (1, 8):
                    figures.setdefault((engine, streams), []).append(throughput(spaces, streams, arguments.seconds))
    print(
        f"median of {arguments.rounds} interleaved rounds of {arguments.seconds} s, {os.cpu_count()} CPUs, kernel {os.uname().release}"
    )
    print("| engine | version | MTU | 1 stream Mbit/s | 8 streams | to the first |\n|---|---|---|---|---|---|")
    middle = {key: statistics.median(values) for key, values in figures.items()}
    for engine in arguments.engines:
        one, eight = middle[engine, 1], middle[engine, 8]
        first = arguments.engines[0]
        version = ".".join(map(str, engine_version(engine)))
        ratio = f"{one / middle[first, 1]:.1f} / {eight / middle[first, 8]:.1f}"
        print(f"| {Path(engine).name} | {version} | {mtu_of(engine)} | {one:.0f} | {eight:.0f} | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
