"""Nebula: two hosts that know each other's addresses; the far one is the lighthouse."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ends import Site, stop
from bench.peers.common import ADDRESSES, Link, exists, program, reached
from bench.results import Parameter
from lab.process import run, wait

DEVICE, PORT = "nebula0", 4242
# As its example configuration recommends: at most half of the cores, and large buffers on a fast link.
ROUTINES = max(1, (os.cpu_count() or 2) // 2)


def settings(own: int, site: Site, directory: str) -> dict[str, Any]:
    """The configuration of one end. JSON is YAML too."""
    names, underlay = ("near", "far"), site.underlay
    # Rules are about the host's own addresses unless they say otherwise.
    rule = {"port": "any", "proto": "any", "host": "any", **({"local_cidr": "0.0.0.0/0"} if site.behind else {})}
    routes = [{"route": site.behind[1 - own], "via": ADDRESSES[1 - own]}] if site.behind else []
    return {
        "pki": {"ca": f"{directory}/ca.crt", "cert": f"{directory}/{names[own]}.crt", "key": f"{directory}/{names[own]}.key"},
        "static_host_map": {ADDRESSES[1 - own]: [f"{underlay[1 - own]}:{PORT}"]},
        "lighthouse": {"am_lighthouse": own == 1, "hosts": [] if own else [ADDRESSES[1]]},
        "listen": {"host": underlay[own], "port": PORT, "batch": 64, "read_buffer": 10485760, "write_buffer": 10485760},
        "punchy": {"punch": False},
        "cipher": "aes",
        "routines": ROUTINES,
        "tun": {"dev": DEVICE, "tx_queue": 500, "mtu": 1300, "unsafe_routes": routes},
        "logging": {"level": "error"},
        "firewall": {"outbound": [rule], "inbound": [rule]},
    }


@contextmanager
def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """Two processes with certificates of one authority."""
    path, cert = program(site.peers, "nebula"), program(site.peers, "nebula-cert")
    started: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as directory:
        authority = ["-ca-crt", f"{directory}/ca.crt", "-ca-key", f"{directory}/ca.key"]
        run([cert, "ca", "-name", "bench", "-out-crt", f"{directory}/ca.crt", "-out-key", f"{directory}/ca.key"])
        for own, (name, address) in enumerate(zip(("near", "far"), ADDRESSES, strict=True)):
            behind = ["-unsafe-networks", site.behind[own]] if site.behind else []
            out = ["-out-crt", f"{directory}/{name}.crt", "-out-key", f"{directory}/{name}.key"]
            run([cert, "sign", *authority, "-name", name, "-networks", f"{address}/24", *behind, *out])
        try:
            for own, place in reversed(list(enumerate(site.places))):
                file = Path(directory) / f"{own}.yml"
                file.write_text(json.dumps(settings(own, site, directory)))
                started.append(place.popen([path, "-config", str(file)]))
                wait(lambda p=place: exists(p, DEVICE), timeout=15, what="device of Nebula")
            reached(site.places[0], ADDRESSES[1], "Nebula", timeout=30)
            pids = tuple(process.pid for process in started)
            yield Link(ADDRESSES, pids, commands=("nebula -config FILE",), device=DEVICE, routes=bool(site.behind))
        finally:
            for process in started:
                stop(process)
