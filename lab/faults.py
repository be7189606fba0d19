"""Faults to strike a link with, each with its way back, and what a healthy pair of routers looks like afterwards.

A fault acts on one router and one path of a :class:`Link`. What a router then is gets compared with its plan
(:func:`deviations`), so that a fault that leaves something behind is seen whatever it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.flows import PORT, Flows, Seen
from lab.lab import Lab
from lab.nat import FLUSH_CONNTRACK
from lab.process import LabError, run, wait
from lab.router import Router
from lab.scenario import connect, loopback, loopback6, reach, resident

TRANSIT4, TRANSIT6 = "10.14.0.0/26", "2001:db8:14::/122"  # room for 16 instances
PRIMARY_PORT = 9993
CONFIG_SIZE, RUN_SIZE = "8m", "20%"  # of /config in these labs; of /run as systemd-nspawn mounts it
_TAIL = 5  # echoes at the end that are sent, but not asked for
FALLEN = ("down", "held down", "remote down", "no device")  # states of a path that is out of use

# Everything about a router that a fault could leave changed, by one program, because it is asked often.
_LOOK = """
import glob, json, os, subprocess
from zerotier_multi.pathd.control import PathdError, ask

def out(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout

def table(*command):
    return json.loads(out("ip", "-j", *command) or "[]")

def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""

def measure(pid, state):
    try:
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        files = 0
    return {"pid": pid, "state": state, "fds": files, "status": read(f"/proc/{pid}/status")}

def units():
    names = ("zerotier-pathd.service", "zerotier-multi@*.service")
    text = out("systemctl", "show", "-p", "Id,MainPID,ActiveState", *names)
    for block in text.strip().split("\\n\\n"):
        properties = dict(line.split("=", 1) for line in block.splitlines())
        yield properties["Id"], measure(int(properties["MainPID"]), properties["ActiveState"])

def of_the_system(pid):
    while pid > 1:
        pid = parent.get(pid, 0)
    return pid == 1  # others have come in from outside

parent = {}
for path in glob.glob("/proc/[0-9]*/stat"):
    if text := read(path):
        parent[int(text.split()[0])] = int(text.rpartition(")")[2].split()[1])
try:
    status = ask({"op": "status"})
except (PathdError, OSError) as error:
    status = {"problems": [f"zerotier-pathd does not answer: {error}"], "bundles": {}}
measures = dict(units())
engines = ("/usr/sbin/ztnode", "/usr/sbin/zerotier-one")
print(json.dumps({
    "plans": {os.path.basename(p)[:-5]: json.loads(read(p)) for p in glob.glob("/run/zerotier-multi/zt*.json")},
    "status": status,
    "pathd": measures.pop("zerotier-pathd.service"),
    "units": measures,
    "nexthops": [n for n in table("nexthop") if n.get("protocol") == "122"],
    "routes": [r["dst"] for f in ("-4", "-6") for r in table(f, "route", "show", "table", "all", "proto", "122")],
    "links": [link["ifname"] for link in table("link") if link["ifname"].startswith("zt")],
    "tables": out("nft", "list", "tables").split("\\n")[:-1],
    "engines": sum(read(f"/proc/{pid}/cmdline").startswith(engines) for pid in parent),
    "processes": sum(of_the_system(pid) for pid in parent),
}))
"""


@dataclass(frozen=True)
class Look:
    """What a router is at one moment."""

    name: str
    data: dict[str, Any]

    @property
    def pids(self) -> dict[str, int]:
        """PID of zerotier-pathd and of every instance, by unit."""
        every = {"zerotier-pathd.service": self.data["pathd"], **self.data["units"]}
        return {name: measures["pid"] for name, measures in every.items()}

    @property
    def states(self) -> dict[str, str]:
        """State of every path, by device and next hop."""
        paths = [path for bundle in self.data["status"]["bundles"].values() for path in bundle["paths"]]
        return {f"{path['device']} via {path['via']}": path["state"] for path in paths}

    @property
    def since(self) -> dict[str, float]:
        """Since when each path has been in its state, by the wall clock."""
        paths = [path for bundle in self.data["status"]["bundles"].values() for path in bundle["paths"]]
        return {f"{path['device']} via {path['via']}": float(path["since"] or 0) for path in paths}

    @property
    def kernel(self) -> dict[str, Any]:
        """What stands in the kernel, to be compared with an earlier look."""
        return {key: self.data[key] for key in ("nexthops", "routes", "links", "tables")}

    def sizes(self) -> dict[str, int]:
        """What must not grow, KiB for memory."""
        units = self.data["units"].values()
        return {
            "processes": self.data["processes"],
            "fds of pathd": self.data["pathd"]["fds"],
            "fds of an instance": max((m["fds"] for m in units), default=0),
            "next hops": len(self.data["nexthops"]),
            "routes": len(self.data["routes"]),
            "nft tables": len(self.data["tables"]),
            "RSS of pathd": resident(self.data["pathd"]["status"]),
            "RSS of an instance": max((resident(m["status"]) for m in units), default=0),
        }


def look(router: Router) -> Look:
    """Look at a router."""
    return Look(router.name, dict(router.json(["/usr/bin/python3", "-c", _LOOK])))


def _differs(what: str, have: Iterable[object], want: Iterable[object]) -> list[str]:
    there, wanted = sorted(map(str, have)), sorted(map(str, want))
    return [] if there == wanted else [f"{what}: {there} instead of {wanted}"]


def deviations(seen: Look) -> list[str]:
    """In what a router differs from its plans, with all paths up."""
    data = seen.data
    plans = data["plans"].values()
    singles = [n["id"] for n in data["nexthops"] if "group" not in n]
    groups = [sorted(m["id"] for m in n["group"]) for n in data["nexthops"] if "group" in n]
    instances = [i for plan in plans for i in plan["instances"]]
    units = data["units"].items()
    found = [str(problem) for problem in data["status"]["problems"]]
    found += [f"path {path} is {state}" for path, state in seen.states.items() if state != "up"]
    found += _differs("next hops", singles, [p["nexthop_id"] for plan in plans for p in plan["paths"]])
    found += _differs("groups", groups, [sorted(g["members"]) for plan in plans for g in plan["groups"]])
    routes = [_host(r["prefix"]) for plan in plans for r in plan["routes"]]
    found += _differs("routes", map(_host, data["routes"]), [*routes, *routes])  # one of the two is for FRR
    found += _differs("devices", data["links"], [*data["plans"], *(i["device"] for i in instances)])
    running = [u for u, m in units if m["state"] == "active" and m["pid"]]
    found += _differs("instances", running, [i["unit"] for i in instances])
    found += _differs("failed units", [u for u, m in units if m["state"] == "failed"], [])
    found += _differs("engines", [data["engines"]], [len(instances)])
    found += _differs("zerotier-pathd", [data["pathd"]["state"]], ["active"])
    found += _differs("nft tables", [t for t in data["tables"] if "fault" in t], [])
    return [f"{seen.name}: {sentence}" for sentence in found]


def _host(prefix: str) -> str:
    """A prefix as ``ip`` prints it: the length of a host is left out."""
    return prefix.removesuffix("/32") if ":" not in prefix else prefix.removesuffix("/128")


@dataclass
class Link:
    """Two routers with one bundle between them."""

    lab: Lab
    near: Router
    far: Router
    instances: int
    family: int = 4
    first: int = 20000  # next UDP port of flows: each round gets flows of its own, because buckets in use stay

    @property
    def routers(self) -> tuple[Router, Router]:
        return self.near, self.far

    @property
    def addresses(self) -> tuple[str, str]:
        """Loopback addresses here and there."""
        here, there = [loopback(r) if self.family == 4 else loopback6(r) for r in self.routers]
        return here, there

    def connect(self, **options: Any) -> None:
        """Configure the bundle on both, and wait until it carries traffic."""
        transit = TRANSIT4 if self.family == 4 else TRANSIT6
        options = {"transit": (transit,), "families": (self.family,), "endpoints": str(self.family), **options}
        connect(self.routers, self.instances, **options)
        self.settle(still=1.0)

    def delete(self) -> None:
        """Take the bundle away on both."""
        for router in self.routers:
            router.must_configure("delete interfaces zerotier")

    def deviations(self) -> list[str]:
        """In what the two differ from their plans."""
        return [sentence for router in self.routers for sentence in deviations(look(router))]

    def settle(self, timeout: float = 20.0, still: float = 0.0) -> None:
        """Wait until both are what their plans say, and all paths have been up for ``still`` seconds.

        Raises :class:`LabError` with what still differs.
        """
        end = time.monotonic() + timeout
        while True:
            looks = [look(router) for router in self.routers]
            found = [sentence for seen in looks for sentence in deviations(seen)]
            young = [at for seen in looks for at in seen.since.values() if at > time.time() - still] if still else []
            if not found and not young:
                return
            if time.monotonic() >= end:
                raise LabError(f"not as planned after {timeout:g} s: {'; '.join(found) or 'paths come and go'}")
            time.sleep(0.05)

    def exchange(self, seconds: float = 1.0) -> None:
        """Let traffic pass for so long; every echo must come back."""
        count = max(2, int(seconds * 20))
        own, other = self.addresses
        # ping waits for its last answers no longer than for the others, so they do not count.
        command = ["ping", "-c", str(count + _TAIL), "-i", "0.05", "-I", own, other]
        answer = self.near.run(command, check=False).stdout
        if any(f" icmp_seq={number} " not in answer for number in range(1, count + 1)):
            raise LabError(f"echoes are lost between {own} and {other}: {answer}")

    def reach(self) -> None:
        """Wait until an echo comes back in both directions."""
        own, other = self.addresses
        reach(self.near, own, other)
        reach(self.far, other, own)

    def pids(self) -> dict[tuple[str, str], int]:
        """PIDs of zerotier-pathd and the instances, by router and unit."""
        return {(r.name, unit): pid for r in self.routers for unit, pid in look(r).pids.items()}


class Traffic:
    """Flows over a link while something happens to it."""

    def __init__(self, link: Link, count: int = 32) -> None:
        self._link, self.first = link, link.first
        link.first += count
        self._flows = Flows(link.near, link.far, count, first=self.first, addresses=link.addresses)
        self.before = self._flows.devices

    def end(self) -> list[Witness]:
        """What every flow saw; where it runs is looked at while it still does."""
        own, other = self._link.addresses
        ports = [(self.first + n, PORT) for n in range(len(self.before))]
        there = devices(self._link.near, own, other, ports)
        back = devices(self._link.far, other, own, [(b, a) for a, b in ports])
        seen = self._flows.end()
        return [Witness(b, a, s) for b, a, s in zip(self.before, zip(there, back, strict=True), seen, strict=True)]

    def kill(self) -> None:
        """Stop at once."""
        self._flows.kill()


@dataclass(frozen=True)
class Witness:
    """A flow: its member devices there and back, before and after, and what it saw."""

    before: tuple[str, str]
    after: tuple[str, str]
    seen: Seen


def devices(router: Router, source: str, target: str, ports: Sequence[tuple[str | int, str | int]]) -> list[str]:
    """The member devices that a router sends UDP flows over; empty where it has no route."""
    lines = [f"route get {target} from {source} ipproto 17 sport {sport} dport {dport}" for sport, dport in ports]
    text = router.run(["ip", "-o", "-force", "-batch", "-"], text_input="\n".join(lines) + "\n", check=False).stdout
    found = [line.partition(" dev ")[2].split(" ")[0] for line in text.splitlines() if " dev " in line]
    return found if len(found) == len(lines) else [""] * len(lines)


# -- faults

Act = Callable[[Link, Router, int], None]


@dataclass(frozen=True)
class Fault:
    """Something bad that happens to a router, and the way back.

    ``hits`` says whose packets may be lost: of the one path, of all paths or of none. ``lasting`` faults keep what they
    hit down until they are mended. ``victim`` are the processes that are other ones afterwards.
    """

    name: str
    strike: Act
    mend: Act = lambda link, router, path: None
    hits: str = "path"  # path, all, none
    lasting: bool = True
    gentle: bool = False  # flows that are hit move to other paths, but lose nothing
    victim: str = ""  # instance, pathd, router
    patience: float = 20.0  # seconds until all is as planned again


def unit(path: int) -> str:
    """Unit of an instance."""
    return f"zerotier-multi@zt0-{path}.service"


def port(path: int) -> int:
    """UDP port of an instance."""
    return PRIMARY_PORT + path - 1


def _shell(*scripts: str) -> Act:
    """Run a shell script on the router; ``{path}``, ``{unit}`` and ``{port}`` are the path's."""

    def act(_link: Link, router: Router, path: int) -> None:
        for script in scripts:
            router.run(["sh", "-c", script.format(path=path, unit=unit(path), port=port(path))])

    return act


def _signal(name: str, whom: str = "{unit}") -> Act:
    return _shell(f"systemctl kill --kill-whom=main --signal={name} {whom}")


def _nft(name: str, *chains: str) -> Act:
    """Load a table of its own; a chain is ``hook: rule`` with ``{port}`` for the path's port."""

    def act(_link: Link, router: Router, path: int) -> None:
        table = f"fault_{name}_{path}"
        bodies = []
        for chain in chains:
            hook, _, rule = chain.partition(": ")
            kind = "nat hook postrouting priority 100" if hook == "postrouting" else f"filter hook {hook} priority 0"
            text = rule.format(port=port(path), last=port(32), mapped=30000 + path)
            bodies.append(f"chain {hook} {{ type {kind}; {text}; }}\n")
        router.run(["nft", "-f", "-"], text_input=f"table inet {table} {{\n{''.join(bodies)}}}\n")

    return act


def _no_nft(name: str) -> Act:
    return _shell(f"nft delete table inet fault_{name}_{{path}}")


def _both_ends(act: Act) -> Act:
    def on_both(link: Link, _router: Router, path: int) -> None:
        for router in link.routers:
            act(link, router, path)

    return on_both


def _loss(percent: int) -> Act:
    """Loss of what reaches the instances of a router; with both ends an echo is lost about twice as often."""
    return _nft("loss", f"input: udp dport {PRIMARY_PORT}-{{last}} numgen random mod 100 < {percent} drop")


def underlay(**impairment: float) -> Act:
    """Impair what reaches either router: netem where the kernel has it, else the lab's relay; nothing mends it."""

    def act(link: Link, _router: Router, _path: int) -> None:
        for router in link.routers:
            if impairment:
                link.lab.underlay.netem(router.name, **impairment)
            else:
                link.lab.underlay.clear(router.name)

    return act


def flush_conntrack(_link: Link, router: Router, _path: int) -> None:
    """Forget all connections, as a NAT that was restarted has."""
    router.run(["/usr/bin/python3", "-c", FLUSH_CONNTRACK])


def _sequence(*acts: Act) -> Act:
    def act(link: Link, router: Router, path: int) -> None:
        for one in acts:
            one(link, router, path)

    return act


def _power_cut(_link: Link, router: Router, _path: int) -> None:
    router.kill()


def _power_back(_link: Link, router: Router, _path: int) -> None:
    router.start()
    router.wait_boot()


def _configure(*lines: str) -> Act:
    def act(_link: Link, router: Router, _path: int) -> None:
        router.must_configure("\ncommit\n".join(f"set interfaces zerotier zt0 {line}" for line in lines))

    return act


def _instances(share: float) -> Act:
    def act(link: Link, router: Router, path: int) -> None:
        _configure(f"instances {max(1, int(link.instances * share))}")(link, router, path)

    return act


def own_config_disk(router: Router) -> None:
    """Boot a router again with a small file system of its own as /config, so that it can be filled.

    It is mounted from outside, so what is on it outlives the router's power.
    """
    router.poweroff()
    run(["mount", "-t", "tmpfs", "-o", f"size={CONFIG_SIZE},mode=755", "config", str(router.root / "config")])
    router.start()
    router.wait_boot()


# Where an address goes with the link, an IPv6 underlay would not come back by itself.
_KEEP = "sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1"
_FULL = "cat /dev/zero >{place}/full 2>/dev/null || true"
_JOURNALD = " ".join(f"systemd-journald{x}" for x in (".socket", "-dev-log.socket", "-audit.socket", ".service"))
_PATHD = "zerotier-pathd"

KILL = Fault("instance-killed", _signal("KILL"), lasting=False, victim="instance")
STOP = Fault("instance-stopped", _signal("STOP"), _signal("CONT"))
CUT_OUT = Fault("port-cut-outwards", _nft("out", "output: udp sport {port} drop"), _no_nft("out"))
CUT_IN = Fault("port-cut-inwards", _nft("in", "input: udp dport {port} drop"), _no_nft("in"))
# The engine does not notice; zerotier-pathd gives it some time before it starts it again.
TAP = Fault("tap-deleted", _shell("ip link del zt0p{path}"), lasting=False, victim="instance", patience=60.0)
RESTART = Fault(
    "instance-restarted", _shell("ztsh restart zerotier zt0 instance {path}"),
    lasting=False, gentle=True, victim="instance",
)  # fmt: skip
NAT = Fault(
    "nat-rebinding",
    _sequence(
        # What comes to the port unasked does not get through a NAT either.
        _nft("nat", "postrouting: udp sport {port} snat to :{mapped}", "input: ct state new udp dport {port} drop"),
        flush_conntrack,
    ),
    _sequence(_no_nft("nat"), flush_conntrack),
    lasting=False, patience=60.0,
)  # fmt: skip
UNDERLAY = Fault("underlay-down", _shell(_KEEP, "ip link set eth0 down"), _shell("ip link set eth0 up"), hits="all")
POWER = Fault("power-cut", _power_cut, _power_back, hits="all", victim="router", patience=30.0)
LOSS_5 = Fault("loss-5", _loss(5), _no_nft("loss"), hits="all", lasting=False)
LOSS_20 = Fault("loss-20", _both_ends(_loss(20)), _both_ends(_no_nft("loss")), hits="all", lasting=False)
DELAY = Fault("delay-100", underlay(delay_ms=50), underlay(), hits="all", lasting=False)
OVERTAKING = Fault(
    "delay-100-overtaking", underlay(delay_ms=50, jitter_ms=2, reorder_pct=5), underlay(), hits="all", lasting=False
)
MTU = Fault(
    "mtu-1280", _both_ends(_shell("ip link set eth0 mtu 1280")), _both_ends(_shell("ip link set eth0 mtu 1500")),
    hits="none", lasting=False,
)  # fmt: skip
PATHD_KILL = Fault("pathd-killed", _signal("KILL", _PATHD), hits="none", lasting=False, victim="pathd")
PATHD_STOP = Fault(
    "pathd-stopped", _shell(f"systemctl stop {_PATHD}"), _shell(f"systemctl start {_PATHD}"),
    hits="none", lasting=False, victim="pathd",
)  # fmt: skip
PATHD_FREEZE = Fault("pathd-frozen", _signal("STOP", _PATHD), _signal("CONT", _PATHD), hits="none", lasting=False)
PATHD_RESTART = Fault(
    "pathd-restarted", _shell(f"systemctl restart {_PATHD}"), hits="none", lasting=False, victim="pathd"
)
JOURNALD = Fault(
    "journald-stopped", _shell(f"systemctl stop {_JOURNALD}"), _shell(f"systemctl start {_JOURNALD}"),
    hits="none", lasting=False,
)  # fmt: skip
CONFIG_FULL = Fault(
    "config-full", _shell(_FULL.format(place="/config")), _shell("rm -f /config/full"), hits="none", lasting=False
)
RUN_FULL = Fault(
    "run-full",
    # No more than what is in use: filling what systemd gives it would take a fifth of the memory.
    _shell(
        "mount -o remount,size=$(($(df -k --output=used /run | tail -1) + 16))k /run", _FULL.format(place="/run")
    ),
    _shell(f"rm -f /run/full; mount -o remount,size={RUN_SIZE} /run"),
    hits="none", lasting=False,
)  # fmt: skip

FEWER = Fault(
    "half-the-instances", _instances(0.5), _instances(1), hits="all", lasting=False, gentle=True, victim="instance"
)
COMMITS = Fault(
    "commits", _configure("description a", "description b", "description c"), _configure("description d"),
    hits="none", lasting=False,
)  # fmt: skip

FAULTS = (
    KILL, STOP, CUT_OUT, CUT_IN, TAP, RESTART, NAT, UNDERLAY, POWER, LOSS_5, LOSS_20, DELAY, OVERTAKING, MTU,
    PATHD_KILL, PATHD_STOP, PATHD_FREEZE, PATHD_RESTART, JOURNALD, CONFIG_FULL, RUN_FULL, FEWER, COMMITS,
)  # fmt: skip


def wait_fallen(link: Link, path: int | None) -> None:
    """Wait until both ends have left a path, or all of them."""
    devices_hit = {f"zt0p{k}" for k in ([path] if path else range(1, link.instances + 1))}

    def fallen(router: Router) -> bool:
        return all(state in FALLEN for name, state in look(router).states.items() if name.split()[0] in devices_hit)

    for router in link.routers:
        wait(partial(fallen, router), timeout=10, what=f"{router.name}: {', '.join(sorted(devices_hit))} out of use")


def wait_reborn(router: Router, name: str, before: int) -> None:
    """Wait until a unit runs as another process."""
    wait(lambda: look(router).pids.get(name, 0) not in (0, before), timeout=60, what=f"{router.name}: {name} anew")
