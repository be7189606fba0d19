"""Two routers on a cable, configured by hand over their serial consoles: the example, and what only a kernel has.

    R1 203.0.113.1 ------ cable (two UDP ports) ------ 203.0.113.2 R2
    loopback 10.0.55.1                                   loopback 10.0.55.2

What they save lies on a disk of its own with the label that live-boot looks for.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.person import Person
from lab.process import run
from lab.vm import Hardware, Vm, new_cable
from tests.image.conftest import first_login, until

INSTANCES = 4
NETWORK = "8056c2e21c000001"
PICTURES = os.environ.get("SCREENSHOTS", "")  # a directory for the pictures of docs/live-image.md
CUTS = int(os.environ.get("POWER_CUTS", "3"))


def config_disk(path: Path, megabytes: int = 256) -> Path:
    """A disk with one partition for /config."""
    tree = path.with_suffix(".tree")
    tree.mkdir()
    (tree / "persistence.conf").write_text("/config\n")
    raw = path.with_suffix(".raw")
    with raw.open("wb") as file:
        file.truncate(megabytes << 20)
    run(["sfdisk", "--quiet", str(raw)], text_input="label: dos\nstart=1MiB, type=83\n")
    size = f"{megabytes - 1}M"
    run(["mkfs.ext4", "-q", "-L", "persistence", "-E", "offset=1048576", "-d", str(tree), str(raw), size])
    run(["qemu-img", "convert", "-O", "qcow2", str(raw), str(path)])
    raw.unlink()
    return path


@dataclass
class End:
    """One of the two."""

    number: int
    person: Person

    @property
    def other(self) -> int:
        """Number of the other one."""
        return 3 - self.number

    def data(self, what: str) -> list[dict[str, object]]:
        """An answer of op mode as data."""
        program = "sudo /usr/libexec/vyos/op_mode/zerotier.py"
        text = self.person.op(f"{program} show_{what} --bundle zt0 --raw | jq -c .{what}")
        return list(json.loads(text.replace("\n", "")))

    def nodes(self) -> list[object]:
        """Identities of its instances."""
        return [entry["node"] for entry in self.data("instances")]

    def sent(self) -> dict[str, int]:
        """Bytes that have gone out over each member device."""
        names = [f"zt0p{k}" for k in range(1, INSTANCES + 1)]
        files = " ".join(f"/sys/class/net/{name}/statistics/tx_bytes" for name in names)
        return dict(zip(names, map(int, self.person.op(f"cat {files}").split()), strict=True))


@pytest.fixture(scope="module")
def pair(
    machine: Callable[[str, Hardware], Vm], iso: Path, edition: Edition, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[End]]:
    place = tmp_path_factory.mktemp("cable")
    vms = []
    cable = new_cable()
    for number, link in ((1, cable), (2, cable[::-1])):
        vm = machine(f"R{number}", Hardware(iso=iso, disks=[config_disk(place / f"config{number}.qcow2")], link=link))
        vm.start()
        vms.append(vm)
    if PICTURES:
        vms[0].console.expect("The highlighted entry", timeout=120)
        vms[0].screenshot(Path(PICTURES) / "boot-menu.png")
    ends = [End(number, first_login(vm, edition)) for number, vm in enumerate(vms, start=1)]
    for end in ends:
        address = f"[Match]\\nType=ether\\n[Network]\\nAddress=203.0.113.{end.number}/24\\n"
        end.person.root(
            f'mkdir -p /config/etc/systemd/network && printf "{address}" >/config/etc/systemd/network/10-wan.network '
            f'&& echo R{end.number} >/config/etc/hostname && systemctl restart router-settings && networkctl reload'
        )
    yield ends


def example(end: End) -> list[str]:
    """The design's example, controller-free."""
    base = "set interfaces zerotier zt0"
    return [
        f"{base} instances {INSTANCES}",
        f"{base} network-id {NETWORK}",
        f"{base} controller-free",
        f"{base} transit prefix 10.14.0.0/28",
        f"{base} transit site {end.number}",
        f"{base} address 10.0.55.{end.number}/32",
        f"{base} remote R{end.other} prefix 10.0.55.{end.other}/32",
    ]


def identity_lines(end: End) -> list[str]:
    """What makes it known to the other one, once all its instances have an endpoint."""
    found: list[str] = []

    def look() -> bool:
        text = end.person.op(f"show zerotier zt0 identity name R{end.number}")
        found[:] = [line.strip() for line in text.splitlines() if line.strip().startswith("set ")]
        return len([line for line in found if " endpoint 203.0.113." in line]) == INSTANCES

    until(look, f"R{end.number}: identities and endpoints of {INSTANCES} instances")
    return found


def reaches(end: End) -> bool:
    """Whether an echo comes back from the other loopback."""
    text = end.person.op(f"ping -c1 -W2 -I 10.0.55.{end.number} 10.0.55.{end.other}")
    return " 0% packet loss" in text


def all_up(end: End) -> bool:
    """Whether all its paths carry."""
    return [path["state"] for path in end.data("paths")] == ["up"] * INSTANCES


def test_the_example_over_the_console(pair: list[End], figures: dict[str, float]) -> None:
    begin = time.monotonic()
    for end in pair:
        assert "Done" in end.person.configure(example(end), save=True)
    lines = {end.number: identity_lines(end) for end in pair}
    for end in pair:
        end.person.configure(lines[end.other], save=True)
    for end in pair:
        until(partial(reaches, end), "an echo between the loopbacks")
    figures["first prompt to traffic, everything typed at two consoles (s)"] = time.monotonic() - begin
    for end in pair:
        until(partial(all_up, end), f"R{end.number}: {INSTANCES} paths up")
        assert f"{INSTANCES}/{INSTANCES}" in end.person.op("show zerotier")


@pytest.mark.skipif(not PICTURES, reason="no SCREENSHOTS directory")
def test_pictures_of_the_screen(pair: list[End], edition: Edition) -> None:
    """Somebody at the keyboard and the screen."""
    person = pair[0].person
    vm = person.vm
    vm.screenshot(Path(PICTURES) / "login.png")
    vm.type(f"{edition.user}\n")
    until(lambda: "login" in person.op("ps -t tty1 -o comm="), "the question for the password")
    vm.type(f"{person.password}\n")
    until(lambda: "ztsh" in person.op("ps -t tty1 -o comm="), "the shell at the screen")
    # The end of what is printed there is when the picture stays as it is for a while.
    for text in ("", "show zerotier\n"):
        pictures = [vm.screenshot(Path(PICTURES) / "show-zerotier.png")]
        vm.type(text)
        until(partial(_unchanged, vm, pictures), "a picture that stays")
    vm.type("exit\n")


def _unchanged(vm: Vm, pictures: list[bytes]) -> bool:
    pictures.append(vm.screenshot(Path(PICTURES) / "show-zerotier.png"))
    time.sleep(2)
    return len(pictures) > 6 and len(set(pictures[-5:])) == 1


def test_traffic_takes_all_paths(pair: list[End], figures: dict[str, float]) -> None:
    r1, r2 = pair
    r2.person.op("iperf3 --server --daemon --one-off --bind 10.0.55.2")
    before = r1.sent()
    text = r1.person.op(
        "iperf3 --json --client 10.0.55.2 --bind 10.0.55.1 --parallel 16 --time 10"
        " | jq .end.sum_received.bits_per_second",
        timeout=180,
    )
    rate = float(text.split()[-1])
    spread = {name: count - before[name] for name, count in r1.sent().items()}
    assert rate > 0
    assert min(spread.values()) > 10_000, spread
    figures["iperf3, 16 flows, 4 instances (Mbit/s)"] = rate / 1e6


def test_what_containers_lack(pair: list[End]) -> None:
    """The device of the bundle is a dummy; a VRF and WireGuard stand beside it and disturb nothing."""
    r1 = pair[0]
    assert " dummy " in r1.person.op("ip -d link show zt0")
    assert "type resilient" in r1.person.op("ip nexthop show")
    r1.person.root(
        "ip link add blue type vrf table 100 && ip link set blue up && ip link add wg0 type wireguard "
        "&& wg genkey >/run/key && wg set wg0 private-key /run/key listen-port 51820 "
        "&& ip address add 10.9.0.1/24 dev wg0 && ip link set wg0 up "
        "&& ip link add dummy9 type dummy && ip link set dummy9 master blue"
    )
    assert "blue" in r1.person.op("ip -br link show type vrf")
    assert "listening port: 51820" in r1.person.root("wg show wg0")
    assert reaches(r1) and all_up(r1)
    # WireGuard inside the tunnel's loopback keeps its own address out of what the instances offer.
    assert not [line for line in r1.person.op("show zerotier zt0 identity").splitlines() if "10.9.0.1" in line]
    r1.person.root("ip link del wg0; ip link del dummy9; ip link del blue; rm -f /run/key")


def test_a_vrf_carries_the_bundle(pair: list[End]) -> None:
    r1 = pair[0]
    r1.person.root("ip link add red type vrf table 101 && ip link set red up")
    r1.person.configure(["set interfaces zerotier zt0 vrf red"])
    until(lambda: "10.0.55.2" in r1.person.op("ip route show vrf red"), "the route in the VRF")
    assert "10.0.55.2" not in r1.person.op("ip route show table main")
    until(lambda: " 0% packet loss" in r1.person.root("ip vrf exec red ping -c1 -W2 10.0.55.2"), "an echo from the VRF")
    r1.person.configure(["delete interfaces zerotier zt0 vrf"])
    until(lambda: reaches(r1), "an echo without the VRF")
    r1.person.root("ip link del red")


def test_a_restart_keeps_everything(pair: list[End], figures: dict[str, float]) -> None:
    r1 = pair[0]
    nodes = r1.nodes()
    commands = r1.person.op("show configuration commands | no-more")
    begin = time.monotonic()
    r1.person.reboot()
    figures["reboot to login (s)"] = time.monotonic() - begin
    until(lambda: reaches(r1), "an echo after the restart")
    figures["reboot to traffic (s)"] = time.monotonic() - begin
    assert r1.nodes() == nodes
    assert r1.person.op("show configuration commands | no-more") == commands
    assert r1.person.op("hostname") == "R1"


def test_the_installed_smoketest(pair: list[End], edition: Edition) -> None:
    """On R2, whose configuration it deletes; what was saved comes back with the next start."""
    r2 = pair[1]
    text = r2.person.root(f"PYTHONUNBUFFERED=1 {edition.smoketest} 2>&1", timeout=3000)
    assert re.search(r"^OK", text, re.MULTILINE), text[-4000:]


@pytest.mark.parametrize("cut", range(1, CUTS + 1))
def test_the_power_goes(pair: list[End], cut: int) -> None:
    """At any moment of commits and saves: what was saved is whole, identities are the same, the archive can be read."""
    r1, vm = pair[0], pair[0].person.vm
    nodes = r1.nodes()
    assert len(nodes) == INSTANCES
    first = 1280 + 20 * (cut % 5)
    steps = "set interfaces zerotier zt0 mtu %s\\ncommit\\nsave\\n"
    loop = f"for n in $(seq {first} {first + 400}); do printf \"{steps}\" $n | ztsh script -; done"
    r1.person.op(f"setsid bash -c '{loop}' >/dev/null 2>&1 </dev/null &")
    until(lambda: f"mtu '{first}" in r1.person.op("show configuration commands | match mtu"), "a first commit")
    time.sleep(random.uniform(0, 12))  # the moment of the cut is what is varied here
    vm.cut_power()
    vm.start()
    r1.person.wait_login()
    r1.person.login()
    until(lambda: len(r1.nodes()) == INSTANCES, "the instances after the cut")
    assert r1.nodes() == nodes
    assert re.search(r"mtu '1[2-7]\d\d'", r1.person.op("show configuration commands | match mtu"))
    assert "via" in r1.person.op("show system commit | no-more")
    assert "0 loaded units listed" in r1.person.op("systemctl --failed --no-pager")
    r1.person.configure(["delete interfaces zerotier zt0 mtu"], save=True)
    until(lambda: all(map(bool, r1.nodes())), "identities")
