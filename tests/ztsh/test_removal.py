"""What removing the packages leaves of a router: its users can log in, and installing them again starts afresh.

Their scripts run as dpkg runs them, over copies of the directories that they write to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.configuration import ROOT, SCHEMA
from ztsh.boot import boot

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


def running_again(places: Path, monkeypatch: pytest.MonkeyPatch, scripts: Callable[[dict[str, Path]], None]) -> list[str]:
    """What boot runs of a saved configuration that also ran before the packages' scripts did."""
    run = places / "run"
    monkeypatch.setenv("ZTSH_RUN", str(run / "ztsh"))
    (places / "config/config.boot").write_text("interfaces {\n    zerotier zt0 {\n        description ours\n    }\n}\n")
    assert boot(SCHEMA) == []
    (run / "ztsh/interrupted.1").write_text((run / "ztsh/active.boot").read_text().replace("zt0", "zt1"))
    (run / "ztsh/.active.boot.99999999").write_text("interfaces {\n")
    assert (places / "log").read_text() == "zt0 set ours\n"
    (places / "log").write_text("")
    scripts({"/run": run})
    assert boot(SCHEMA) == []
    return (places / "log").read_text().splitlines()


def test_a_bundle_runs_again_after_its_package_is_installed_again(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libexec = places / "libexec/zerotier-multi"
    libexec.mkdir(parents=True)
    (libexec / "vyos-register").write_text("#!/bin/sh\n")
    (libexec / "vyos-register").chmod(0o755)

    def scripts(directories: dict[str, Path]) -> None:
        assert of_package("zerotier-multi", "prerm", "remove", {**directories, "/usr/libexec": places / "libexec"}) == ""

    assert running_again(places, monkeypatch, scripts) == ["zt0 set ours"]


def test_nothing_of_ztsh_is_left_in_run(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sbin = places / "sbin"
    sbin.mkdir()
    (sbin / "remove-shell").write_text("#!/bin/sh\n")
    (sbin / "remove-shell").chmod(0o755)

    def scripts(directories: dict[str, Path]) -> None:
        monkeypatch.setenv("PATH", f"{sbin}:{os.environ['PATH']}")
        assert of_package("ztsh", "postrm", "remove", directories) == ""
        assert not (places / "run/ztsh").exists()

    assert running_again(places, monkeypatch, scripts) == ["zt0 set ours"]


def test_an_upgrade_leaves_the_running_configuration(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scripts(directories: dict[str, Path]) -> None:
        (places / "run/ztsh/interrupted.1").unlink()
        of_package("zerotier-multi", "prerm", "upgrade 9", directories)
        of_package("ztsh", "postrm", "upgrade 9", directories)

    assert running_again(places, monkeypatch, scripts) == []
