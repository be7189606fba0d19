"""The flavor that VyOS's program reads, and the small files in it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from builder import flavor
from builder.branches import BRANCHES, read_defaults
from builder.errors import BuildError
from builder.pins import read_pins
from tests.vyos_build.conftest import VYOS_BUILD, write

CONFIG = VYOS_BUILD["build/vyos-1x/data/config.boot.default"]


@pytest.fixture
def files() -> dict[str, str]:
    parsed = tomllib.loads(flavor.compose(["ztnode", "zerotier-one"], "x"))
    return {include["path"]: include["data"] for include in parsed["includes_chroot"]}


def test_it_parses_and_has_what_it_must(vyos_build: Path) -> None:
    parsed = tomllib.loads(flavor.compose(["ztnode", "zerotier-one"], flavor.default_config(vyos_build)))
    assert parsed["image_format"] == "iso"
    assert parsed["packages"] == ["zerotier-one", "ztnode"]
    assert "layer4-hashing" in parsed["default_config"]
    assert all(set(include) == {"path", "data"} for include in parsed["includes_chroot"])


def test_a_kernel_of_debian() -> None:
    parsed = tomllib.loads(flavor.compose(["ztnode"], "x", kernel="linux-image-6.1.0-40-amd64"))
    assert (parsed["kernel_version"], parsed["kernel_flavor"]) == ("6.1.0-40", "amd64")
    assert "kernel_version" not in tomllib.loads(flavor.compose(["ztnode"], "x"))


def test_zerotier_ones_own_unit_is_masked(files: dict[str, str]) -> None:
    assert files["etc/systemd/system/zerotier-one.service"] == ""  # an empty unit file masks


def test_modules_and_sysctls(files: dict[str, str]) -> None:
    words = files["etc/modules-load.d/zerotier-multi.conf"].splitlines()
    assert [word for word in words if not word.startswith("#")] == ["tun", "dummy"]
    sysctls = files["etc/sysctl.d/40-zerotier-multi.conf"]
    assert "net.ipv4.fib_multipath_hash_policy = 1\nnet.ipv6.fib_multipath_hash_policy = 1\n" in sysctls


def test_receive_hashing_and_governor(files: dict[str, str]) -> None:
    rule = files["etc/udev/rules.d/90-zerotier-multi.rules"].splitlines()[-1]
    for driver in ("igc", "i40e"):  # what MS-01 has
        assert driver in rule
    assert "ethtool -N $name rx-flow-hash udp4 sdfn" in rule
    assert "ethtool -N $name rx-flow-hash udp6 sdfn" in rule
    assert "cpufreq/scaling_governor - - - - performance" in files["etc/tmpfiles.d/zerotier-multi.conf"]


@pytest.mark.parametrize("host_name", ['host-name "vyos"', "host-name vyos"])
def test_default_configuration_of_either_spelling(vyos_build: Path, host_name: str) -> None:
    text = CONFIG.replace('host-name "vyos"', host_name)
    write(vyos_build, {"build/vyos-1x/data/config.boot.default": text})
    config = flavor.default_config(vyos_build)
    hashing = "{\n        multipath {\n            layer4-hashing\n        }\n    }\n"
    assert f"    {host_name}\n    ip {hashing}    ipv6 {hashing}    login {{\n" in config
    assert config.count("{") == config.count("}")


def test_default_configuration_of_1_4_stands_in_vyos_build(tmp_path: Path) -> None:
    place = "data/live-build-config/includes.chroot/opt/vyatta/etc/config.boot.default"
    assert "layer4-hashing" in flavor.default_config(write(tmp_path, {place: CONFIG}))


def test_no_default_configuration(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="has no default configuration; give a complete vyos-build tree in VYOS_BUILD$"):
        flavor.default_config(tmp_path)


def test_text_with_quotes_and_control_characters_survives() -> None:
    text = 'a "b" \\ \t\x7f\u2713\n'
    assert tomllib.loads(flavor.compose([], text))["default_config"] == text


def test_branches() -> None:
    assert set(BRANCHES) == {"sagitta", "circinus", "rolling"}
    assert BRANCHES["rolling"].packages == ("ztnode",)  # the rest is in its vyos-1x
    assert BRANCHES["circinus"].packages == ("zerotier-multi", "ztnode")


def test_defaults_of_vyos_build(vyos_build: Path) -> None:
    entries = '["deb [arch=amd64] https://a.example/x/ bullseye main", "deb https://b.example/y bookworm main"]'
    write(vyos_build, {"data/architectures/amd64.toml": f"additional_repositories = {entries}\n"})
    defaults = read_defaults(vyos_build, BRANCHES["circinus"])
    assert (defaults.branch, defaults.train, defaults.distribution) == ("circinus", "circinus", "bookworm")
    assert defaults.others == (
        "https://a.example/x/dists/bullseye/InRelease", "https://b.example/y/dists/bookworm/InRelease"
    )  # fmt: skip


def test_the_branch_that_was_called_current(vyos_build: Path) -> None:
    write(vyos_build, {"data/defaults.toml": VYOS_BUILD["data/defaults.toml"].replace("circinus", "current")})
    assert read_defaults(vyos_build, BRANCHES["rolling"]).branch == "current"


def test_vyos_build_of_another_branch(vyos_build: Path) -> None:
    with pytest.raises(BuildError) as refused:
        read_defaults(vyos_build, BRANCHES["sagitta"])
    assert str(refused.value) == (
        f"{vyos_build} is vyos-build for circinus, not for sagitta; check out that branch or name another one with BRANCH"
    )


def test_what_is_no_vyos_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot be used .*; give a vyos-build work tree in VYOS_BUILD$"):
        read_defaults(tmp_path, BRANCHES["rolling"])


def test_pins() -> None:
    pins = read_pins()
    assert len(bytes.fromhex(pins.vyos_1x)) == 20
    assert len(bytes.fromhex(pins.zerotier_one.fingerprint)) == 20
    assert "vyos" not in pins.zerotier_one.repository + pins.zerotier_one.version
