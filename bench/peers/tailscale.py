"""Tailscale: two daemons under a headscale of their own. They find each other directly; there is no relay."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.ends import Place, Site, stop
from bench.peers.common import Link, program, reached
from bench.results import Parameter
from lab.process import run, wait

DEVICE, PORT, CONTROL = "tailscale0", 41641, 8080
NAMES = ("near", "far")
# The way to the control server, beside the underlay's addresses: a daemon asks a server of a public address on port 443 after
# its first connection is closed, as each change of a device does (tailscale.com/control/controlhttp). With headscale at
# http://198.51.100.2:8080 one in four never heard of the other end.
SERVER = ("10.20.1.1", "10.20.1.2")
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
    with tempfile.TemporaryDirectory() as directory, _server(site):
        try:
            started.append(_control(site, headscale, directory))
            ask = site.places[1].command([headscale, "-c", f"{directory}/config.yaml", "-o", "json"])
            key = _key(ask)
            found: list[str] = []
            for name, place in zip(NAMES, site.places, strict=True):
                socket = f"{directory}/{name}.sock"
                state = ["--state=mem:", f"--statedir={directory}/{name}", f"--socket={socket}"]
                started.append(place.popen([*QUIET, daemon, *state, f"--tun={DEVICE}", f"--port={PORT}"]))
                found.append(_joined(place, [client, f"--socket={socket}"], ask, key, name))
            _direct(site.places[0], [client, f"--socket={directory}/near.sock"], found[1])
            reached(site.places[0], found[1], "Tailscale")
            if site.behind:
                _lead(site, site.behind, ask, [[client, f"--socket={directory}/{name}.sock"] for name in NAMES])
            pids = tuple(process.pid for process in started[1:])
            said = ("tailscaled, tailscale up --login-server URL",)
            yield Link((found[0], found[1]), pids, commands=said, device=DEVICE, routes=bool(site.behind))
        finally:
            for process in reversed(started):
                stop(process)


@contextmanager
def _server(site: Site) -> Iterator[None]:
    """The way to the control server."""
    with ExitStack() as stack:
        for place, own, address in zip(site.places, site.underlay, SERVER, strict=True):
            (link,) = json.loads(place.run(["ip", "-json", "address", "show", "to", own]).stdout)
            words = [f"{address}/24", "dev", link["ifname"]]
            place.run(["ip", "address", "add", *words])
            stack.callback(place.run, ["ip", "address", "del", *words], check=False)
        yield


def _control(site: Site, headscale: str, directory: str) -> subprocess.Popen[str]:
    place, address = site.places[1], SERVER[1]
    Path(directory, "config.yaml").write_text(json.dumps(settings(address, directory)))
    Path(directory, "derp.yml").write_text(relays(address))
    process = place.popen([headscale, "-c", f"{directory}/config.yaml", "serve"])
    place.listens(CONTROL)
    return process


def _key(ask: Sequence[str]) -> str:
    """A key with which daemons may join."""
    user = json.loads(run([*ask, "users", "create", "bench"]).stdout)
    key = json.loads(run([*ask, "preauthkeys", "create", "--user", str(user["id"]), "--reusable"]).stdout)
    return str(key["key"])


def _nodes(ask: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the control server says of each daemon, by its name."""
    return {node["given_name"]: node for node in json.loads(run([*ask, "nodes", "list"]).stdout)}


def _lead(site: Site, behind: tuple[str, str], ask: Sequence[str], clients: Sequence[Sequence[str]]) -> None:
    """Have the daemons lead to what is behind both, and wait until their routes are there."""
    nodes = _nodes(ask)
    for name, place, client, prefix in zip(NAMES, site.places, clients, behind, strict=True):
        place.run([*client, "set", "--accept-routes", "--snat-subnet-routes=false", f"--advertise-routes={prefix}"])
        run([*ask, "nodes", "approve-routes", "-i", str(nodes[name]["id"]), "-r", prefix])
    for own, place in enumerate(site.places):
        route = ["ip", "route", "get", behind[1 - own].partition("/")[0]]
        wait(lambda p=place, r=route: DEVICE in p.run(r, check=False).stdout, timeout=60, what="route of Tailscale")


def _joined(place: Place, client: Sequence[str], ask: Sequence[str], key: str, name: str) -> str:
    """Have a daemon join, without a word about the machine's firewall and name servers; the address that it gets."""
    wait(lambda: place.run([*client, "status", "--json"], check=False).returncode == 0, timeout=20, what="tailscaled")
    away = ["--accept-dns=false", "--netfilter-mode=off", "--accept-routes=false", f"--hostname={name}"]
    place.run([*client, "up", f"--login-server=http://{SERVER[1]}:{CONTROL}", f"--authkey={key}", "--timeout=60s", *away])
    wait(lambda: _nodes(ask)[name].get("online"), timeout=60, what=f"{name} at the control server of Tailscale")
    return place.run([*client, "ip", "-4"]).stdout.strip()


def _direct(place: Place, client: Sequence[str], address: str) -> None:
    """Wait for the direct path, which a ping of its own has it look for."""
    ping = [*client, "ping", "-c", "1", "--timeout=2s", address]
    wait(lambda: place.run(ping, check=False).returncode == 0, timeout=60, what="direct path of Tailscale")
