"""Where the packages of the Debian image come from: the mirrors of this machine's apt, as debootstrap can use them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "debian-image"))

from imagebuild import mirror
from imagebuild.steps import BuildError

LIST = """\
# of this site

file:/srv/local/debian/mirror/\tpriority:1 type:index
http://partial.example.org/debian/\tpriority:2 arch:amd64
https://deb.debian.org/debian
"""


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The mirror of each suite, as apt names it."""
    found = {"bookworm": "http://deb.debian.org/debian/", "bookworm-security": "http://deb.debian.org/debian-security/"}

    def output(command: list[str]) -> str:
        return "\n".join(map(" ".join, found.items())) if command[0] == "apt-get" else ""

    monkeypatch.setattr(mirror, "output", output)
    return found


def test_a_mirror_is_taken_as_apt_has_it(apt: dict[str, str]) -> None:
    found = mirror.find_mirror()
    assert (found.main, found.security) == ("http://deb.debian.org/debian/", "http://deb.debian.org/debian-security/")


@pytest.mark.parametrize("end", ["", "/"])
def test_of_a_file_of_mirrors_the_first_with_http_is_taken(apt: dict[str, str], tmp_path: Path, end: str) -> None:
    """As Debian's images for clouds have it."""
    for suite, text in {"bookworm": LIST, "bookworm-security": "https://deb.debian.org/debian-security\n"}.items():
        (tmp_path / f"{suite}.list").write_text(text)
        apt[suite] = f"mirror+file:{tmp_path}/{suite}.list{end}"
    found = mirror.find_mirror()
    assert (found.main, found.security) == ("http://partial.example.org/debian/", "https://deb.debian.org/debian-security")


def test_a_file_of_mirrors_that_is_of_no_use_is_named(apt: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "debian.list"
    apt["bookworm"] = f"mirror+file:{path}/"
    with pytest.raises(
        BuildError, match=r"debian\.list, apt's list of mirrors, cannot be read \(No such file or directory\); name a"
    ):
        mirror.find_mirror()
    path.write_text("# none\nfile:/srv/debian\n")
    with pytest.raises(BuildError, match=r"debian\.list, apt's list of mirrors, has none with http, by .*; add one to it"):
        mirror.find_mirror()
