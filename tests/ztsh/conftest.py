"""A router's places in a directory of the test: sessions, commits and the archive without touching this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import ROOT, SCHEMA

SCRIPT = '''
import os
from pathlib import Path
from vyos import ConfigError
from vyos.config import Config

LOG = Path(os.environ["ZTSH_TEST_LOG"])

def get_config(config=None):
    conf = config or Config()
    name = os.environ["VYOS_TAGNODE_VALUE"]
    path = ["interfaces", "zerotier", name]
    return name, conf.exists(path), conf.return_value([*path, "description"])

def verify(got):
    if got[2] == "refuse me":
        raise ConfigError("this description is refused")

def generate(got):
    pass

def apply(got):
    if got[2] == "kill me":
        os.kill(os.getpid(), 9)
    if got[2] == "break me":
        raise ConfigError("this description breaks while it is applied")
    with LOG.open("a") as log:
        log.write(f"{got[0]} {'set' if got[1] else 'gone'} {got[2]}\\n")
'''


OP_DEFINITIONS = """<interfaceDefinition>
  <node name="show">
    <children>
      <tagNode name="word">
        <properties><help>Print a word</help></properties>
        <command>echo "word $3"</command>
      </tagNode>
      <leafNode name="input">
        <properties><help>Print a line of the standard input</help></properties>
        <command>read -r line; echo "read [$line]"</command>
      </leafNode>
      <leafNode name="failure">
        <properties><help>Fail</help></properties>
        <command>echo broken &gt;&amp;2; false</command>
      </leafNode>
    </children>
  </node>
</interfaceDefinition>
"""


@pytest.fixture
def words(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``places``, with commands of op mode that need no router, and the program that a shell calls for them."""
    (places / "op").mkdir()
    (places / "op/words.xml").write_text(OP_DEFINITIONS)
    (places / "ztsh").write_text('#!/bin/sh\nexec /usr/bin/python3 -m ztsh "$@"\n')
    (places / "ztsh").chmod(0o755)
    monkeypatch.setenv("ZTSH_OP_DEFINITIONS", str(places / "op"))
    monkeypatch.setenv("ZTSH_PROGRAM", str(places / "ztsh"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/packages/ztsh:{ROOT}/python")
    return places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory; a conf script in it writes what it is given to ``log``."""
    conf_mode = tmp_path / "conf_mode"
    conf_mode.mkdir()
    (conf_mode / "interfaces_zerotier.py").write_text(SCRIPT)
    (tmp_path / "config").mkdir()
    (tmp_path / "log").touch()
    monkeypatch.setenv("ZTSH_DEFINITIONS", str(ROOT / "interface-definitions"))
    # In the package the version of the syntax lies beside the definitions.
    monkeypatch.setitem(SCHEMA.versions, "zerotier", "1")
    monkeypatch.setenv("ZTSH_OP_DEFINITIONS", f"{ROOT}/packages/ztsh/op-mode-definitions:{ROOT}/op-mode-definitions")
    monkeypatch.setenv("ZTSH_CONF_SCRIPTS", str(conf_mode))
    monkeypatch.setenv("ZTSH_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("ZTSH_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("ZTSH_TEST_LOG", str(tmp_path / "log"))
    from ztsh import scripts

    monkeypatch.setattr(scripts, "_modules", {})
    return tmp_path
