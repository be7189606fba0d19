"""``make demo``: two routers with a LAN each, the example, and what more instances bring to the hosts behind them."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from lab.lab import Lab, reason
from lab.lan import Lan
from lab.process import LabError
from lab.router import Router
from lab.scenario import (
    connect,
    cpu_seconds,
    introduce,
    iperf,
    loopback,
    mbit,
    member_bytes,
    paths_up,
    processes,
    shares,
    wait_paths,
)

FLOWS, SECONDS, MOST = 16, 5, 4
MARK = b"zerotier-multi!!"  # 16 bytes, as long as ping's pattern may be


def commit_limit(text: str) -> float:
    """Seconds that a commit may take, out of ZTM_COMMIT_LIMIT; a slow machine may be given more. Raises :class:`LabError`."""
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise LabError(f"ZTM_COMMIT_LIMIT={text} is not a number of seconds; give one above 0, such as 2")
    return limit


@dataclass(frozen=True)
class Row:
    """What one number of instances came to."""

    instances: int
    mbit: float
    retransmits: int
    shares: dict[str, float]
    cpu: list[float]


def measure(here: Lan, there: Lan, instances: int) -> Row:
    """One run of iperf3 from host to host; another try with other ports when a path got no flow."""
    r1 = here.router
    for port in (20000, 22000, 24000):
        pids = processes(r1)
        bytes_before, cpu_before = member_bytes(r1), cpu_seconds(r1, pids.values())
        report = iperf(here, there, flows=FLOWS, seconds=SECONDS, source=here.address, target=there.address, port=port)
        cpu_after = cpu_seconds(r1, pids.values())
        spread = shares(bytes_before, member_bytes(r1))
        if min(spread.values()) > 0.005:
            break
    seconds = float(report["end"]["sum_sent"]["seconds"])
    return Row(
        instances,
        mbit(report),
        int(report["end"]["sum_sent"]["retransmits"]),
        spread,
        [100 * (cpu_after[pid] - cpu_before[pid]) / seconds for _k, pid in sorted(pids.items())],
    )


def plaintext_seen(lab: Lab, r1: Router, r2: Router) -> tuple[bool, bool]:
    """Whether marked packets show on the underlay, and whether they show inside the tunnel (they must)."""
    with tempfile.TemporaryDirectory() as directory:
        outside = Path(directory) / "underlay.pcap"
        inside = r2.popen(["tcpdump", "-l", "-n", "-x", "-i", "any", "-c", "3", f"icmp and src {loopback(r1)}"])
        r2.wait(lambda: r2.run(["pgrep", "-x", "tcpdump"], check=False).returncode == 0, what="capture in the tunnel")
        with lab.underlay.capture("R2", outside):
            ping = ["ping", "-q", "-c", "20", "-i", "0.05", "-s", "1000", "-p", MARK.hex(), "-I", loopback(r1), loopback(r2)]
            r1.run(ping)
        text, _ = inside.communicate(timeout=15)
        dump = "".join(word for line in text.splitlines() if line.startswith("\t0x") for word in line.split()[1:])
        return MARK in outside.read_bytes(), MARK.hex() in dump


def set_instances(routers: list[Router], instances: int) -> list[float]:
    """Commit a number of instances everywhere; returns how long each commit took, in seconds."""
    took = [r.must_configure(f"set interfaces zerotier zt0 instances {instances}").seconds for r in routers]
    wait_paths(routers, instances)
    return took


def commit_times(routers: list[Router]) -> tuple[float, float]:
    """Seconds of a commit from 4 to 8 instances whose identities exist, and of one that adds a prefix to 8."""
    for router in routers:
        router.must_configure(
            "delete interfaces zerotier zt0 transit prefix\n"
            "set interfaces zerotier zt0 transit prefix 10.14.0.0/27\n"
            "set interfaces zerotier zt0 instances 8"
        )
    introduce(routers, 8)
    wait_paths(routers, 8)
    set_instances(routers, 4)
    grow = max(set_instances(routers, 8))
    add = routers[0].must_configure("set interfaces zerotier zt0 remote R2 prefix 192.0.2.0/24").seconds
    return grow, add


def table(rows: list[Row]) -> Table:
    """The figures; the ratio is what counts, the machine is what it is."""
    found = Table(title=f"iperf3 -P {FLOWS} -t {SECONDS} from a host behind R1 to one behind R2, all on this machine")
    for heading in ("instances", "Mbit/s", "to 1", "bytes per path", "retransmits", "CPU per process (R1)"):
        found.add_column(heading, justify="right")
    for row in rows:
        found.add_row(
            str(row.instances),
            f"{row.mbit:.0f}",
            f"{row.mbit / rows[0].mbit:.2f}",
            " ".join(f"{share:.0%}" for share in row.shares.values()),
            str(row.retransmits),
            " ".join(f"{percent:.0f}%" for percent in row.cpu),
        )
    return found


def main() -> int:
    """Run the demo on the packages given; 0 only when everything held."""
    console = Console()
    failures: list[str] = []
    rows: list[Row] = []
    try:
        limit = commit_limit(os.environ.get("ZTM_COMMIT_LIMIT", "1"))
        with Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=False
        ) as progress:

            def step(text: str) -> None:
                for task in progress.tasks:
                    if not task.finished:
                        progress.update(task.id, total=1, completed=1)
                progress.add_task(text, total=None)
                if not console.is_terminal:
                    console.print(text)

            step("file system of the routers (built once, then cached)")
            with Lab([Path(name) for name in sys.argv[1:]]) as lab:
                step("boot two routers, each with a host in a LAN behind it")
                routers = lab.add_routers(["R1", "R2"])
                r1, r2 = routers
                here, there = Lan(r1), Lan(r2)
                step("commit the example on each, exchange identities, wait for the paths")
                connect(routers, MOST)
                for near, far in ((here, there), (there, here)):
                    near.router.must_configure(f"set interfaces zerotier zt0 remote {far.router.name} prefix {far.prefix}")
                here.reach(there.address)
                for instances in (1, 2, MOST):
                    step(f"{instances} instance(s): commit, wait, iperf3")
                    set_instances(routers, instances)
                    rows.append(measure(here, there, instances))
                    if paths_up(r1) != instances or min(rows[-1].shares.values()) <= 0:
                        failures.append(f"with {instances} instances not every path carried traffic")
                step("look for plaintext on the underlay")
                outside, inside = plaintext_seen(lab, r1, r2)
                step("how long a commit takes with 8 instances")
                grow, add = commit_times(routers)
                step("done")
                for task in progress.tasks:
                    progress.update(task.id, total=1, completed=1)
    except (LabError, OSError) as error:
        console.print(f"[red]demo: {reason(error)}[/red]", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    console.print(table(rows))
    if outside or not inside:
        failures.append("marked packets were readable on the underlay" if outside else "the marked packets were not found inside")
    console.print(
        f"plaintext on the underlay: {'SEEN' if outside else 'none'} (20 marked packets; inside the tunnel they show)",
        soft_wrap=True,
    )
    console.print(
        f"commit of 4 -> 8 instances: {grow:.2f} s, of one more prefix at 8: {add:.2f} s (whole run of ztsh, limit {limit:g} s)",
        soft_wrap=True,
    )
    if max(grow, add) > limit:
        failures.append(f"a commit took {max(grow, add):.2f} s")
    for failure in failures:
        console.print(f"[red]not held: {failure}[/red]")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
