"""``make bench-probes``: what probing costs zerotier-pathd, idle, at 32 paths and 200 ms: CPU time and memory.

Three routers with eight instances each and both address families, so one router has 2 x 8 x 2 paths.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lab import Lab
from lab.scenario import connect, cpu_seconds, main_pid, memory, status

INSTANCES, SECONDS = 8, 30
LIMIT_CPU, LIMIT_MEMORY = 0.01, 30 * 1024  # of one CPU of this machine; KiB


def main() -> int:
    """Entry point; the arguments are our packages."""
    with Lab([Path(deb) for deb in sys.argv[1:]]) as lab:
        routers = lab.add_routers(["R1", "R2", "R3"])
        transit = ("10.14.0.0/24", "2001:db8:14::/120")
        connect(routers, INSTANCES, transit=transit, families=(4, 6), subnet_lengths=(29, 125))
        paths = len(status(routers[0])["bundles"]["zt0"]["paths"])
        pid = main_pid(routers[0], "zerotier-pathd")
        before, begin = cpu_seconds(routers[0], [pid])[pid], time.monotonic()
        time.sleep(SECONDS)  # the length of the measurement
        used = (cpu_seconds(routers[0], [pid])[pid] - before) / (time.monotonic() - begin)
        size = memory(routers[0], pid)
    print(f"{paths} paths x 200 ms: {used * 100:.2f} % of one CPU (limit {LIMIT_CPU:.0%}), {size / 1024:.1f} MiB (limit 30)")
    return 0 if paths == 32 and used < LIMIT_CPU and size < LIMIT_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
