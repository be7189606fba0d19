"""The file for node_exporter: its text, and when it is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.unit.loop import Loop
from tests.unit.op_box import PLAN
from zerotier_multi import names
from zerotier_multi.pathd.daemon import Daemon
from zerotier_multi.pathd.plans import Plans
from zerotier_multi.pathd.status import Look
from zerotier_multi.pathd.tell.metrics import LEAST, MOST, MetricsFile, read_counters, render
from zerotier_multi.plan import to_json


def path(**changes: Any) -> dict[str, Any]:
    known = {
        "remote": "R2",
        "instance": 1,
        "family": 4,
        "device": "zt0p1",
        "state": "up",
        "changes": 3,
        "falls": 1,
        "weight": 32,
        "backup": False,
    }
    return {**known, "rtt_ms": 1.5, "loss": 0.25, "passes": None, **changes}


def status(*paths: dict[str, Any], **changes: Any) -> dict[str, Any]:
    instance = {"instance": 1, "device": "zt0p1", "device_present": True, "revivals": 2, "load": 0.5}
    bundle = {"paths": list(paths), "instances": [instance], "unrouted": [{"prefix": "192.0.2.0/24", "why": "no route"}]}
    known = {"started": 1_700_000_000, "problems": [], "configured": {"zt0": True, "zt1": False}, "bundles": {"zt0": bundle}}
    return {**known, **changes}


COUNTERS = {"zt0p1": {"rx_bytes": 10**15 + 1, "tx_bytes": 2, "rx_packets": 3, "tx_packets": 4}}
LABELS = 'bundle="zt0",remote="R2",instance="1",family="4",device="zt0p1"'
DEVICE = 'bundle="zt0",instance="1",device="zt0p1"'


def test_every_metric_with_its_labels() -> None:
    lines = render(status(path(), problems=["x"]), COUNTERS).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f"zerotier_multi_path_up{{{LABELS}}} 1",
        f"zerotier_multi_path_in_use{{{LABELS}}} 1",
        f"zerotier_multi_path_backup{{{LABELS}}} 0",
        f"zerotier_multi_path_rtt_seconds{{{LABELS}}} 0.0015",
        f"zerotier_multi_path_loss_ratio{{{LABELS}}} 0.25",
        f"zerotier_multi_path_changes_total{{{LABELS}}} 3",
        f"zerotier_multi_path_falls_total{{{LABELS}}} 1",
        f"zerotier_multi_path_weight{{{LABELS}}} 32",
        'zerotier_multi_bundle_configured{bundle="zt0"} 1',
        'zerotier_multi_bundle_configured{bundle="zt1"} 0',
        'zerotier_multi_bundle_paths{bundle="zt0"} 1',
        'zerotier_multi_bundle_paths_up{bundle="zt0"} 1',
        'zerotier_multi_bundle_prefixes_unrouted{bundle="zt0"} 1',
        f"zerotier_multi_instance_device_present{{{DEVICE}}} 1",
        f"zerotier_multi_instance_load_ratio{{{DEVICE}}} 0.5",
        f"zerotier_multi_instance_revivals_total{{{DEVICE}}} 2",
        f"zerotier_multi_device_receive_bytes_total{{{DEVICE}}} 1000000000000001",
        f"zerotier_multi_device_transmit_bytes_total{{{DEVICE}}} 2",
        f"zerotier_multi_device_receive_packets_total{{{DEVICE}}} 3",
        f"zerotier_multi_device_transmit_packets_total{{{DEVICE}}} 4",
        "zerotier_multi_pathd_start_time_seconds 1700000000",
        "zerotier_multi_problems 1",
    ]
    for name in {line.partition("{")[0].partition(" ")[0] for line in lines if not line.startswith("#")}:
        kind = "counter" if name.endswith("_total") else "gauge"
        assert lines.count(f"# TYPE {name} {kind}") == 1
        assert sum(line.startswith(f"# HELP {name} ") for line in lines) == 1


def test_a_backup_at_rest_is_up_and_not_in_use() -> None:
    text = render(status(path(state="backup", backup=True)), {})
    assert [
        f"zerotier_multi_path_{name}{{{LABELS}}} {value}\n" in text for name, value in (("up", 1), ("in_use", 0), ("backup", 1))
    ] == [True] * 3


def test_what_passes_is_a_value_of_paths_that_answer() -> None:
    for state, there in (("up", True), ("narrow", True), ("down", False)):
        assert ("path_passes_bytes" in render(status(path(state=state, passes=1374)), {})) == there
    assert f"zerotier_multi_path_passes_bytes{{{LABELS}}} 0\n" in render(status(path(passes=0)), {})


def test_what_is_not_known_is_left_out() -> None:
    text = render(status(path(state="down", rtt_ms=None, loss=None)), {})
    assert f"zerotier_multi_path_up{{{LABELS}}} 0\n" in text
    assert "rtt" not in text and "loss" not in text and "_bytes_" not in text
    bare = render({"started": 5, "problems": [], "configured": {}, "bundles": {}}, {}).splitlines()
    assert [line for line in bare if not line.startswith("#")] == [
        "zerotier_multi_pathd_start_time_seconds 5",
        "zerotier_multi_problems 0",
    ]


def test_labels_are_escaped() -> None:
    assert r'remote="a\"b\\c\nd"' in render(status(path(remote='a"b\\c\nd')), {})


def test_counters_are_those_of_the_devices_that_are_there(tmp_path: Path) -> None:
    statistics = tmp_path / "zt0p1/statistics"
    statistics.mkdir(parents=True)
    for number, name in enumerate(("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")):
        (statistics / name).write_text(f"{number}\n")
    assert read_counters(["zt0p1", "zt0p2"], tmp_path) == {
        "zt0p1": {"rx_bytes": 0, "tx_bytes": 1, "rx_packets": 2, "tx_packets": 3}
    }


def test_the_file_is_written_seldom(tmp_path: Path) -> None:
    loop, asked = Loop(1000.0), []

    def look() -> dict[str, Any]:
        asked.append(loop.now)
        return status(path())

    file = MetricsFile(loop, look, tmp_path / "metrics.prom")
    for second in range(200):
        loop.now = 1000.0 + second
        if second in (0, 70, 71, 100):
            file.change()
        loop.turn()
    # A change is written LEAST after the writing before it, everything else MOST after it.
    assert (LEAST, MOST) == (15, 60) and [at - 1000 for at in asked] == [0, 60, 75, 100, 160]


def test_the_file_is_for_everybody_and_its_age_tells_that_the_daemon_lives(tmp_path: Path) -> None:
    loop, target = Loop(1000.0), tmp_path / "metrics.prom"
    file = MetricsFile(loop, lambda: status(path()), target)
    file.change()
    before = os.umask(0o077)
    try:
        loop.turn()
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o644 and os.listdir(tmp_path) == ["metrics.prom"]
    os.utime(target, (1, 1))
    loop.now += MOST
    loop.turn()
    assert target.stat().st_mtime > 1


def test_the_last_bundle_is_gone_from_the_file_before_the_daemon_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is left would say for ever that its paths are down."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    loop, target, plans = Loop(1000.0), tmp_path / "metrics.prom", Plans(tmp_path)
    names.plan_file("zt0").write_text(to_json(PLAN))
    now = {"bundles": {"zt0": status(path(state="drained"))["bundles"]["zt0"]}}
    file = MetricsFile(loop, lambda: status(configured=plans.configured, **now), target)
    daemon = MagicMock(_plans=plans, _metrics=file, _look=Look())
    Daemon.sync(daemon)
    loop.turn()
    assert 'zerotier_multi_bundle_paths_up{bundle="zt0"} 0' in target.read_text()
    names.plan_file("zt0").unlink()
    daemon.reconcile = lambda: now.update(bundles={})
    Daemon.sync(daemon)
    told = [line for line in target.read_text().splitlines() if line.startswith("zerotier_multi_bundle")]
    assert told == ['zerotier_multi_bundle_configured{bundle="zt0"} 0']


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop(1000.0)
    MetricsFile(loop, lambda: status(path()), tmp_path / "none/metrics.prom").change()
    for _ in range(3):
        loop.turn()
        loop.now += MOST
    assert [record.levelname for record in caplog.records] == ["WARNING"]
