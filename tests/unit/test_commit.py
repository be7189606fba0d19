"""A commit that the router cannot follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.op_box import PLAN
from zerotier_multi import commit, names, systemd
from zerotier_multi.pathd.control import PathdError
from zerotier_multi.plan import Plan, to_json

SILENT = "zerotier-pathd does not answer (TimeoutError); see: journalctl -u zerotier-pathd.service"


@pytest.mark.parametrize("wanted", [replace(PLAN, mtu=1300), None], ids=["changed", "deleted"])
@pytest.mark.parametrize("before", [PLAN, None], ids=["there", "new"])
@pytest.mark.parametrize("fault", [PathdError(SILENT), systemd.SystemdError("systemctl start: failed")])
def test_the_plan_before_it_comes_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Exception, before: Plan | None, wanted: Plan | None
) -> None:
    """It is not configured, so nothing may be published that no later commit takes away; and no process was touched."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    path = names.plan_file("zt0")
    if before:
        path.write_text(to_json(before))
    seen: list[bool] = []
    done: list[str] = []

    def systemctl(*words: str, **_options: bool) -> str:
        done.append(words[0])
        if words[0] == "start" and isinstance(fault, systemd.SystemdError):
            raise fault
        return ""

    def ask(_request: object) -> dict[str, object]:
        seen.append(path.exists())
        raise fault

    monkeypatch.setattr(systemd, "systemctl", systemctl)
    monkeypatch.setattr(systemd, "loaded_instances", lambda _bundle: [])
    monkeypatch.setattr(commit, "ask", ask)
    with pytest.raises(commit.CommitError, match=r"^interfaces zerotier zt0: (zerotier-pathd does not answer|systemctl start)"):
        commit.apply(commit.Change("zt0", wanted))
    assert seen == ([wanted is not None] if isinstance(fault, PathdError) else [])
    assert (path.read_text() if path.exists() else None) == (to_json(before) if before else None)
    assert done == ["start", "kill"], "one that is only late reads what came back"


@pytest.mark.parametrize(("change", "left"), [
    (commit.Change("zt0", PLAN), "a key"),
    (commit.Change("zt0", PLAN, api_key="another"), "another"),
    (commit.Change("zt0", PLAN, api_key=None), None),
    (commit.Change("zt0", None), None),
], ids=["plan alone", "other key", "no controller", "deleted"])  # fmt: skip
def test_who_has_a_plan_alone_leaves_the_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: commit.Change, left: str | None
) -> None:
    """Op mode starts instances anew by their plan, which has no secret."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    monkeypatch.setattr(systemd, "systemctl", lambda *_words, **_options: "")
    monkeypatch.setattr(commit, "ask", lambda _request: {})
    commit._publish_key("zt0", "a key")
    commit._follow(change)
    key = names.controller_key("zt0")
    assert (key.read_text() if key.exists() else None) == left
