"""What stands in a home: local.conf, the planet, the network configuration, and what is cleared away."""

from __future__ import annotations

import ipaddress
import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
from tests.configuration import EXAMPLE, bundle
from zerotier_multi.checks import MAX_CONTROLLER_FREE_REMOTES
from zerotier_multi.cpu import Cpu
from zerotier_multi.homefiles import home_files
from zerotier_multi.local_conf import local_conf
from zerotier_multi.homes import home_fault, make_home, own_identity, sync_home
from zerotier_multi.identity import PublicIdentity, mac_on_network
from zerotier_multi.planet import is_our_moon, is_our_planet, make_moon, make_network_config, make_planet, moon_file
from zerotier_multi.planner import make_plan
from zerotier_multi.units import dropin
from zerotier_multi.values import Endpoint

A = PublicIdentity("89e92ceee5", bytes(range(64)))
B = PublicIdentity("1d20db2f58", bytes(range(64, 128)))
NETWORK = "8056c2e21c000001"
GK41 = tuple(Cpu(n, n) for n in range(4))


def plan_of(text: str):
    return make_plan(bundle(text), GK41, "/usr/sbin/ztnode")


FREE = EXAMPLE + f"controller-free\nremote R2 instance 1 identity {B}\nremote R2 instance 1 endpoint 198.51.100.2:9993\n"


def controller_free(extra: str = ""):
    return plan_of(FREE + extra)


def test_local_conf_keeps_instances_out_of_each_other() -> None:
    plan = plan_of(EXAMPLE + "instance 2 listen-address 198.51.100.1")
    conf = json.loads(local_conf(plan, plan.instances[1]))
    settings = conf["settings"]
    assert (settings["primaryPort"], settings["allowSecondaryPort"], settings["portMappingEnabled"]) == (9994, False, False)
    assert (settings["softwareUpdate"], settings["cpuPinningEnabled"]) == ("disable", False)
    assert settings["bind"] == ["198.51.100.1"] and "zt" in settings["interfacePrefixBlacklist"]
    assert conf["physical"] == {p: {"blacklist": True} for p in ("10.14.0.0/28", "10.0.55.1/32", "10.0.55.2/32")}


def test_addresses_of_the_bundle_are_those_of_instances_without_their_own() -> None:
    plan = plan_of(EXAMPLE + "listen-address 198.51.100.1\nlisten-address 2001:db8::1\ninstance 2 listen-address 198.51.100.2")
    bound = [json.loads(local_conf(plan, instance))["settings"]["bind"] for instance in plan.instances[:3]]
    assert bound == [["198.51.100.1", "2001:db8::1"], ["198.51.100.2"], ["198.51.100.1", "2001:db8::1"]]


def settings_of(text: str, engine: str, addresses: dict[str, list[str]] | None = None) -> dict:
    plan = make_plan(bundle(EXAMPLE + text), GK41, engine)
    return json.loads(local_conf(plan, plan.instances[1], addresses))["settings"]


def test_ztnode_is_kept_to_its_source_interface_by_name() -> None:
    settings = settings_of("instance 2 source-interface eth1", "/usr/sbin/ztnode", {"eth1": ["203.0.113.1"]})
    assert settings["interfaces"] == ["eth1"] and "bind" not in settings
    settings = settings_of("instance 2 source-interface eth1\ninstance 2 listen-address 203.0.113.1", "/usr/sbin/ztnode")
    assert settings["interfaces"] == ["eth1"] and settings["bind"] == ["203.0.113.1"]


def test_zerotier_one_is_kept_to_its_source_interface_by_the_addresses_that_it_has() -> None:
    engine, line = "/usr/sbin/zerotier-one", "instance 2 source-interface eth1"
    there = {"eth0": ["198.51.100.1"], "eth1": ["203.0.113.1", "2001:db8::1"]}
    assert settings_of(line, engine, there)["bind"] == ["203.0.113.1", "2001:db8::1"]
    assert settings_of(f"{line}\ninstance 2 listen-address 2001:db8::1", engine, there)["bind"] == ["2001:db8::1"]
    # Without any it must not fall back to those of the other devices.
    for nothing in ({"eth0": ["198.51.100.1"]}, {"eth1": []}, None):
        assert settings_of(line, engine, nothing)["bind"] == ["127.0.0.1"]
    assert "interfaces" not in settings_of(line, engine, there)


def test_a_source_interface_is_a_reason_for_a_restart_and_its_addresses_are_none() -> None:
    def digest(text: str, addresses: dict[str, list[str]]) -> str:
        plan = make_plan(bundle(EXAMPLE + text), GK41, "/usr/sbin/zerotier-one")
        return home_files(plan, plan.instances[1], A, addresses).restart_digest

    line, there = "instance 2 source-interface eth1", {"eth1": ["203.0.113.1"]}
    assert digest("", there) != digest(line, there) == digest(line, {})
    assert digest(line, there) == digest(f"{line}\ninstance 2 gateway 203.0.113.254", there)


def test_a_zerotier_one_with_a_source_interface_takes_its_addresses_anew_at_every_start() -> None:
    for engine, takes in (("/usr/sbin/zerotier-one", True), ("/usr/sbin/ztnode", False)):
        plan = make_plan(bundle(EXAMPLE + "instance 2 source-interface eth1"), GK41, engine)
        first, second = (dropin(instance, "x") for instance in plan.instances[:2])
        assert "rebind" not in first and ("ExecStartPre=-/usr/bin/python3 -I -m zerotier_multi.rebind %i" in second) is takes


def test_a_default_route_to_a_remote_does_not_blacklist_the_world() -> None:
    plan = plan_of(EXAMPLE.replace("10.0.55.2/32", "0.0.0.0/0"))
    assert "0.0.0.0/0" not in json.loads(local_conf(plan, plan.instances[0]))["physical"]


def test_what_is_excluded_takes_no_underlay_away() -> None:
    plan = plan_of(
        EXAMPLE.replace("address 10.0.55.1/32", "address 10.0.55.1/30") + "controller-free\nremote R2 prefix 198.51.100.0/24\n"
        "remote R2 prefix 198.51.100.2/32\nremote R2 instance 1 endpoint 198.51.100.2:9993\nremote R2 instance 1 endpoint 10.0.55.2:9993"
    )
    # 10.0.55.2/32 and 198.51.100.2/32 are endpoints, 198.51.100.0/24 may be where this router is.
    assert set(plan.blacklist) == {"10.14.0.0/28", "10.0.55.0/31", "10.0.55.3/32"}


def test_what_a_remote_that_is_off_has_may_be_the_underlay() -> None:
    for off in ("", "remote R9 disable\n"):
        lines = f"remote R9 site 3\nremote R9 prefix 198.51.100.9/32\n{off}transit subnet-length 29\nremote R2 site 2\n"
        plan = make_plan(bundle(EXAMPLE.replace("/28", "/26") + lines), (Cpu(0, 0),), "/usr/sbin/ztnode")
        assert ("198.51.100.9/32" in plan.blacklist) is not bool(off)


def test_a_planet_is_ourselves_alone() -> None:
    data = make_planet(NETWORK, A)
    kind, _world, _time = struct.unpack_from(">BQQ", data)
    assert kind == 1 and is_our_planet(data) and not is_our_moon(data)
    key = data[17:81]
    assert len(set(key)) > 20  # a digest, never zeros
    assert data[81:177] == bytes(96) and data[177] == 1
    rest = data[178:]
    assert rest[:5].hex() == A.address and rest[5] == 0 and rest[6:70] == A.key and rest[70:] == b"\0\0"


def test_a_moon_names_a_remote_without_and_with_its_endpoints() -> None:
    """The first entry lets the remote be anywhere, the second says where to look for it first."""
    endpoints = (Endpoint(ipaddress.ip_address("198.51.100.1"), 9993), Endpoint(ipaddress.ip_address("2001:db8::1"), 9994))
    data = make_moon(B, endpoints)
    kind, world, _time = struct.unpack_from(">BQQ", data)
    assert kind == 127 and is_our_moon(data) and not is_our_planet(data)
    assert moon_file(B) == f"moons.d/{world:016x}.moon" == f"moons.d/7a746d{B.address}.moon"
    assert data[81:177] == bytes(96) and data[177] == 2
    identity = bytes.fromhex(B.address) + b"\0" + B.key + b"\0"
    v4 = b"\x04" + ipaddress.ip_address("198.51.100.1").packed + struct.pack(">H", 9993)
    v6 = b"\x06" + ipaddress.ip_address("2001:db8::1").packed + struct.pack(">H", 9994)
    assert data[178:] == identity + b"\0" + identity + b"\2" + v4 + v6 + b"\0\0"
    assert make_moon(B)[177:] == b"\1" + identity + b"\0" + b"\0\0"


def test_a_moon_has_no_more_endpoints_than_an_engine_reads() -> None:
    with pytest.raises(ValueError, match="at most 32 endpoints"):
        make_moon(B, [Endpoint(ipaddress.ip_address("198.51.100.1"), port) for port in range(1, 34)])


def test_sixteen_sites_fit() -> None:
    """A moon for each remote, rules that an engine reads (at most 1024), and a HELLO in one packet of 1432 bytes."""
    keys = [PublicIdentity(f"{0x1D20DB2F00 + n:010x}", bytes([n] * 64)) for n in range(15)]
    plan = make_plan(
        bundle(
            EXAMPLE.replace("10.14.0.0/28", "10.14.0.0/24").replace("remote R2 prefix 10.0.55.2/32", "")
            + "controller-free\ntransit subnet-length 27\n"
            + "".join(
                f"remote R{n} site {n}\nremote R{n} prefix 10.0.55.{n}/32\n"
                f"remote R{n} instance 1 identity {key}\nremote R{n} instance 1 endpoint 198.51.100.{n}:9993\n"
                for n, key in enumerate(keys, start=2)
            )
        ),
        GK41,
        "/usr/sbin/ztnode",
    )
    files = home_files(plan, plan.instances[0], A).have
    moons = [name for name in files if name.startswith("moons.d/")]
    assert sorted(moons) == sorted(moon_file(key) for key in keys)
    assert 28 + 13 + 71 + 19 + 16 + 2 + 17 * MAX_CONTROLLER_FREE_REMOTES < 1432
    rules = next(line for line in files[f"networks.d/{NETWORK}.conf"].split(b"\n") if line.startswith(b"R="))
    for key in keys:
        assert bytes.fromhex(f"9805{key.address}") in rules.replace(b"\\0", b"\0").replace(b"\\e", b"=").replace(
            b"\\n", b"\n"
        ).replace(b"\\r", b"\r").replace(b"\\\\", b"\\")
    assert len(json.loads(files["local.conf"])["virtual"]) == 15


def test_endpoints_restart_zerotier_one_and_not_ztnode() -> None:
    """ztnode reads ``local.conf`` again when it changes; zerotier-one has them in its moons, read at the start."""

    def files(engine: str, extra: str = ""):
        plan = make_plan(bundle(FREE + extra), GK41, engine)
        return home_files(plan, plan.instances[0], A)

    more = "remote R2 instance 1 endpoint [2001:db8::2]:9993\n"
    for engine, restarts in (("/usr/sbin/ztnode", False), ("/usr/sbin/zerotier-one", True)):
        before, after = files(engine), files(engine, more)
        assert (before.restart_digest != after.restart_digest) is restarts
        virtual = json.loads(after.have["local.conf"])["virtual"]
        assert virtual == {B.address: {"try": ["198.51.100.2/9993", "2001:db8::2/9993"]}}
    assert files("/usr/sbin/ztnode").have[moon_file(B)] == make_moon(B)
    assert files("/usr/sbin/zerotier-one").have[moon_file(B)] == make_moon(
        B, [Endpoint(ipaddress.ip_address("198.51.100.2"), 9993)]
    )


def test_moons_of_others_stay_and_ours_of_a_remote_that_is_gone_goes(tmp_path: Path) -> None:
    make_home(tmp_path)
    plan = controller_free()
    sync_home(tmp_path, home_files(plan, plan.instances[0], A))
    assert (tmp_path / moon_file(B)).read_bytes() == make_moon(B)
    other = tmp_path / "moons.d/00000089e92ceee5.moon"
    other.write_bytes(b"\x7f" + bytes.fromhex("00000089e92ceee5") + struct.pack(">Q", 5) + bytes(200))
    without = plan_of(EXAMPLE + "controller-free")
    assert sync_home(tmp_path, home_files(without, without.instances[0], A)).removed == (moon_file(B),)
    assert other.exists()


def test_the_planet_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    """It named the remotes too, with endpoints that they could not leave."""
    make_home(tmp_path)
    (tmp_path / "moons.d").rmdir()
    make_home(tmp_path)  # as the next commit does
    plan = controller_free()
    (tmp_path / "planet").write_bytes(make_planet(NETWORK, A)[:177] + b"\2" + bytes(144))
    assert "planet" in sync_home(tmp_path, home_files(plan, plan.instances[0], A)).written
    assert (tmp_path / "planet").read_bytes() == make_planet(NETWORK, A)


def test_the_network_configuration_admits_the_two_ends_only() -> None:
    lines = make_network_config(NETWORK, A.address, [B.address], 1394).split(b"\n")
    values = dict(line.split(b"=", 1) for line in lines if line)
    assert values[b"nwid"] == NETWORK.encode() and values[b"id"] == A.address.encode()
    assert int(values[b"mtu"], 16) == 1394 and values[b"v"] == b"7"
    rules = values[b"R"]
    for escaped, plain in ((b"\\0", b"\0"), (b"\\e", b"="), (b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\\\", b"\\")):
        rules = rules.replace(escaped, plain)
    assert rules == bytes.fromhex(f"9805{A.address} 9805{B.address} 0000 0100")


@pytest.mark.parametrize(
    ("node", "network", "mac"),
    [
        # by hand: first octet (low byte & 0xfe) | 2, the rest XORed
        ("89e92ceee5", "8056c2e21c000001", "02:89:e9:30:0c:27"),
        ("0000000001", "8056c2e21c000052", "32:00:00:1c:e2:c3"),
    ],
)
def test_mac_on_a_network(node: str, network: str, mac: str) -> None:
    assert mac_on_network(node, network) == mac


def test_a_controller_s_configuration_is_kept_and_ours_is_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    plan = controller_free()
    sync_home(home, home_files(plan, plan.instances[0], A))
    assert (home / "planet").exists() and (home / f"networks.d/{NETWORK}.conf").read_bytes() != b""
    plan = plan_of(EXAMPLE)
    change = sync_home(home, home_files(plan, plan.instances[0], None))
    assert set(change.removed) == {"planet", moon_file(B), f"networks.d/{NETWORK}.conf"}
    assert (home / f"networks.d/{NETWORK}.conf").read_bytes() == b""
    (home / f"networks.d/{NETWORK}.conf").write_bytes(b"v=7\nn=from a controller\n")
    (home / "planet").write_bytes(b"\x01" + bytes(16))
    assert sync_home(home, home_files(plan, plan.instances[0], None)) == type(change)((), ())
    assert (home / "planet").exists()


def test_an_unchanged_home_is_not_touched(tmp_path: Path) -> None:
    make_home(tmp_path)
    plan = controller_free()
    wanted = home_files(plan, plan.instances[0], A)
    sync_home(tmp_path, wanted)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert sync_home(tmp_path, wanted).written == ()
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_what_a_power_cut_left_half_written_goes(tmp_path: Path) -> None:
    make_home(tmp_path)
    plan = controller_free()
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name in (".identity.secret", ".local.conf", f"networks.d/.{NETWORK}.conf"):
        (tmp_path / f"{name}.{gone.pid}").write_bytes(b"half")
    held = tmp_path / f".local.conf.{os.getppid()}"  # its writer lives
    held.write_bytes(b"half")
    sync_home(tmp_path, home_files(plan, plan.instances[0], A))
    assert [p for p in tmp_path.rglob(".*.*") if p.is_file()] == [held]


def test_a_network_that_is_left_goes(tmp_path: Path) -> None:
    make_home(tmp_path)
    plan = plan_of(EXAMPLE)
    sync_home(tmp_path, home_files(plan, plan.instances[0], None))
    other = plan_of(EXAMPLE.replace(NETWORK, "8056c2e21c000009"))
    sync_home(tmp_path, home_files(other, other.instances[0], None))
    assert sorted(p.name for p in (tmp_path / "networks.d").iterdir()) == [
        "8056c2e21c000009.conf", "8056c2e21c000009.local.conf"
    ]  # fmt: skip


def test_what_needs_a_restart_changes_the_digest() -> None:
    def digest(plan) -> str:
        return home_files(plan, plan.instances[0], A).restart_digest

    base = digest(controller_free())
    assert digest(controller_free("remote R2 prefix 192.0.2.0/24")) == base
    assert digest(controller_free("instance 1 cpu 3")) == base
    assert digest(controller_free("instance 1 port 12000")) != base
    assert digest(controller_free("mtu 1280")) != base
    assert digest(controller_free("instance 1 listen-address 198.51.100.1")) != base


def test_a_home_with_a_corrupt_identity_is_named_and_left(tmp_path: Path) -> None:
    assert home_fault(tmp_path / "a/b") is None
    secret = tmp_path / "identity.secret"
    secret.write_text("89e92ceee5:0:" + "ab" * 63)
    assert "is corrupt and was not changed" in (home_fault(tmp_path) or "")
    secret.write_text("89e92ceee5:0:" + "ab" * 64 + ":" + "cd" * 64)
    assert home_fault(tmp_path) is None
    assert str(own_identity(tmp_path)) == "89e92ceee5:0:" + "ab" * 64


def test_a_home_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is not a directory" in (home_fault(tmp_path / "file/1") or "")


def test_the_drop_in() -> None:
    plan = plan_of(EXAMPLE + "instance 1 cpu 1-2,3")
    assert dropin(plan.instances[0], "feed") == (
        "[Service]\nEnvironment=ZEROTIER_MULTI_DIGEST=feed\n"
        "StandardInput=file:/config/zerotier-multi/zt0/1/.lock\n"
        "ExecStart=/bin/sh -c 'flock --nonblock 0 || exit 75; exec "
        "/usr/sbin/ztnode -U -p9993 /config/zerotier-multi/zt0/1'\n"
        "ReadWritePaths=/config/zerotier-multi/zt0/1\nCPUAffinity=1-3\nAllowedCPUs=1-3\n"
    )
