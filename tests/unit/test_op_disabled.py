"""What op mode tells of a bundle that is disabled: the same sentence, whatever is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from tests.unit.op_box import NOW
from zerotier_multi import names
from zerotier_multi.cpu import Cpu
from zerotier_multi.op import actions, api, monitor
from zerotier_multi.op.benchmark import drive
from zerotier_multi.op.errors import OpError
from zerotier_multi.op.flows import count_flows
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.plan import to_json
from zerotier_multi.planner import make_plan

PLAN = make_plan(bundle(EXAMPLE + "controller-free\ndisable"), (Cpu(0, 0),), "")
SEEN = Snapshot(NOW, plans=(PLAN,))
SENTENCE = "zt0 is disabled; delete interfaces zerotier zt0 disable first"


@pytest.fixture(autouse=True)
def router(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Has this plan, and nothing else of the bundle."""
    monkeypatch.setattr(names, "RUN_DIR", tmp_path)
    names.plan_file("zt0").write_text(to_json(PLAN))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(api, "_look", lambda _bundle: (SEEN, PLAN))
    monkeypatch.setattr(api, "read_diverted", lambda _plan, _links: [])
    monkeypatch.setattr(api.balances, "read_balance", lambda _seen, _plan: count_flows("sockets", [], [], False))


COMMANDS: dict[str, Callable[[], object]] = {
    "show instances": lambda: api.instances(False, "zt0"),
    "show paths": lambda: api.paths(False, "zt0"),
    "show routes": lambda: api.routes(False, "zt0"),
    "show balance": lambda: api.balance(False, "zt0"),
    "show remotes": lambda: api.remotes(False, "zt0"),
    "show identity": lambda: api.identities(False, "zt0", "R1"),
    "show invite": lambda: api.invite(False, "zt0", "R1"),
    "monitor": lambda: monitor.block(SEEN, PLAN, False).splitlines()[-1],
    "restart": lambda: actions.restart("zt0", None),
    "restart instance": lambda: actions.restart("zt0", "1"),
    "reset identity": lambda: actions.reset_identity("zt0", None, True),
    "benchmark": lambda: drive.measure("zt0", "R2"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_that_it_is_disabled_is_said(command: Callable[[], object]) -> None:
    try:
        told = command()
    except OpError as error:
        told = f"{error}."
    assert told == f"{SENTENCE}."


def test_as_data_it_has_nothing() -> None:
    """Programs that read it, as the Ansible role does, see an empty list."""
    for answer, key in (
        (api.paths(True, "zt0"), "paths"),
        (api.routes(True, "zt0"), "routes"),
        (api.remotes(True, "zt0"), "remotes"),
        (api.identities(True, "zt0", "R1"), "instances"),
    ):
        assert isinstance(answer, dict) and answer[key] == []
