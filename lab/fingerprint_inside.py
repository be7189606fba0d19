"""Runs inside a router and prints as JSON what the product has made of its configuration there: section -> sorted lines.

:mod:`lab.fingerprint` sends this text. Only what the kernel and the processes change by themselves is left out; a comment says
why. Numbers that they give (ifindexes, ids of next hops, PIDs) are replaced by what they stand for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from zerotier_multi import names
from zerotier_multi.pathd.control import PathdError, ask
from zerotier_multi.ztapi import ApiError, ZeroTierApi

# Of every device: numbers of the kernel; the queue that a device gets when it is first set up, and keeps when it is set down; whether
# there is carrier, which follows from the rest.
LINK_NOISE = ("ifindex", "link_index", "qdisc", "operstate", "addr_info", "linkinfo")
# Of a route: the time left of one out of a router advertisement; what the next hop says already.
ROUTE_NOISE = ("expires", "nhid", "nh_info")
OF_A_GROUP = ("nexthops", "dev", "gateway", "via", "weight")  # what ip prints of a group besides, in the order of ids
ROOT_QUEUES = ("noqueue", "noop", "fq_codel", "pfifo_fast", "mq")  # what the kernel gives a device by itself
UNIT_FACTS = ("Id", "ActiveState", "SubState", "MainPID", "DropInPaths", "CPUAffinity", "NeedDaemonReload", "UnitFileState")
# Below /proc/sys/net: how many connections are tracked just now.
SYSCTL_NOISE = ("nf_conntrack_count",)
# Doors and memory of programs that run, which come with the first commit and stay.
RUN_NOISE = re.compile(r"instances|pathd|.*\.sock|.*\.lock|.*\.prom|pathd/[a-z]+\.json")
# What an instance keeps in its home: who it is, who it has met, and what it counts.
HOME_NOISE = re.compile(r"identity\..*|authtoken\.secret|peers\.d/.*|metrics.*|.*\.(pid|port)")


def out(*command: str) -> str:
    """What a program prints; nothing where it fails, because what it was asked about has just gone."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def table(*command: str) -> list[dict[str, Any]]:
    """What a program prints as a list of JSON; ip prints empty objects for what it leaves out."""
    return [row for row in json.loads(out(*command) or "[]") if row]


def line(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def without(row: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in left_out}


def text(path: Path) -> str | None:
    """A file; None where it has just gone, or only takes what is written to it."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def below(root: Path) -> Iterator[Path]:
    """Files and directories."""
    for directory, directories, files in os.walk(root):
        yield from (Path(directory, name) for name in (*directories, *files))


def links() -> Iterator[str]:
    """Devices of bundles wholly; of others what the product may do to them."""
    for link in table("ip", "-j", "-d", "address"):
        name, ours = link["ifname"], names.is_our_device(link["ifname"])
        info = link.get("linkinfo", {})
        kind = info.get("info_kind")
        # A bridge has no MAC address of its own, but a random one or that of a port; and its data are mostly timers.
        shown = without(link, *LINK_NOISE, *(("address",) if kind == "bridge" else ()))
        if ours:
            yield line({**shown, "kind": kind, "data": None if kind == "bridge" else info.get("info_data")})
        else:
            yield line({key: shown.get(key) for key in ("ifname", "master", "mtu", "promiscuity", "flags")})
        for address in link["addr_info"]:
            # Link-local ones follow from MAC addresses, which are random. A TAP sometimes has a second one: of the moment after it has
            # been set up and before its instance has given it its own MAC address.
            if address["scope"] != "link":
                yield f"{name} address {address['local']}/{address['prefixlen']} {address['scope']}"


class NextHops:
    """Next hops by what they do. FRR's own are left out: it numbers them, and keeps them as it likes."""

    def __init__(self) -> None:
        self._known = {row["id"]: row for row in table("ip", "-j", "nexthop")}

    def show(self, number: int) -> str:
        row = self._known.get(number, {})
        if "group" not in row:
            return f"via {row.get('gateway')} dev {row.get('dev')}"
        members = sorted(f"{self.show(member['id'])} x {member.get('weight', 1)}" for member in row["group"])
        # How long the buckets have not been as the weights want them is time that passes.
        buckets = without(row.get("resilient_args", {}), "unbalanced_time")
        return f"group {row.get('type', '')} {line(buckets)} [{', '.join(members)}]"

    def lines(self) -> Iterator[str]:
        for number, row in self._known.items():
            if row.get("protocol") != "zebra":
                yield f"{self.show(number)} protocol {row.get('protocol')} scope {row.get('scope')}"


def routes(nexthops: NextHops) -> Iterator[str]:
    for family in ("-4", "-6"):
        for row in table("ip", family, "-j", "-d", "route", "show", "table", "all"):
            shown = without(row, *ROUTE_NOISE)
            if "nhid" in row:
                shown["over"] = nexthops.show(row["nhid"])
                if shown["over"].startswith("group"):
                    shown = without(shown, *OF_A_GROUP)
            # The kernel notes at the route that its device has no carrier, which a process that starts changes.
            shown["flags"] = [flag for flag in row.get("flags", ()) if flag != "linkdown"]
            # Link-local ones follow from the addresses.
            if not row.get("dst", "").startswith(("fe80", "ff00", "multicast")):
                yield f"{family} {line(shown)}"


def rules() -> Iterator[str]:
    for family in ("-4", "-6"):
        yield from (f"{family} {line(row)}" for row in table("ip", family, "-j", "rule"))


def neighbours() -> Iterator[str]:
    """Those that were put there: the others come and go with the traffic."""
    yield from map(line, table("ip", "-j", "neighbour", "show", "nud", "permanent"))


def nftables() -> Iterator[str]:
    """Without counters, and without what packets have entered into sets. Before each line stands where it is."""
    place: list[str] = []
    order: Counter[str] = Counter()  # of the rules of a chain
    for row in map(str.strip, out("nft", "-s", "-t", "list", "ruleset").splitlines()):
        if row == "}":
            place.pop()
        elif row.endswith("{"):
            place.append(row[:-1].strip())
        elif row:
            where = " ".join(place)
            order[where] += 1
            yield f"{where} {order[where]:03}: {row}"


def traffic_control() -> Iterator[str]:
    for row in table("tc", "-j", "qdisc", "show"):
        device, kind = row["dev"], row["kind"]
        if kind in ROOT_QUEUES:
            continue
        yield f"{device} {line(without(row, 'handle', 'refcnt'))}"
        if kind in ("ingress", "clsact"):
            for way in ("ingress", "egress"):
                for found in out("tc", "filter", "show", "dev", device, way).splitlines():
                    # Numbers that the kernel gives.
                    yield f"{device} {way} {re.sub(r'(index|handle|chain) [^ ]+', '', found).strip()}"


def sysctls() -> Iterator[str]:
    for path in below(Path("/proc/sys/net")):
        if path.is_file() and path.name not in SYSCTL_NOISE and (value := text(path)) is not None:
            yield f"{path.relative_to('/proc/sys')} {value.strip()}"


def units() -> list[dict[str, str]]:
    """Units of instances that run, or could: systemd also remembers those of before for a while."""
    shown = out("systemctl", "show", "zerotier-multi@*", f"--property={','.join(UNIT_FACTS)}")
    found = [dict(row.split("=", 1) for row in block.splitlines()) for block in shown.strip().split("\n\n") if block]
    return [unit for unit in found if unit["ActiveState"] != "inactive" or unit["DropInPaths"]]


def processes(running: Iterable[dict[str, str]]) -> Iterator[str]:
    for unit in running:
        root = Path("/proc", unit["MainPID"])
        command, status, environment = (text(root / name) or "" for name in ("cmdline", "status", "environ"))
        allowed = status.partition("Cpus_allowed_list:")[2].split()[:1]
        yield f"{unit['Id']} {' '.join(command.split(chr(0)))} on CPUs {allowed}"
        # What systemd gives every process besides (INVOCATION_ID, JOURNAL_STREAM) is another one each time.
        own = sorted(word for word in environment.split("\0") if word.startswith(("ZT", "LD_")))
        yield f"{unit['Id']} environment {own}"


def sockets(running: Iterable[dict[str, str]]) -> Iterator[str]:
    """What the instances listen on."""
    owners = {unit["MainPID"]: unit["Id"] for unit in running}
    for option in ("-u", "-t"):
        for row in out("ss", "-Hlpn", option).splitlines():
            owner = re.search(r"pid=(\d+)", row)
            if owner and owner[1] in owners:
                yield f"{owners[owner[1]]} {option} {row.split()[3]}"


def run_files() -> Iterator[str]:
    """What stands below /run: names and modes, and what is in plans and drop-ins."""
    for path in below(names.RUN_DIR):
        inside = str(path.relative_to(names.RUN_DIR))
        if RUN_NOISE.fullmatch(inside):
            continue
        yield from _named(path)
        if re.fullmatch(r"zt\d+\.json", inside):
            yield from (f"{path} {key} = {line(value)}" for key, value in json.loads(text(path) or "{}").items())
    for path in below(names.UNIT_DROPIN_ROOT):
        if "zerotier" in str(path):
            yield from _named(path)
            yield from (f"{path} {row}" for row in (text(path) or "").splitlines())


def homes(running: Iterable[dict[str, str]]) -> Iterator[str]:
    """Of instances that run; those of others are kept for their identities, as their instances have left them."""
    for unit in running:
        home = names.HOME_ROOT.joinpath(*unit["Id"].partition("@")[2].removesuffix(".service").split("-"))
        for path in below(home):
            if HOME_NOISE.fullmatch(str(path.relative_to(home))):
                continue
            yield from _named(path)
            content = (text(path) or "") if path.is_file() else ""
            if path.suffix == ".conf" and content.isprintable() or path.name == "local.conf":
                yield from (f"{path} {row}" for row in content.splitlines())
            elif path.is_file():
                yield f"{path} {hashlib.sha1(content.encode()).hexdigest()}"


def _named(path: Path) -> Iterator[str]:
    try:
        yield f"{path} {path.lstat().st_mode:o}"
    except OSError:  # it has just gone
        pass


def networks(running: Iterable[dict[str, str]]) -> Iterator[str]:
    """What the instances say of the networks that they are in."""
    active = {unit["Id"] for unit in running}
    for file in names.RUN_DIR.glob("zt*.json"):
        for instance in json.loads(text(file) or "{}").get("instances", ()):
            if instance["unit"] not in active:
                continue
            try:
                found = ZeroTierApi(Path(instance["home"]), instance["port"]).get("/network")
            except ApiError as error:
                found = [{"error": str(error)}]
            # When it last heard of its configuration, and to whom it listens, are of the moment.
            for network in found:
                yield f"{instance['unit']} {line(without(network, 'multicastSubscriptions', 'netconfRevision', 'dns'))}"


def states() -> Iterator[str]:
    """What zerotier-pathd says: not since when, nor what it has measured."""
    try:
        status = ask({"op": "status"})
    except PathdError as error:
        if names.CONTROL_SOCKET.exists():
            yield str(error)
        return  # before the first commit it does not run
    yield from (f"problem {problem}" for problem in status["problems"])
    # One that was deleted stays in the metrics until the daemon ends, so that an alert can tell it from one that is lost.
    yield from (f"{bundle} configured" for bundle, value in status["configured"].items() if value)
    for name, bundle in status["bundles"].items():
        yield from (f"{name} {key} {line(bundle[key])}" for key in ("state", "endpoint_faults", "unrouted", "routes"))
        for instance in bundle["instances"]:
            yield f"{name} instance {line(without(instance, 'load', 'revivals'))}"
        for path in bundle["paths"]:
            shown = {key: path[key] for key in ("remote", "instance", "family", "device", "via", "weight")}
            yield f"{name} path {line(shown)} is {path['state']}"


def sections() -> dict[str, Iterable[str]]:
    nexthops, known = NextHops(), units()
    running = [unit for unit in known if unit["MainPID"] != "0"]
    return {
        "links": links(),
        "next hops": nexthops.lines(),
        "routes": routes(nexthops),
        "rules": rules(),
        "neighbours": neighbours(),
        "nftables": nftables(),
        "traffic control": traffic_control(),
        "sysctls": sysctls(),
        "units": (line(without(unit, "MainPID")) for unit in known),
        "processes": processes(running),
        "sockets": sockets(running),
        "run": run_files(),
        "homes": homes(running),
        "networks": networks(running),
        "states": states(),
    }


if __name__ == "__main__":
    print(json.dumps({name: sorted(lines) for name, lines in sections().items()}))
