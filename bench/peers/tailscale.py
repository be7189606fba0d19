"""Tailscale: two daemons under a headscale of their own. They find each other directly; there is no relay."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ends import Place, Site, stop
from bench.peers.common import Link, program, reached
from bench.results import Parameter
from lab.process import wait

DEVICE, PORT, CONTROL = "tailscale0", 41641, 8080
QUIET = ("env", "TS_NO_LOGS_NO_SUPPORT=true")  # nothing leaves for Tailscale's own log server


def settings(address: str, directory: str) -> dict[str, Any]:
    """The configuration of headscale, which wants a relay to exist. JSON is YAML too."""
    return {
        "server_url": f"http://{address}:{CONTROL}",
        "listen_addr": f"{address}:{CONTROL}",
        "metrics_listen_addr": "127.0.0.1:0",
        "grpc_listen_addr": "127.0.0.1:0",
        "unix_socket": f"{directory}/headscale.sock",
        "noise": {"private_key_path": f"{directory}/noise.key"},
        "prefixes": {"v4": "100.64.0.0/10", "allocation": "sequential"},
        "derp": {"server": {"enabled": False}, "urls": [], "paths": [f"{directory}/derp.yml"], "auto_update_enabled": False},
        "database": {"type": "sqlite", "sqlite": {"path": f"{directory}/headscale.db"}},
        "dns": {"magic_dns": False, "override_local_dns": False, "base_domain": "bench.example"},
        "disable_check_updates": True,
        "log": {"level": "error"},
    }


def relays(address: str) -> str:
    """A relay that nobody is at, in YAML, because JSON has no numbers as keys."""
    node = {"name": "900a", "regionid": 900, "hostname": address, "ipv4": address, "stunport": -1, "derpport": 1}
    region = {"regionid": 900, "regioncode": "none", "regionname": "none", "nodes": [node]}
    return f"regions:\n  900: {json.dumps(region)}\n"


@contextmanager
def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """Two daemons; the control server is at the far end and costs nothing once they know each other."""
    headscale, daemon, client = (program(site.peers, name) for name in ("headscale", "tailscaled", "tailscale"))
    started: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            started.append(_control(site, headscale, directory))
            key = _key(site.places[1], headscale, directory)
            found = []
            for name, place in zip(("near", "far"), site.places, strict=True):
                socket = f"{directory}/{name}.sock"
                state = ["--state=mem:", f"--statedir={directory}/{name}", f"--socket={socket}"]
                started.append(place.popen([*QUIET, daemon, *state, f"--tun={DEVICE}", f"--port={PORT}"]))
                found.append(_joined(place, [client, f"--socket={socket}"], site.underlay[1], key, name))
            _direct(site.places[0], [client, f"--socket={directory}/near.sock"], found[1])
            reached(site.places[0], found[1], "Tailscale")
            pids = tuple(process.pid for process in started[1:])
            yield Link((found[0], found[1]), pids, commands=("tailscaled, tailscale up --login-server URL",), device=DEVICE)
        finally:
            for process in reversed(started):
                stop(process)


def _control(site: Site, headscale: str, directory: str) -> subprocess.Popen[str]:
    place, address = site.places[1], site.underlay[1]
    Path(directory, "config.yaml").write_text(json.dumps(settings(address, directory)))
    Path(directory, "derp.yml").write_text(relays(address))
    process = place.popen([headscale, "-c", f"{directory}/config.yaml", "serve"])
    place.listens(CONTROL)
    return process


def _key(place: Place, headscale: str, directory: str) -> str:
    """A key with which daemons may join."""
    ask = [headscale, "-c", f"{directory}/config.yaml", "-o", "json"]
    user = json.loads(place.run([*ask, "users", "create", "bench"]).stdout)
    key = json.loads(place.run([*ask, "preauthkeys", "create", "--user", str(user["id"]), "--reusable"]).stdout)
    return str(key["key"])


def _joined(place: Place, client: Sequence[str], control: str, key: str, name: str) -> str:
    """Have a daemon join, without a word about the machine's firewall and name servers; the address that it gets."""
    wait(lambda: place.run([*client, "status", "--json"], check=False).returncode == 0, timeout=20, what="tailscaled")
    away = ["--accept-dns=false", "--netfilter-mode=off", "--accept-routes=false", f"--hostname={name}"]
    place.run([*client, "up", f"--login-server=http://{control}:{CONTROL}", f"--authkey={key}", "--timeout=60s", *away])
    return place.run([*client, "ip", "-4"]).stdout.strip()


def _direct(place: Place, client: Sequence[str], address: str) -> None:
    """Wait for the direct path, which a ping of its own has it look for."""
    ping = [*client, "ping", "-c", "1", "--timeout=2s", address]
    wait(lambda: place.run(ping, check=False).returncode == 0, timeout=60, what="direct path of Tailscale")
