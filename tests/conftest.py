"""Shared by all tests: sessions of ztsh never touch the machine's own configuration; CI skips nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_places(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    places = tmp_path_factory.mktemp("ztsh")
    root = Path(__file__).resolve().parent.parent
    patch.setenv("ZTSH_RUN", str(places / "run"))
    patch.setenv("ZTSH_CONFIG", str(places / "config"))
    patch.setenv("ZTSH_DEFINITIONS", str(root / "interface-definitions"))
    patch.setenv("ZTSH_CONF_SCRIPTS", str(root / "src/conf_mode"))
    yield
    patch.undo()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of CI that skips what it should test has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("CI: a test that is skipped is a failure; install what it needs", red=True)
