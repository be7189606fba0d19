"""What is told about a configuration that does not fit: no secret is in it, wherever it is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.configuration import SCHEMA
from tests.unit.test_configured_identity import secret
from ztsh import __main__ as program
from ztsh import places as where
from ztsh.bootreport import boot_warning
from ztsh.configuration import read_config
from ztsh.errors import SessionError

SECRET = "T0P"
ZT = "interfaces zerotier zt0"
MASK = "*" * 16
UNKNOWN = "Configuration path: [{0}] is not valid"
API_KEY = "API key must be 1 to 1024 printable characters without spaces"

# Lines below interfaces zerotier zt0, and what is told of them. A name that is not there hides all behind it.
LINES = [
    (f'controller {{\napi-key "{SECRET} SECRET2"\n}}', 4, f"set {ZT} controller api-key '{MASK}': {API_KEY}"),
    (f'controller {{\napi-key {SECRET}\x01\n}}', 4, f"set {ZT} controller api-key '{MASK}': {API_KEY}"),
    (f'controller {{\napikey "{SECRET}"\n}}', 4, f"set {ZT} controller apikey ...: {UNKNOWN.format(f'{ZT} controller apikey ...')}"),
    (f'controller-box {{\napi-key "{SECRET}"\n}}', 4, f"set {ZT} controller-box ...: {UNKNOWN.format(f'{ZT} controller-box ...')}"),
    (f'controller "{SECRET}"', 3, f"set {ZT} controller ...: {UNKNOWN.format(f'{ZT} controller ...')}"),
    (f'disable "{SECRET}"', 3, f"set {ZT} disable ...: {UNKNOWN.format(f'{ZT} disable ...')}"),
    ("foo {\n}", 4, f"set {ZT} foo: {UNKNOWN.format(f'{ZT} foo')}"),
    (f'controller {{\napi-key {SECRET} {{\nx 1\n}}\n}}', 5,
     f"set {ZT} controller api-key '{MASK}' ...: {UNKNOWN.format(f'{ZT} controller api-key {MASK} ...')}"),
    (f'remote R2 {{\ninstance 1 {{\nidentity "{secret(2)}"\n}}\n}}', 5,
     f"set {ZT} remote R2 instance 1 identity '{secret(2)[:141]}:{MASK}': "
     "Give the public identity, as 'show zerotier ztN identity' prints it there"),
    ("controller {\napi-key\n}", 4, f"set {ZT} controller api-key: Configuration path: [{ZT} controller api-key] requires a value"),
    ('mtu "9"', 3, f"set {ZT} mtu '9': MTU must be auto or 1280 to 9890 bytes"),
]  # fmt: skip


def text(lines: str) -> str:
    return f"interfaces {{\nzerotier zt0 {{\n{lines}\ndescription ok\n}}\n}}\n"


@pytest.mark.parametrize(("lines", "number", "told"), LINES)
def test_what_boot_refuses_is_told_without_secrets(
    places: Path, lines: str, number: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Boot's standard error is the journal and the console."""
    where.boot_file().write_text(text(lines))
    assert program.main(["boot"]) == 1
    shown = capsys.readouterr().err
    first, copied = shown.splitlines()
    assert first == f"configuration at boot: line {number}: {told}" and copied.endswith("config.boot.at-boot")
    assert boot_warning().splitlines()[0] == f"Warning: at boot: line {number}: {told}"
    assert SECRET not in shown + boot_warning()
    assert SECRET not in where.active_file().read_text()


@pytest.mark.parametrize("line", [f"api-key {SECRET} x", f'api-key "{SECRET}'])
def test_what_cannot_be_read_is_told_without_it(places: Path, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    where.boot_file().write_text(text(f"controller {{\n{line}\n}}"))
    assert program.main(["boot"]) == 1
    shown = capsys.readouterr().err
    assert "line 4: " in shown and SECRET not in shown + boot_warning()


@pytest.mark.parametrize(("lines", "number", "told"), LINES)
def test_the_reason_of_a_refused_text_has_no_secret(lines: str, number: int, told: str) -> None:
    """The rollback of commit-confirm writes it on all terminals. Who loads a text sees what is wrong in it, but no secret."""
    with pytest.raises(SessionError) as refused:
        read_config(text(lines), SCHEMA)
    assert refused.value.reason == f"line {number}: {told.partition(': ')[0]}"
    if MASK in told:
        assert SECRET not in str(refused.value) and secret(2)[142:] not in str(refused.value)
