"""``unshare --net python3 -m tests.monitoring.scrape WORK EXPRESSIONS``: what a real Prometheus answers.

In a network namespace of its own, so that its ports are free: our metrics writer fills a file as the daemon does,
node_exporter serves it, Prometheus scrapes that. Every expression of the file EXPRESSIONS (a JSON list) is asked until it
has an answer; standard output is a JSON object of expression -> answer, empty where none came in time, or the error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from zerotier_multi.files import write_atomic
from zerotier_multi.pathd.tell.metrics import COUNTERS, render

PATIENCE = 60.0  # seconds until an expression without an answer has none
EXPORTER, PROMETHEUS = "127.0.0.1:9100", "127.0.0.1:9090"


def status(tick: int) -> dict[str, Any]:
    """The daemon's status with four paths of two instances, whose counters grow."""
    paths = [
        {
            "remote": remote, "instance": number, "family": 4, "device": f"zt0p{number}", "state": "up" if (remote, number) != ("R3", 2) else "down",
            "rtt_ms": 1.5, "loss": 0.01, "passes": 1374, "changes": tick, "falls": tick, "weight": 32, "backup": number == 2,
        }
        for remote in ("R2", "R3") for number in (1, 2)
    ]  # fmt: skip
    instances = [
        {"instance": number, "device": f"zt0p{number}", "device_present": True, "revivals": tick, "load": 0.5} for number in (1, 2)
    ]
    return {
        "started": 1_700_000_000,
        "problems": ["one"],
        "configured": {"zt0": True},
        "bundles": {"zt0": {"paths": paths, "instances": instances, "unrouted": []}},
    }


def counters(tick: int) -> dict[str, dict[str, int]]:
    """Counters of the devices."""
    return {f"zt0p{number}": {name: 10_000 * number * (tick + 1) for name in COUNTERS} for number in (1, 2)}


class Writer:
    """Writes the file as the daemon renders it, once per call; the counters are invented, because the devices are not here."""

    def __init__(self, file: Path) -> None:
        self._tick, self._file = 0, file

    def write(self) -> None:
        self._tick += 1
        write_atomic(self._file, render(status(self._tick), counters(self._tick)).encode())


def ask(expression: str) -> list[Any] | str:
    """The samples that an expression has now, or Prometheus' word on what is wrong with it."""
    query = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://{PROMETHEUS}/api/v1/query?{query}", timeout=10) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]
    except OSError:
        return []  # it is not there yet


def main(work: Path, expressions: list[str]) -> dict[str, list[Any] | str]:
    """Runs it all, ends what it has started, and returns the answers."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    textfiles = work / "textfiles"
    textfiles.mkdir()
    file = textfiles / "zerotier-multi.prom"
    (work / "prometheus.yml").write_text(json.dumps({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
        "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [EXPORTER]}]}],
    }))  # fmt: skip
    commands = [
        [
            "prometheus-node-exporter", f"--web.listen-address={EXPORTER}", "--collector.disable-defaults", "--collector.time", "--collector.textfile",
            f"--collector.textfile.directory={textfiles}",
        ],
        [
            "prometheus", f"--web.listen-address={PROMETHEUS}", f"--config.file={work / 'prometheus.yml'}", f"--storage.tsdb.path={work / 'data'}",
        ],
    ]  # fmt: skip
    answers: dict[str, list[Any] | str] = {expression: [] for expression in expressions}
    writer, end = Writer(file), time.monotonic() + PATIENCE
    writer.write()
    with (work / "log").open("wb") as log:
        started = [subprocess.Popen(command, stdout=log, stderr=log) for command in commands]
        try:
            while (left := [one for one, answer in answers.items() if not answer]) and time.monotonic() < end:
                if any(process.poll() is not None for process in started):
                    break
                time.sleep(0.3)  # between two questions; each sees what was scraped by then
                writer.write()
                answers |= {expression: ask(expression) for expression in left}
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    return answers


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))))
