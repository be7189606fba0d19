"""What the package tells on a router whose link is down: every page that another one names is there."""

from __future__ import annotations

import os.path
import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PLACE = PurePosixPath("usr/share/doc/zerotier-multi")
ELSEWHERE = {"CHANGELOG.md", "CONTRIBUTING.md"}  # changelog.gz, and what concerns the sources
PAGE = re.compile(r"\]\(([^)#:]+\.(?:md|rst))(?:#[^)]*)?\)")


def test_every_page_that_is_named_is_in_the_package() -> None:
    (package,) = (ROOT / "build/debs").glob("zerotier-multi_*.deb")
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
    files = {line.split()[5].removeprefix("./") for line in listed.splitlines()}
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named = {
        os.path.normpath(PLACE / page.relative_to(ROOT).parent / link) for page in pages for link in PAGE.findall(page.read_text())
    }
    missing = {name for name in named if PLACE in PurePosixPath(name).parents} - files - {str(PLACE / name) for name in ELSEWHERE}
    assert len(named) > 15 and not missing
    motd = (ROOT / "debian-image/live/includes.chroot_after_packages/etc/motd").read_text()
    assert {path.lstrip("/") for path in re.findall(r"/usr/share/doc/\S+\.md", motd)} & files
