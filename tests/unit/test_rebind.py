"""The addresses of a source interface go into the local.conf of a zerotier-one before it starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi import names, rebind
from zerotier_multi.cpu import Cpu
from zerotier_multi.plan import to_json
from zerotier_multi.planner import make_plan


def test_an_instance_starts_with_the_addresses_of_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXAMPLE + "instance 2 source-interface eth1"
    plan = make_plan(bundle(text), tuple(Cpu(n, n) for n in range(4)), "/usr/sbin/zerotier-one")
    plan = replace(plan, instances=tuple(replace(i, home=str(tmp_path)) for i in plan.instances))
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    (tmp_path / "zt0.json").write_text(to_json(plan))
    there = {"eth0": ("198.51.100.1",), "eth1": ("203.0.113.1",)}
    monkeypatch.setattr(rebind, "device_addresses", lambda: there)
    monkeypatch.setattr(rebind, "read_hosts", dict)
    conf = tmp_path / "local.conf"
    assert rebind.main("zt0-2") == 0
    assert json.loads(conf.read_text())["settings"]["bind"] == ["203.0.113.1"] and conf.stat().st_mode & 0o777 == 0o600
    there["eth1"] = ("203.0.113.9",)
    assert rebind.rebind("zt0", 2) and not rebind.rebind("zt0", 2)
    before = conf.read_text()
    assert json.loads(before)["settings"]["bind"] == ["203.0.113.9"]
    for unit, why in (("zt0-9", "zt0 has no instance 9"), ("zt1-1", "No such file"), ("zt0-x", "invalid literal")):
        assert rebind.main(unit) == 1
        assert f"{unit} keeps its previous listen addresses: " in (said := capsys.readouterr().err) and why in said
    assert conf.read_text() == before
