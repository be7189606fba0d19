"""What docs/fleet.md prints: requests to VyOS's HTTP API are such as our definitions take, and the program works."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.configuration import ROOT, SCHEMA, given
from zerotier_multi.bundle_parser import parse_bundle
from zerotier_multi.checks import check_bundle
from zerotier_multi.cpu import Cpu
from zerotier_multi.op.identity import identity_commands
from ztsh.opschema import load_op_schema, resolve
from ztsh.session import Session

PAGE = (ROOT / "docs/fleet.md").read_text()
CPUS = tuple(Cpu(n, n) for n in range(4))
REQUESTS = [(where, json.loads(body)) for where, body in re.findall(r"^vyos ([a-z-]+) '([^']*)'$", PAGE, re.MULTILINE | re.DOTALL)]


def configured(*requests: list[dict[str, Any]]) -> Session:
    """A candidate after requests to ``/configure``."""
    made = Session(SCHEMA)
    made.candidate = {}
    for command in (command for request in requests for command in request):
        assert set(command) == {"op", "path"}
        if command["op"] == "set":
            made.set(command["path"])
        else:
            assert command == {"op": "delete", "path": ["interfaces", "zerotier", "zt0"]}
    return made


def demand_sound(made: Session) -> None:
    assert check_bundle(parse_bundle("zt0", given(made)["zt0"]), CPUS) == []


def test_there_is_one_request_of_each_kind() -> None:
    assert [where for where, _body in REQUESTS] == ["show", "configure", "config-file"]
    assert REQUESTS[2][1] == {"op": "save"}


def test_the_shown_command_of_op_mode_exists() -> None:
    resolved = resolve(load_op_schema([ROOT / "op-mode-definitions"]), ["show", *REQUESTS[0][1]["path"]])
    assert REQUESTS[0][1]["op"] == "show" and resolved.wrong is None and resolved.node.command


def test_the_configuration_is_one_that_can_be_committed() -> None:
    demand_sound(configured(REQUESTS[1][1]))


def test_the_program_makes_two_routers_known_to_one_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert program
    asked: dict[str, list[dict[str, Any]]] = {}
    saved: list[str] = []

    class Device:
        """A router behind the API: it shows what ours shows, and takes down what it is told."""

        def __init__(self, host: str, key: str, timeout: int) -> None:
            assert key == "the key"
            self.host = host

        def show(self, path: list[str]) -> SimpleNamespace:
            assert path[:3] == ["zerotier", "zt0", "identity"]
            number = int(self.host[1])
            entry = {
                "instance": 1,
                "identity": f"{number:010x}:0:{number:0128x}",
                "endpoints": [f"[2001:db8::{number}]:9993"],
                "answers": False,
                "left_out": [],
            }
            return SimpleNamespace(result=identity_commands({"bundle": "zt0", "instances": [entry]}, path[4]))

        def configure_multiple_op(self, commands: list[dict[str, Any]]) -> SimpleNamespace:
            asked[self.host] = commands
            return SimpleNamespace(status=200, error="")

        def config_file_save(self) -> None:
            saved.append(self.host)

    library = ModuleType("pyvyos")
    library.VyDevice = Device  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyvyos", library)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "api.key").write_text("the key\n")
    exec(program[1], {})
    assert saved == list(asked) == ["r1.example.net", "r2.example.net"]
    made = configured(REQUESTS[1][1], asked["r1.example.net"])
    demand_sound(made)
    remote = made.candidate["interfaces"]["zerotier"]["zt0"]["remote"]
    assert remote == {
        "R2": {
            "site": ["2"],
            "prefix": ["10.0.55.2/32"],
            "instance": {"1": {"identity": [f"{2:010x}:0:{2:0128x}"], "endpoint": ["[2001:db8::2]:9993"]}},
        }
    }
