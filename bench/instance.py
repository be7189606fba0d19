"""One instance of an engine at each of two ends, joined without a controller and without the product around it."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.process import run, wait
from zerotier_multi.engine import generate_identity
from zerotier_multi.identity import mac_on_network
from zerotier_multi.planet import make_moon, make_network_config, make_planet, moon_file
from zerotier_multi.values import Endpoint

NETWORK, PORT = "8056c2e21c000001", 9993
MTU = {"zerotier-one": 2800}  # its own default; others get the size that fills a packet
BEST_MTU = 1394
DEVICE = "zt0p1"
ADDRESSES = ("10.14.0.1", "10.14.0.2")
HOLDS = 10  # looks, a tenth of a second apart, in which a link is as it was made


def mtu_of(engine: str) -> int:
    """The MTU that an engine is measured with."""
    return MTU.get(Path(engine).name, BEST_MTU)


@contextmanager
def joined(
    engine: str, spaces: tuple[str, str], underlay: tuple[str, str], settings: Mapping[str, Any] | None = None,
    physical: Mapping[str, Any] | None = None,
) -> Iterator[list[str]]:  # fmt: skip
    """A link between two namespaces that reach each other at ``underlay``; its ends are :data:`ADDRESSES`.

    ``settings`` are those of local.conf besides the port, ``physical`` its part about physical paths. Yields the command of each end.
    """
    processes: list[subprocess.Popen[bytes]] = []
    commands = []
    with tempfile.TemporaryDirectory() as directory:
        homes = [Path(directory) / name for name in "ab"]
        for home in homes:
            for name in ("networks.d", "moons.d"):
                (home / name).mkdir(parents=True)
        try:
            identities = [generate_identity(engine, home) for home in homes]
            endpoints = [Endpoint(ipaddress.ip_address(address), PORT) for address in underlay]
            for own, other in ((0, 1), (1, 0)):
                home = homes[own]
                (home / "planet").write_bytes(make_planet(NETWORK, identities[own]))
                (home / moon_file(identities[other])).write_bytes(make_moon(identities[other], [endpoints[other]]))
                conf = make_network_config(NETWORK, identities[own].address, [identities[other].address], mtu_of(engine))
                (home / f"networks.d/{NETWORK}.conf").write_bytes(conf)
                (home / f"networks.d/{NETWORK}.local.conf").write_text("allowManaged=0\n")
                (home / "devicemap").write_text(f"{NETWORK}={DEVICE}\n")
                own_settings = {"primaryPort": PORT, "allowSecondaryPort": False, "portMappingEnabled": False, **(settings or {})}
                (home / "local.conf").write_text(json.dumps({"settings": own_settings, "physical": physical or {}}))
                inside = ["ip", "netns", "exec", spaces[own], "setpriv", "--pdeathsig", "KILL"]
                command = [*inside, engine, "-U", f"-p{PORT}", str(home)]
                none = subprocess.DEVNULL
                processes.append(subprocess.Popen(command, stdin=none, stdout=none, stderr=none))
                commands.append(f"{Path(engine).name} -U -p{PORT} HOME")

            def through() -> bool:
                for number, space, other in ((0, spaces[0], identities[1]), (1, spaces[1], identities[0])):
                    run(["ip", "-n", space, "addr", "replace", f"{ADDRESSES[number]}/30", "dev", DEVICE])
                    lladdr = mac_on_network(other.address, NETWORK)
                    run(["ip", "-n", space, "neigh", "replace", ADDRESSES[1 - number], "lladdr", lladdr, "dev", DEVICE])
                return run(["ip", "netns", "exec", spaces[0], "ping", "-c1", "-W1", ADDRESSES[1]], check=False).returncode == 0

            def held() -> bool:
                """The engine configures its device in several steps, which may take away what was given to it before."""
                for _ in range(HOLDS):
                    if not all(map(_neighbour, spaces)):
                        through()
                        return False
                    time.sleep(0.1)  # between looks
                return True

            wait(through, timeout=30, what=f"a link over {engine}")
            wait(held, timeout=30, what=f"a link over {engine} that keeps its neighbours")
            yield commands
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait(timeout=10)


def _neighbour(space: str) -> bool:
    return "PERMANENT" in run(["ip", "-n", space, "neigh", "show", "dev", DEVICE], check=False).stdout
