"""Dashboard and alerts: every expression names metrics that exist, and a real Prometheus answers it from our metrics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from zerotier_multi.pathd.tell.metrics import render

from tests.monitoring.scrape import counters, status

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "packages/zerotier-multi/monitoring"
DASHBOARD, ALERTS, ALERTS_TEST = HERE / "dashboard.json", HERE / "alerts.yml", Path(__file__).with_name("alerts_test.yml")
# As `make test` has put them there, or as they are installed.
PROGRAMS = os.pathsep.join([str(ROOT / "build/prometheus/usr/bin"), os.environ["PATH"]])
EXPOSED = render(status(1), counters(1))
METRICS = {line.partition("{")[0].partition(" ")[0] for line in EXPOSED.splitlines() if not line.startswith("#")}
OTHERS = {"node_textfile_mtime_seconds", "node_time_seconds"}  # node_exporter's own
LABELS = set(re.findall(r'[{,](\w+)="', EXPOSED)) | {"instance", "file"}


def queries(panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(title of the panel, expression), with the dashboard's variables as their "All" is."""
    for panel in panels:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$router", ".*").replace("$bundle", ".*")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text())


def alerts() -> dict[str, str]:
    """Name -> expression."""
    return dict(re.findall(r"- alert: (\w+)\n\s+expr: (.+)", ALERTS.read_text()))


def promtool(*arguments: str) -> str:
    result = subprocess.run(["promtool", *arguments], env={**os.environ, "PATH": PROGRAMS}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_metric_named_exists_and_every_metric_is_shown(dashboard: dict[str, Any]) -> None:
    shown = {name for _, expression in queries(dashboard["panels"]) for name in re.findall(r"\b(?:zerotier|node)_\w+", expression)}
    assert shown - OTHERS == METRICS
    assert {
        name for expression in alerts().values() for name in re.findall(r"\b(?:zerotier|node)_\w+", expression)
    } <= METRICS | OTHERS
    used = {
        name
        for text in (DASHBOARD.read_text(), ALERTS.read_text())
        for name in re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", text)
    }
    assert len(used) > 3 and used <= LABELS | {"value"}


def test_panels_do_not_overlap_and_say_what_they_show(dashboard: dict[str, Any]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and (panel["type"] == "row" or panel["description"])
        for cell in (
            (x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
        ):
            assert taken.setdefault(cell, panel["title"]) == panel["title"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_a_real_prometheus_answers_every_expression(dashboard: dict[str, Any], tmp_path: Path) -> None:
    asked = list(dict.fromkeys(expression for _, expression in queries(dashboard["panels"])))
    variables = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    of_variables = dict(re.findall(r"label_values\((.+), (\w+)\)", "\n".join(variables)))
    asked += [selector.replace("$router", ".*") for selector in of_variables]
    (tmp_path / "expressions").write_text(json.dumps(asked))
    command = ["unshare", "--net", sys.executable, "-m", "tests.monitoring.scrape", str(tmp_path), str(tmp_path / "expressions")]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": PROGRAMS}, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    answers = json.loads(result.stdout)
    missing = {expression: answer for expression, answer in answers.items() if not isinstance(answer, list) or not answer}
    assert not missing, f"{missing}\n{(tmp_path / 'log').read_text()[-2000:]}"
    for selector, label in of_variables.items():
        assert all(label in sample["metric"] for sample in answers[selector.replace("$router", ".*")])
    answer = {title: answers[expression] for title, expression in queries(dashboard["panels"])}  # of each panel's last expression
    assert [answer[title][0]["value"][1] for title in ("Paths that are down", "Paths that are up", "Problems")] == ["1", "4", "1"]
    assert float(answer["Evenness"][0]["value"][1]) == pytest.approx(4 / 3)
    # What Prometheus calls an instance is the router; ours has another name there (docs/monitoring.md).
    assert {(one["metric"]["instance"], one["metric"]["exported_instance"]) for one in answer["Paths"]} == {
        ("127.0.0.1:9100", "1"), ("127.0.0.1:9100", "2"),
    }  # fmt: skip
    used = {
        name
        for panel in dashboard["panels"]
        for one in panel.get("targets", [])
        for name in re.findall(r"\{\{(\w+)\}\}", one["legendFormat"])
    }
    assert used <= {name for answer in answers.values() for sample in answer for name in sample["metric"]}


def test_the_alerts_are_rules_that_fire_when_they_should() -> None:
    assert f"{len(alerts())} rules found" in promtool("check", "rules", str(ALERTS))
    assert "SUCCESS" in promtool("test", "rules", str(ALERTS_TEST))


def test_every_alert_is_tried_both_ways() -> None:
    text = ALERTS_TEST.read_text()
    quiet = set(re.findall(r"alertname: (\w+), exp_alerts: \[\]", text))
    fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n\s+- exp_labels", text))
    assert quiet == fired == set(alerts()) and len(fired) > 8


def test_every_rule_says_what_to_do() -> None:
    rules = ALERTS.read_text().split("- alert: ")[1:]
    assert all(
        re.search(r"severity: (critical|warning|info)", rule) and "summary:" in rule and "description:" in rule for rule in rules
    )
