"""A running configuration that an update of the definitions no longer allows: it can be shown, changed and committed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import SCHEMA
from ztsh import __main__ as program
from ztsh import places as where
from ztsh import showconfig
from ztsh.configuration import misfits, read_own, running
from ztsh.text import set_commands

ZT = "interfaces zerotier zt1"
OLD = """interfaces {
    zerotier zt1 {
        controller {
            api-key "T0P SECRET2"
            token "T0P"
        }
        disable "now"
        mtu "9900"
        network-id "8056c2e21c000001"
    }
}
"""
KEPT = f"""set {ZT} controller api-key 'T0P SECRET2'
set {ZT} mtu '9900'
set {ZT} network-id '8056c2e21c000001'
"""
MTU = "MTU must be auto or 1280 to 9890 bytes"


@pytest.fixture
def active(places: Path) -> Path:
    """The running configuration of an earlier version."""
    file = places / "run/active.boot"
    file.parent.mkdir()
    file.write_text(OLD)
    return file


def test_it_is_read_by_its_structure() -> None:
    left_out: list[str] = []
    config = read_own(OLD, SCHEMA, left_out)
    assert set_commands(config.tree, SCHEMA) == KEPT
    assert left_out == [f"{ZT} controller token ...", f"{ZT} disable ..."]
    told = misfits(config, SCHEMA)
    assert told[0].startswith(f"{ZT} controller api-key '****************': API key must be ")
    assert told[1:] == [f"{ZT} mtu '9900': {MTU}"]


def test_it_is_shown_with_a_warning(active: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert showconfig.show(["commands"]) == 0
    told = capsys.readouterr()
    assert told.out == KEPT
    assert f"Warning: {ZT} mtu '9900': {MTU}; set another value or delete it\n" in told.err
    assert f"Warning: {ZT} disable ...: no definition has this any more; the next commit forgets it\n" in told.err
    assert "T0P" not in told.err


@pytest.mark.parametrize("line", [f"delete {ZT} mtu", f"set {ZT} mtu 9000"])
def test_a_script_repairs_it(active: Path, tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"delete {ZT} controller api-key\n{line}\ncommit\nsave\n")
    assert program.main(["script", str(lines)]) == 0
    assert "9900" not in active.read_text() and "token" not in active.read_text()
    capsys.readouterr()
    assert showconfig.show([]) == 0
    assert capsys.readouterr().err == ""


def test_apply_repairs_it(active: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"delete {ZT} controller\nset {ZT} mtu 9000\n")
    assert program.main(["apply", str(lines)]) == 0
    assert misfits(running(SCHEMA), SCHEMA) == []
    assert "9900" not in where.boot_file().read_text()


def test_another_value_that_does_not_fit_is_refused_as_ever(
    active: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"set {ZT} mtu 9901\n")
    assert program.main(["script", str(lines)]) == 1
    assert MTU in capsys.readouterr().err
    assert active.read_text() == OLD
