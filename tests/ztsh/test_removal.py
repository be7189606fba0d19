"""What removing the packages leaves of a router: its users can log in, and installing them again starts afresh.

Their scripts run as dpkg runs them, over copies of the directories that they write to.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.configuration import ROOT

PASSWD = """root:x:0:0:root:/root:/bin/bash
admin:x:1000:1000:Admin,,,:/home/admin:/usr/bin/ztsh
daemon:x:1:1::/:/usr/sbin/nologin
other:x:1001:1001::/home/other:/bin/ztsh
quiet:x:1002:1002::/home/quiet:/bin/sh
"""


def of_package(package: str, script: str, action: str, directories: dict[str, Path]) -> str:
    """Run a script of a package with ``directories`` in place of the machine's; returns what it says."""
    mounts = [f"mount --bind {there} {here}" for here, there in directories.items()]
    line = "\n".join(["set -e", *mounts, f"sh {ROOT}/packages/{package}/debian/{script} {action}"])
    done = subprocess.run(["unshare", "--mount", "sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    made = tmp_path / "etc"
    made.mkdir()
    (made / "passwd").write_text(PASSWD)
    (made / "group").write_text("root:x:0:\nadmin:x:1000:\nother:x:1001:\nquiet:x:1002:\n")
    for name in ("login.defs", "nsswitch.conf", "pam.d", "ld.so.cache"):
        source = Path("/etc", name)
        if source.is_dir():
            shutil.copytree(source, made / name)
        elif source.exists():
            shutil.copy(source, made / name)
    return made


def shells(etc: Path) -> dict[str, str]:
    return {line.split(":")[0]: line.split(":")[6] for line in (etc / "passwd").read_text().splitlines()}


def test_whose_login_shell_goes_gets_another_one(etc: Path) -> None:
    told = of_package("ztsh", "prerm", "remove", {"/etc": etc})
    assert shells(etc) == {
        "root": "/bin/bash", "admin": "/bin/bash", "daemon": "/usr/sbin/nologin", "other": "/bin/bash", "quiet": "/bin/sh",
    }  # fmt: skip
    assert told == "".join(f"ztsh: the login shell of {name} is /bin/bash now\n" for name in ("admin", "other"))


def test_an_upgrade_leaves_login_shells(etc: Path) -> None:
    assert of_package("ztsh", "prerm", "upgrade 9", {"/etc": etc}) == ""
    assert (etc / "passwd").read_text() == PASSWD
