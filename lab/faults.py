"""Faults to strike a link with, each with its way back: the registry of tests and benchmarks.

A fault acts on one router and one path of a :class:`Link`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lab.link import Link, look
from lab.nat import FLUSH_CONNTRACK
from lab.process import run, wait
from lab.router import Router
from zerotier_multi.states import PathState

PRIMARY_PORT = 9993
CONFIG_SIZE, RUN_SIZE = "8m", "20%"  # of /config in these labs; of /run as systemd-nspawn mounts it
FALLEN = (PathState.DOWN, PathState.HELD, PathState.REMOTE_DOWN, PathState.NO_DEVICE)  # out of use

Act = Callable[[Link, Router, int], None]


@dataclass(frozen=True)
class Fault:
    """Something bad that happens to a router, and the way back.

    ``hits`` says whose packets may be lost: of the one path, of all paths or of none. ``lasting`` faults keep what they
    hit down until they are repaired. ``victim`` are the processes that are other ones afterwards.
    """

    name: str
    strike: Act
    repair: Act = lambda link, router, path: None
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
    """Impair what reaches either router: netem where the kernel has it, else the lab's relay; nothing takes it away."""

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
CUT_BOTH = Fault(
    "port-cut", _nft("both", "output: udp sport {port} drop", "input: udp dport {port} drop"), _no_nft("both")
)  # fmt: skip
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
OVERTAKING = Fault("delay-100-overtaking", underlay(delay_ms=50, jitter_ms=2, reorder_pct=5), underlay(), hits="all", lasting=False)
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
PATHD_RESTART = Fault("pathd-restarted", _shell(f"systemctl restart {_PATHD}"), hits="none", lasting=False, victim="pathd")
JOURNALD = Fault(
    "journald-stopped", _shell(f"systemctl stop {_JOURNALD}"), _shell(f"systemctl start {_JOURNALD}"),
    hits="none", lasting=False,
)  # fmt: skip
CONFIG_FULL = Fault("config-full", _shell(_FULL.format(place="/config")), _shell("rm -f /config/full"), hits="none", lasting=False)
RUN_FULL = Fault(
    "run-full",
    # No more than what is in use: filling what systemd gives it would take a fifth of the memory.
    _shell(
        "mount -o remount,size=$(($(df -k --output=used /run | tail -1) + 16))k /run", _FULL.format(place="/run")
    ),
    _shell(f"rm -f /run/full; mount -o remount,size={RUN_SIZE} /run"),
    hits="none", lasting=False,
)  # fmt: skip

FEWER = Fault("half-the-instances", _instances(0.5), _instances(1), hits="all", lasting=False, gentle=True, victim="instance")
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
