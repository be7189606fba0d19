"""Figures that others have published, which the report shows beside its own. Other machines: only their shape compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOURCE = "lev-0.com, February 2024: ZeroTier x N with ECMP on VyOS, a container per instance, iperf3 with 16 streams"


@dataclass(frozen=True)
class Curve:
    """Throughput by number of instances on one pair of machines, in Mbit/s."""

    name: str
    throughput: Mapping[int, float]

    def gain(self) -> dict[int, float]:
        """T(N) / T(1) by number of instances."""
        return {number: value / self.throughput[1] for number, value in sorted(self.throughput.items())}


MS01 = Curve(
    "MS-01, 6P + 8E cores, 25G (field)", {1: 4490, 2: 8380, 3: 11600, 4: 14100, 5: 16500, 6: 18900, 8: 21300}
)  # fmt: skip
GK41 = Curve("GK41, 4 cores, 2.5G (field)", {1: 393, 2: 1020, 3: 1450, 4: 1930})
CURVES = (MS01, GK41)

# The same with one instance, on a GK41 with 1G: 541 Mbit/s between the members, 441 between the loopback ("floating") addresses.
FLOATING_IP_COST = 1 - 441 / 541

# What is shown besides: title, source, headers, rows. Empty: not published.
Table = tuple[str, str, tuple[str, ...], tuple[tuple[str, ...], ...]]
TABLES: Mapping[str, Table] = {
    "throughput": (
        "The field: Mbit/s", SOURCE,
        ("machine", "raw", "WireGuard", "IPsec VTI", "OpenVPN", "ZeroTier x 1", "x 2", "x 4", "x 8"),
        (
            ("GK41, 1G", "941", "856", "803", "274", "541", "864", "", ""),
            ("GK41, 2.5G", "2340", "1570", "1360", "226", "393", "1020", "1930", ""),
            ("MS-01, 10G/25G", "9350", "6550", "5720", "2180", "4490", "8380", "14100", "21300"),
        ),
    ),
    "memory": (
        "The field: memory and CPU", "Tailscale 1.48.2, NetBird 0.23.3, ZeroTier 1.12.2 and kernel WireGuard, host to VM, i5-2540M",
        ("figure", "Tailscale", "NetBird", "ZeroTier", "WireGuard", "raw"),
        (
            ("PSS idle / loaded, MB", "66 / 245", "36 / 36", "12 / 12", "", ""),
            ("CPU s per minute, idle / loaded", "0.505 / 115.23", "0.120 / 0.14", "0.297 / 78.72", "", ""),
            ("available memory lost, start + load, MB", "178", "51", "20", "29", "9"),
            ("CPU % of the machine, loaded", "62", "77", "57", "77", "27"),
            ("iperf3, Mbit/s", "935", "946", "414", "988", "10340"),
            ("iperf3 both ways, sum, Mbit/s", "427", "853", "480", "1029", "10260"),
        ),
    ),
    "transfer-1gb": (
        "The field: 1 GB of random data", "ZeroTier's blog: two virtual machines with one core, iperf3 TCP",
        ("program", "Mbit/s"),
        (
            ("raw", "4760"), ("IPsec AES-128-CBC", "497"), ("ZeroTier 1.2.4, Salsa20", "484"), ("OpenVPN AES-256-CBC", "309"),
            ("OpenVPN Blowfish", "234"),
        ),
    ),
    "trusted-path": (
        "The field: without encryption", "ZeroTierOne #2386: ZeroTier 1.14.1 with multicore, 8 or more streams",
        ("setting", "Gbit/s"),
        (("one thread", "1.5"), ("multicore", "3"), ("multicore, trusted path", "5")),
    ),
}  # fmt: skip
