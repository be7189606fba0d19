"""The version is in CHANGELOG.md; everything else has it from there."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def changelogs() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("changelogs", str(ROOT / "packages/changelogs"))
    spec = importlib.util.spec_from_loader("changelogs", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_every_package_has_the_version_of_the_changelog(changelogs: ModuleType) -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    found = changelogs.packages()
    assert {"zerotier-multi", "ztnode", "ztsh"} <= {folder.name for folder in found}
    for folder in found:
        assert (folder / "debian/changelog").read_text() == changelogs.debian(folder.name, text), "run: make changelogs"


def test_a_release_becomes_a_stanza(changelogs: ModuleType) -> None:
    text = "# Changes\n\n## 1.2.0 (2026-02-01)\n\n- One thing\n  in two lines.\n- Another.\n\n## 1.1.9 (2026-01-31)\n\n- First.\n"
    assert changelogs.debian("p", text) == (
        "p (1.2.0) unstable; urgency=medium\n\n  * One thing in two lines.\n  * Another.\n\n"
        " -- The zerotier-multi project <maintainers@zerotier-multi.invalid>  Sun, 01 Feb 2026 00:00:00 +0000\n\n"
        "p (1.1.9) unstable; urgency=medium\n\n  * First.\n\n"
        " -- The zerotier-multi project <maintainers@zerotier-multi.invalid>  Sat, 31 Jan 2026 00:00:00 +0000\n"
    )
    with pytest.raises(ValueError, match="no heading"):
        changelogs.releases("# Changes\n")
