"""An invented run: every scenario, every form of row. Its machine says that nothing was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from bench.results import LOOPBACK_COST, ROUND_TRIP, Machine, Row, Run, Scenario, Settings

ROUNDS = 5
TRAFFIC = ("tcp-1", "tcp-16", "tcp-bidir", "udp-1200", "udp-64", "tcp-16 iperf2")
SPEEDS = {  # Mbit/s with one stream, and the gain of 16
    "raw link": ("raw", 37000.0, 1.03), "kernel WireGuard": ("peer", None, "the kernel has no module wireguard"),
    "wireguard-go": ("peer", 3180.0, 0.98), "boringtun": ("peer", 515.0, 1.8), "IPsec AES-GCM": ("peer", None, "the kernel has no xfrm"),
    "OpenVPN": ("peer", 924.0, 1.15), "OpenVPN with DCO": ("peer", None, "the kernel has no module ovpn-dco"),
    "Tailscale": ("peer", 2900.0, 1.0), "Nebula": ("peer", 1070.0, 1.1),
    "ZeroTier x 1": ("stock", 1908.0, 0.93), "ZeroTier multicore": ("stock", 2100.0, 1.1),
    "ztnode x 1": ("ours", 6266.0, 0.98), "ztnode x 2": ("ours", 6400.0, 1.2), "ztnode x 4": ("ours", 6300.0, 1.25),
    "zerotier-one x 4": ("ours", 2049.0, 1.24),
}  # fmt: skip


class Maker:
    """Makes rows with noise that is the same every time."""

    def __init__(self, seed: int, factor: float) -> None:
        self.random, self.factor = random.Random(seed), factor

    def samples(self, value: float, noise: float = 0.04) -> tuple[float, ...]:
        return tuple(round(value * self.random.gauss(1, noise), 4) for _ in range(ROUNDS))

    def row(self, subject: str, group: str, metric: str, unit: str, value: float | str, better: str = "higher", **more: Any) -> Row:
        parameters = {name: more.pop(name) for name in list(more) if name not in ("distribution", "timeline", "stacks", "noise")}
        noise = more.pop("noise", 0.04)
        if isinstance(value, str):
            return Row(subject, group, parameters, metric, unit, better, unavailable=value)
        if group == "ours" and better == "higher":
            value *= self.factor
        command = f"iperf3 --client 10.0.55.2 --json  # {subject}"
        return Row(subject, group, parameters, metric, unit, better, self.samples(value, noise), (command,), **more)

    def throughput(self, traffics: Sequence[str]) -> tuple[Row, ...]:
        found = []
        for traffic in traffics:
            for subject, (group, speed, gain) in SPEEDS.items():
                extra = {"traffic": traffic, "multicore": True} if "multicore" in subject else {"traffic": traffic}
                if group in ("ours", "stock"):
                    extra["instances"] = int(subject.rpartition("x ")[2]) if " x " in subject else 1
                if speed is None:  # under no condition in particular
                    if traffic == traffics[0]:
                        found.append(self.row(subject, group, "throughput", "Mbit/s", str(gain)))
                    continue
                value = speed * {"tcp-16": gain, "udp-1200": 0.6, "udp-64": 0.05}.get(traffic, 1.0)
                found.append(self.row(subject, group, "throughput", "Mbit/s", value, **extra))
                found.append(self.row(subject, group, "cpu per Gbit", "s", 1.9e3 / value, "lower", **extra))
        return tuple(found)

    def loopback(self) -> tuple[Row, ...]:
        found = []
        for engine in ("ztnode", "zerotier-one"):
            one = {"engine": engine, "instances": 1, "bytes": 1200}
            for to in ("transit", "loopback"):
                found.append(self.row(f"{engine} x 1", "ours", ROUND_TRIP, "µs", 125.0, "lower", noise=0.001, **one, to=to))
            shares = tuple(round(self.random.gauss(0.002, 0.01), 5) for _ in range(120))
            found.append(self.row(
                f"{engine} x 1", "ours", LOOPBACK_COST, "of the CPU time", 0.002, "lower", distribution=shares, **one,
            ))  # fmt: skip
        return tuple(found)

    def scaling(self) -> tuple[Row, ...]:
        found = []
        for engine, alone, loss in (("ztnode", 610.0, 0.006), ("zerotier-one", 205.0, 0.012)):
            for number in (1, 2, 3, 4, 6, 8, 12, 16):
                value = alone * number * (1 - loss * (number - 1))
                same = {"engine": engine, "instances": number, "budget": 0.1}
                found.append(self.row(f"{engine} x {number}", "ours", "throughput", "Mbit/s", value, noise=0.01, **same))
        found.append(
            self.row(
                "ztnode x 4", "ours", "throughput", "Mbit/s", "this machine has 2 cores, 8 are needed", engine="ztnode", instances=4
            )
        )
        return tuple(found)

    def evenness(self) -> tuple[Row, ...]:
        return tuple(
            self.row(
                "ztnode x 4", "ours", "evenness", "largest / mean", 1 + (0.9 if weights == "static" else 0.15) * 4 / math.sqrt(flows) / 2,
                "lower", flows=flows, paths=4, weights=weights,
            )
            for weights in ("static", "auto") for flows in (4, 8, 16, 32, 64)
        )  # fmt: skip

    def latency(self) -> tuple[Row, ...]:
        found = []
        for load, factor in (("idle", 1.0), ("tcp-1", 20.0), ("tcp-8", 30.0)):
            for subject, group, middle in (
                ("raw link", "raw", 0.02),
                ("wireguard-go", "peer", 0.2),
                ("ZeroTier x 1", "stock", 0.19),
                ("ztnode x 4", "ours", 0.12),
            ):
                values = tuple(round(middle * factor * self.random.lognormvariate(0, 0.4), 4) for _ in range(1000))
                found.append(self.row(subject, group, "latency", "ms", middle * factor, "lower", load=load, distribution=values))
                found.append(self.row(subject, group, "echoes lost", "%", 0.1, "lower", load=load))
        return tuple(found)

    def stalls(self) -> tuple[Row, ...]:
        found = []
        for event, ours, stock in (("instance-killed", 0.3, 12.0), ("port-cut", 0.9, 21.0), ("address-changed", 0.6, 30.0)):
            for subject, group, gap in (("ZeroTier x 2", "stock", stock), ("ztnode x 2", "ours", ours)):
                line = tuple((t / 10, 0.0 if 0 <= t / 10 < gap else 100.0 + self.random.uniform(-4, 4)) for t in range(-50, 350))
                found.append(
                    self.row(subject, group, "stall", "s", gap, "lower", event=event, timeline=line, timeline_unit="% answered")
                )
        return tuple(found)

    def memory(self) -> tuple[Row, ...]:
        return tuple(
            self.row(subject, group, metric, unit, size * (1 if load == "idle" else grown), "lower", load=load)
            for metric, unit in (("PSS", "MB"), ("CPU time per minute", "s"))
            for subject, group, size, grown in (
                ("wireguard-go", "peer", 3.0, 28.0), ("Nebula", "peer", 7.0, 1.1), ("ZeroTier x 1", "stock", 7.0, 1.0), ("ztnode x 1", "ours", 5.0, 1.0),
            )
            for load in ("idle", "tcp-16")
        )  # fmt: skip

    def commit(self) -> tuple[Row, ...]:
        cases = [(n, 1, 1) for n in (1, 4, 16, 32)] + [(4, remotes, prefixes) for remotes in (10, 100) for prefixes in (100, 1000)]
        return tuple(
            self.row(
                f"ztnode x {instances}", "ours", "commit time", "s", factor * (0.4 + 0.02 * instances + 0.004 * remotes + 0.0006 * prefixes), "lower",
                commit=kind, instances=instances, remotes=remotes, prefixes=prefixes, engine="ztnode",
            )
            for instances, remotes, prefixes in cases for kind, factor in (("first", 1.0), ("small change", 0.3), ("deletion", 0.5))
        )  # fmt: skip

    def profile(self) -> tuple[Row, ...]:
        stacks = "\n".join(
            f"ztnode;main;loop;{stack} {count}" for stack, count in (
                ("read_frames;ZT_Node_processVirtualNetworkFrame;Packet::armor;AES::GMAC::update", 260), ("read_frames;ZT_Node_processVirtualNetworkFrame;Packet::armor;AES::CTR::crypt", 100),
                ("read_frames;ZT_Node_processVirtualNetworkFrame;pthread_mutex_lock", 100), ("read_frames;ZT_Node_processVirtualNetworkFrame", 90),
                ("send;sendmmsg;entry_SYSCALL_64_[k];udp_sendmsg_[k];ip_output_[k]", 160), ("send;sendmmsg;entry_SYSCALL_64_[k];copy_from_user_[k]", 60),
                ("read_frames;tun_chr_read_iter_[k];skb_copy_[k]", 60), ("join_frames<4>", 50), ("epoll_wait;do_epoll_wait_[k]", 20),
            )
        )  # fmt: skip
        return (
            self.row("ztnode x 1", "ours", "cpu per Gbit", "s", 0.31, "lower", stacks=stacks),
            self.row(
                "ztnode x 1, kernel",
                "ours",
                "cpu per Gbit",
                "s",
                "perf may not see the kernel here (perf_event_paranoid is 2)",
                "lower",
            ),
        )


def invented(seed: int = 1, factor: float = 1.0, traffics: Sequence[str] = TRAFFIC) -> Run:
    """A run; ``factor`` is how much faster ours is than otherwise."""
    make = Maker(seed, factor)
    forwarded = tuple(
        make.row(subject, group, "throughput", "Mbit/s", speed * (1 if offload == "on" else 0.5), traffic="tcp-16", lan_offload=offload)
        for offload in ("on", "off") for subject, group, speed in (("raw link", "raw", 30000.0), ("ZeroTier x 1", "stock", 1500.0), ("ztnode x 4", "ours", 5200.0))
    )  # fmt: skip
    pinned = tuple(
        make.row(subject, group, "throughput", "Mbit/s", speed, traffic="tcp-8", lan_offload="on")
        for subject, group, speed in (
            ("wireguard-go", "peer", 1200.0),
            ("ZeroTier x 1", "stock", 330.0),
            ("ztnode x 1", "ours", 2700.0),
        )
    )
    transfer = tuple(
        make.row(subject, group, "throughput", "Mbit/s", speed)
        for subject, group, speed in (("raw link", "raw", 21000.0), ("OpenVPN", "peer", 800.0), ("ZeroTier x 1", "stock", 1700.0), ("ztnode x 1", "ours", 5600.0))
    )  # fmt: skip
    trusted = tuple(
        make.row(subject, group, "throughput", "Mbit/s", speed * (1.6 if on == "on" else 1), trusted_path=on, traffic=traffic)
        for subject, group, speed in (("ztnode x 1", "ours", 6100.0), ("ZeroTier x 1", "stock", 1900.0)) for on in ("off", "on")
        for traffic in ("tcp-1", "tcp-16")
    )  # fmt: skip
    parts = {
        "throughput": ("Throughput", "How fast is it beside what else I could take?", make.throughput(traffics)),
        "forwarded": ("Forwarded traffic", "How fast is it between hosts behind the routers?", forwarded),
        "pinned": ("Throughput of one CPU", "What does one program carry with the one CPU that it has?", pinned),
        "memory": ("Memory and processor time", "What does it take from the router?", make.memory()),
        "transfer-1gb": ("1 GB of random data", "How long does one large transfer take?", transfer),
        "loopback": ("The loopback address", "What does the loopback address cost?", make.loopback()),
        "scaling": ("Scaling", "What does each further instance bring?", make.scaling()),
        "evenness": ("Evenness", "How evenly do flows spread over the paths?", make.evenness()),
        "latency": ("Latency", "How long does a packet take, idle and under load?", make.latency()),
        "stalls": ("Stalls", "How long does traffic stop when something dies?", make.stalls()),
        "commit": ("Commit", "How long does a commit take, and how does that grow?", make.commit()),
        "trusted-path": ("Trusted path", "What does encryption cost?", trusted),
        "profile": ("Profile", "Where does the time go?", make.profile()),
    }
    return Run(
        Machine("SYNTHETIC: no machine, invented figures", 2, ("aes", "avx2", "vaes"), "6.1.0", 8 * 2**30, "none"),
        "2026-11-22T12:00:00+00:00", {"zerotier-multi": "0", "iperf3": "3.12", "wireguard-go": "<pinned> & invented"},
        Settings(ROUNDS, 5.0, quick=False),
        tuple(Scenario(name, title, question, "Invented by a program.", rows) for name, (title, question, rows) in parts.items()),
    )  # fmt: skip
