"""Two routers with a bundle between them, flows over it, and how a router differs from its plans.

What a router is gets compared with its plan (:func:`deviations`), so that whatever a fault leaves behind is seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.flows import PORT, Flows, Seen
from lab.lab import Lab
from lab.process import LabError
from lab.router import Router
from lab.scenario import connect, loopback, loopback6, reach, resident

TRANSIT4, TRANSIT6 = "10.14.0.0/26", "2001:db8:14::/122"  # room for 16 instances
_TAIL = 5  # echoes at the end that are sent, but not asked for

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

    def settle(self, timeout: float = 20.0, still: float = 0.0, spared: str = "") -> None:
        """Wait until both are what their plans say, and all paths have been up for ``still`` seconds.

        ``spared`` is part of a sentence that may stay, such as a file on a full disk. Raises :class:`LabError` with what still
        differs.
        """
        end = time.monotonic() + timeout
        while True:
            looks = [look(router) for router in self.routers]
            told = [sentence for seen in looks for sentence in deviations(seen)]
            found = [sentence for sentence in told if not spared or spared not in sentence]
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
