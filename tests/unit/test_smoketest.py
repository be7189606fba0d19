"""What the smoketests say where they cannot run."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from ipaddress import ip_address
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("program", sorted((ROOT / "smoketest/scripts/cli").glob("test_*.py")), ids=lambda p: p.name)
def test_one_sentence_where_their_base_is_missing(program: Path) -> None:
    """Release images of VyOS have our package, and not VyOS's package of smoketests."""
    done = subprocess.run(["/usr/bin/python3", str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("base_vyostest_shim.py is missing: it is in VyOS's package vyos-1x-smoketest"), done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the smoketests share, on a router that has nothing."""
    for directory in ("packages/ztsh/smoketest", "smoketest/scripts/cli"):
        monkeypatch.syspath_prepend(ROOT / directory)
    monkeypatch.delitem(sys.modules, "base_zerotier_test", raising=False)
    import base_zerotier_test

    monkeypatch.setattr(base_zerotier_test, "root", lambda *command, check=True: "")
    return base_zerotier_test


def test_a_kernel_without_ipv6(base: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert base.obstacles() == []
    monkeypatch.setattr("os.path.isdir", lambda path: path != "/proc/sys/net/ipv6")
    assert base.obstacles() == ["the kernel has no IPv6 here, and the tests set IPv6 addresses; run them on another router"]


def test_the_routers_of_the_image_are_free_for_them(base: ModuleType) -> None:
    """Their underlay has addresses of documents, too, and a smoketest that refuses to start tests nothing."""
    text = (ROOT / "tests/image/ends.py").read_text()
    used = {ip_address(found) for found in re.findall(r"\b(?:\d+\.){3}\d+\b", text)}
    assert used and not [address for address in used for prefix in base.PREFIXES if address in prefix]


def test_routes_that_do_no_harm(base: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Routers drop these networks, as nobody has them, and their own bundles use addresses of examples."""
    routes = """[
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"type": "blackhole", "dst": "198.18.0.0/15", "dev": "lo"},
        {"dst": "198.18.14.0/30", "dev": "zt0p1", "protocol": "kernel"},
        {"dst": "198.18.55.2", "nhid": 5, "protocol": "122"},
        {"dst": "10.0.0.0/8", "dev": "eth0"}]"""
    monkeypatch.setattr(base, "root", lambda *command, check=True: routes if command[:3] == ("ip", "-j", "-4") else "")
    assert base.obstacles() == []
    routes = routes.replace("10.0.0.0/8", "198.18.113.128/25")
    said = "there is a route to 198.18.113.128/25, and the tests use 198.18.113.0/24; run them on another router"
    assert base.obstacles() == [said]


def test_nothing_of_vyos_s_own_shim_is_left(base: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It writes the whole configuration where every user reads it, and leaves that and the session to the end of the program."""
    saved = tmp_path / "vyos-smoketest-save"
    ended: list[bool] = []
    seen: list[object] = []

    class Session:
        def __del__(self) -> None:
            ended.append(True)

        def delete(self, path: list[str]) -> None: ...
        def commit(self) -> None: ...

    class Shim(unittest.TestCase):
        @classmethod
        def setUpClass(cls) -> None:
            cls._session = Session()  # type: ignore[attr-defined]
            with saved.open("w") as file:
                file.write("plaintext-password")
            seen.append(saved.stat().st_mode & 0o777)

    of_ours = base.VyOSUnitTestSHIM.TestCase
    monkeypatch.setattr(of_ours, "setUpClass", Shim.__dict__["setUpClass"])
    monkeypatch.setattr(of_ours, "tearDownClass", classmethod(lambda cls: None))
    monkeypatch.setattr(base, "saved", str(saved))

    class Tests(base.ZeroTierSmoketest):  # type: ignore[misc, name-defined]
        def test_it(self) -> None:
            seen.append(ended.copy())

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Tests).run(result)
    assert result.wasSuccessful(), result
    assert (seen, ended) == ([0o600, []], [True])
    assert not saved.exists()
