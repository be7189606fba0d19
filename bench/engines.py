"""``python3 -m bench.engines ENGINE …``: throughput of one instance of each engine, interleaved rounds in one run.

Two network namespaces joined by a veth, a controller-free link between them, iperf3 TCP; both ends, iperf3 and
the kernel share the machine. What counts is the ratio within one run.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.process import run, wait
from zerotier_multi.box import engine_version
from zerotier_multi.values import Endpoint
from zerotier_multi.engine import generate_identity
from zerotier_multi.identity import mac_on_network
from zerotier_multi.planet import make_moon, make_network_config, make_planet, moon_file

NETWORK, PORT = "8056c2e21c000001", 9993
MTU = {"zerotier-one": 2800}  # its own default; others get the size that fills a packet
BEST_MTU = 1394


@contextmanager
def link(engine: str) -> Iterator[tuple[str, str]]:
    """Two namespaces with a running link over one instance each; the addresses are 10.14.0.1 and .2."""
    mtu = MTU.get(Path(engine).name, BEST_MTU)
    spaces = (f"bench{os.getpid()}a", f"bench{os.getpid()}b")
    processes = []
    with tempfile.TemporaryDirectory() as directory:
        homes = [Path(directory) / name for name in "ab"]
        try:
            for space in spaces:
                run(["ip", "netns", "add", space])
            run(["ip", "-n", spaces[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", spaces[1]])
            for number, (space, home) in enumerate(zip(spaces, homes, strict=True), start=1):
                for device in ("lo", "eth0"):
                    run(["ip", "-n", space, "link", "set", device, "up"])
                run(["ip", "-n", space, "addr", "add", f"198.51.100.{number}/24", "dev", "eth0"])
                for name in ("networks.d", "moons.d"):
                    (home / name).mkdir(parents=True)
            identities = [generate_identity(engine, home) for home in homes]
            endpoints = [Endpoint(ipaddress.ip_address(f"198.51.100.{n}"), PORT) for n in (1, 2)]
            for own, other, home, space in ((0, 1, homes[0], spaces[0]), (1, 0, homes[1], spaces[1])):
                (home / "planet").write_bytes(make_planet(NETWORK, identities[own]))
                (home / moon_file(identities[other])).write_bytes(make_moon(identities[other], [endpoints[other]]))
                conf = make_network_config(NETWORK, identities[own].address, [identities[other].address], mtu)
                (home / f"networks.d/{NETWORK}.conf").write_bytes(conf)
                (home / f"networks.d/{NETWORK}.local.conf").write_text("allowManaged=0\n")
                (home / "devicemap").write_text(f"{NETWORK}=zt0p1\n")
                settings = {"primaryPort": PORT, "allowSecondaryPort": False, "portMappingEnabled": False}
                (home / "local.conf").write_text(json.dumps({"settings": settings}))
                command = ["ip", "netns", "exec", space, engine, "-U", f"-p{PORT}", str(home)]
                none = subprocess.DEVNULL
                processes.append(subprocess.Popen(command, stdin=none, stdout=none, stderr=none))

            def through() -> bool:
                for number, space, other in ((1, spaces[0], identities[1]), (2, spaces[1], identities[0])):
                    run(["ip", "-n", space, "addr", "replace", f"10.14.0.{number}/30", "dev", "zt0p1"])
                    lladdr = mac_on_network(other.address, NETWORK)
                    run(["ip", "-n", space, "neigh", "replace", f"10.14.0.{3 - number}", "lladdr", lladdr, "dev", "zt0p1"])
                return run(["ip", "netns", "exec", spaces[0], "ping", "-c1", "-W1", "10.14.0.2"], check=False).returncode == 0

            wait(through, timeout=30, what=f"a link over {engine}")
            yield spaces
        finally:
            for process in processes:
                process.terminate()
                process.wait(timeout=10)
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
    print(f"median of {arguments.rounds} interleaved rounds of {arguments.seconds} s, {os.cpu_count()} CPUs, kernel {os.uname().release}")
    print("| engine | version | MTU | 1 stream Mbit/s | 8 streams | to the first |\n|---|---|---|---|---|---|")
    middle = {key: statistics.median(values) for key, values in figures.items()}
    for engine in arguments.engines:
        one, eight = middle[engine, 1], middle[engine, 8]
        first = arguments.engines[0]
        version = ".".join(map(str, engine_version(engine)))
        ratio = f"{one / middle[first, 1]:.1f} / {eight / middle[first, 8]:.1f}"
        print(f"| {Path(engine).name} | {version} | {MTU.get(Path(engine).name, BEST_MTU)} | {one:.0f} | {eight:.0f} | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
