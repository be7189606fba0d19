"""Shared by all tests: sessions of ztsh never touch the machine's own configuration; CI skips nothing.

What only ztnode does (docs/engine.md names it) is marked ``only_ztnode`` and is no test of another engine: with
``ENGINE=zerotier-one`` it is not collected, and the head of the run says how many that are. So it is with tests of both
engines side by side (``both_engines``) where this machine has no zerotier-one.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

_LEFT_OUT = pytest.StashKey[list[str]]()


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


def pytest_configure(config: pytest.Config) -> None:
    try:
        import tests.attack.settings  # noqa: F401 - whose first import reads the environment
    except ValueError as problem:
        raise pytest.UsageError(str(problem)) from None
    config.addinivalue_line("markers", "only_ztnode: what ztnode does and zerotier-one does otherwise (docs/engine.md)")
    config.addinivalue_line("markers", "both_engines: needs zerotier-one beside ztnode, so one on PATH")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    engine = Path(os.environ.get("ENGINE", "ztnode")).name
    ours = [item for item in items if engine != "ztnode" and item.get_closest_marker("only_ztnode")]
    both = [item for item in items if not shutil.which("zerotier-one") and item.get_closest_marker("both_engines")]
    if not ours and not both:
        return
    items[:] = [item for item in items if item not in {*ours, *both}]
    config.hook.pytest_deselected(items=[*ours, *both])
    told = [f"ENGINE={engine}: {len(ours)} tests of what only ztnode does are left out"] if ours else []
    told += [f"no zerotier-one on PATH: {len(both)} tests of both engines are left out"] if both else []
    config.stash[_LEFT_OUT] = told


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    return config.stash.get(_LEFT_OUT, [])


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[object]) -> None:
    """A lab turns signals into SystemExit, which to pytest is one test that has failed: here it ends the run, in order."""
    signals = {128 + number: number.name for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if call.excinfo and isinstance(call.excinfo.value, SystemExit) and call.excinfo.value.code in signals:
        node.session.shouldstop = signals[call.excinfo.value.code]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run of CI that skips what it should test has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line("CI: a test that is skipped is a failure; install what it needs", red=True)
