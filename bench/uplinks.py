"""``make bench-uplinks``: what two uneven WANs carry together, between hosts behind the routers, by ``balance weights``.

R1 has a WAN of 300 Mbit/s with instances 1 and 2 and one of 100 Mbit/s with 3 and 4, each with a queue of 40 ms; R2 has one
WAN without a limit. 32 TCP flows go one way or the other. "greedy" flows take all that they get; so they fill both WANs
however they are spread. Of the others each wants 1/32 of 95 % of what both WANs carry, so that the slow one has too
many until some are moved. The limit is what each WAN carries alone, added up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from lab import Lab
from lab.lan import Lan
from lab.process import LabError
from lab.scenario import member_bytes, shares, wait_paths
from lab.uplinks import ZT, Site, two_uplinks

RATES, FLOWS = (300, 100), 32
ALONE, LAST = 6, 10  # seconds: of a measurement of one WAN alone, and of the end of a run that counts
TOTAL, LIMIT = 0.95, 0.90


def iperf(here: Lan, there: Lan, seconds: int, per_flow_mbit: float = 0) -> list[float]:
    """Mbit/s received in each second, from ``here`` to ``there``."""
    server = there.popen(["iperf3", "-s", "-1", "-J", "-i", "1"])
    there.listens(5201)
    rate = ["-b", f"{per_flow_mbit:.2f}M"] if per_flow_mbit else []
    client = here.popen(["iperf3", "-c", there.address, "-P", str(FLOWS), "-t", str(seconds), "-i", "0", *rate])
    try:
        text, _ = server.communicate(timeout=seconds + 60)
    finally:
        for process in (client, server):
            process.kill()
            process.wait()
    report = json.loads(text)
    if not report.get("intervals"):
        raise LabError(f"iperf3: {report.get('error', text[-200:])}")
    return [interval["sum"]["bits_per_second"] / 1e6 for interval in report["intervals"]]


def alone(site: Site, number: int, here: Lan, there: Lan) -> float:
    """Mbit/s of WAN ``number`` alone."""
    other = site.wans[2 - number]
    other.cut()
    try:
        wait_paths(site.routers, 2, timeout=30)
        return statistics.median(iperf(here, there, ALONE)[2:])
    finally:
        other.repair()
        wait_paths(site.routers, 4, timeout=90)


def main(arguments: Sequence[str]) -> int:
    """Measure, print; 0 only when measured weights reach the limit everywhere."""
    parser = argparse.ArgumentParser(prog="bench.uplinks")
    parser.add_argument("debs", nargs="+")
    parser.add_argument("--engine", default="ztnode")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--weights", nargs="*", default=["static", "auto"])
    parser.add_argument("--flows", nargs="*", default=["greedy", "moderate"])
    parser.add_argument("--ways", nargs="*", default=["from R1", "to R1"])
    options = parser.parse_args(arguments)
    console = Console(width=110)
    title = f"WANs of {RATES[0]} and {RATES[1]} Mbit/s, {FLOWS} TCP flows between hosts, {options.engine}; Mbit/s received"
    table = Table(title=title)
    for heading in ("way", "flows", "weights", "alone", "together", "of the sum", "WAN 2 has", "first 10 s"):
        table.add_column(heading, justify="right", no_wrap=True)
    good = True
    with Lab(options.debs) as lab, two_uplinks(lab, options.engine, rates=RATES) as site:
        here, there = site.lans
        for way in options.ways:
            ends = (here, there) if way == "from R1" else (there, here)
            first, second = (alone(site, number, *ends) for number in (1, 2))
            for weights in options.weights:
                for router in site.routers:
                    router.must_configure(f"{ZT} balance weights {weights}")
                for flows in options.flows:
                    before = member_bytes(ends[0].router)
                    wanted = TOTAL * (first + second) / FLOWS if flows == "moderate" else 0
                    rates = iperf(*ends, options.seconds, wanted)
                    parts = shares(before, member_bytes(ends[0].router))
                    together = statistics.mean(rates[-LAST:])
                    ratio = together / (first + second)
                    good &= weights == "static" or ratio >= LIMIT
                    table.add_row(
                        way, flows, weights, f"{first:.0f} + {second:.0f}", f"{together:.0f}", f"{ratio:.0%}",
                        f"{parts['zt0p3'] + parts['zt0p4']:.0%}", f"{statistics.mean(rates[:10]) / (first + second):.0%}",
                    )  # fmt: skip
                    console.print(f"{way}, {flows}, {weights}: {ratio:.0%}", highlight=False)
                for router in site.routers:
                    router.must_configure(f"{ZT} balance weights static")
    console.print(table)
    console.print(f"limit with measured weights: {LIMIT:.0%} of the sum: {'held' if good else 'NOT HELD'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
