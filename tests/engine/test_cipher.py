"""ztnode's own cipher against the core's, over a real link: one end has ``ZTNODE_CIPHER=core``, the other a version of ours."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.process import wait
from tests.engine.test_contract import Node, engine, hosts, pair  # noqa: F401 (fixtures)

pytestmark = pytest.mark.only_ztnode

FLAGS = Path("/proc/cpuinfo").read_text().split("flags")[1].split("\n")[0].split()
AMOUNT = 20_000_000  # bytes each way


def test_it_talks_to_the_core_alone(engine: str, pair: Callable[..., tuple[Node, Node]], tmp_path: Path) -> None:
    if not {"aes", "pclmulqdq"} <= set(FLAGS):
        pytest.skip("this CPU has no AES instructions, so the core's cipher is always used")
    untouched = tmp_path / "ztnode"
    untouched.write_text(f'#!/bin/sh\nZTNODE_CIPHER=core exec {shlex.quote(engine)} "$@"\n')
    untouched.chmod(0o755)
    a, b = pair(second=str(untouched))
    version = "vaes" if {"avx2", "vaes", "vpclmulqdq"} <= set(FLAGS) else "sse"
    for node, name in ((a, version), (b, "core")):
        assert f", AES by {name}\n" in (node.home.parent / f"{node.home.name}.log").read_text()
    for size in (0, 1, 15, 16, 17, 1365, 1366, 1367, 9000):
        assert " 0% packet loss" in a.host.run("ping", "-c", "1", "-W", "10", "-s", str(size), "10.14.0.2")
    for direction in ((), ("--reverse",)):
        server = subprocess.Popen(["ip", "netns", "exec", b.host.name, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        wait(lambda: ":5201" in b.host.run("ss", "-Hlnt"), timeout=5, what="iperf3 server")
        report = json.loads(a.host.run("iperf3", "-J", "-c", "10.14.0.2", "-n", str(AMOUNT), *direction))
        server.wait(timeout=10)
        assert report["end"]["sum_sent"]["bytes"] >= AMOUNT
    for host in (a.host, b.host):
        header, values = (line.split() for line in host.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:"))
        assert dict(zip(header, values, strict=True))["InCsumErrors"] == "0"
