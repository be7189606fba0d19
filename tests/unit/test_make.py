"""What make builds again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_packages_are_built_again_in_a_tree_that_git_does_not_know(tmp_path: Path) -> None:
    """An unpacked archive, or the checkout of another user."""
    for name in ("Makefile", "README.md", "lab/host-packages.txt", "debian-image/host-packages.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    sources = [f"packages/{name}/source" for name in ("zerotier-multi", "ztsh", "ztnode", "zerotier-router")]
    sources += [
        f"{name}/source"
        for name in ("python", "src", "interface-definitions", "op-mode-definitions", "smoketest", "packages/ztsh/ztsh")
    ]
    built = [f"build/debs/{name}.built" for name in ("zerotier-multi", "ztsh", "ztnode")]
    for seconds, name in enumerate([*sources, "README.md", *built], start=1_000_000_000):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))

    def builds() -> list[str]:
        done = subprocess.run(["make", "-n", "debs"], cwd=tmp_path, capture_output=True, text=True, check=True)
        return [line.split()[-1].strip('"') for line in done.stdout.splitlines() if "building package" in line]

    assert builds() == []
    os.utime(tmp_path / "packages/ztnode/source")
    assert builds() == ["ztnode"]
    os.utime(tmp_path / "src/source")
    assert builds() == ["zerotier-multi", "ztnode"]
