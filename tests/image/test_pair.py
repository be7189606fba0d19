"""Two routers on a cable, configured by hand over their serial consoles: the example, and what only a kernel has."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.vm import Vm
from tests.image.conftest import Figures, until
from tests.image.ends import FLOWS, INSTANCES, End, send

PICTURES = os.environ.get("SCREENSHOTS")  # a directory for the pictures of docs/live-image.md


def test_the_example_over_the_console(link: list[End]) -> None:
    for end in link:
        until(end.all_up, f"R{end.number}: {INSTANCES} paths up")
        until(partial(_all_shown, end), f"{INSTANCES}/{INSTANCES} in show zerotier")
        assert "0 loaded units listed" in end.person.op("systemctl --failed --no-pager")


def _all_shown(end: End) -> bool:
    return end.person.op("show zerotier").count(f"{INSTANCES}/{INSTANCES}") == 2


def test_the_keyboard_and_the_screen(link: list[End], edition: Edition, tmp_path: Path) -> None:
    """Somebody logs in at the screen and looks."""
    directory = Path(PICTURES) if PICTURES else tmp_path
    person = link[0].person
    vm = person.vm
    login = vm.screenshot(directory / "login.png")
    vm.type(f"{edition.user}\n")
    until(lambda: "login" in person.op("ps -t tty1 -o comm="), "the question for the password")
    # login throws away what was typed before it asks; it has asked when nothing is drawn any more.
    asked: list[bytes] = []
    until(partial(_unchanged, vm, directory / "password.png", asked), "the question on the screen")
    vm.type(f"{person.password}\n")
    until(lambda: edition.shell in person.op("ps -t tty1 -o comm="), "the shell at the screen")
    # The end of what is printed there is when the picture stays as it is for a while.
    seen = {login}
    for text in ("", "show zerotier\n"):
        pictures: list[bytes] = []
        vm.type(text)
        until(partial(_unchanged, vm, directory / "show-zerotier.png", pictures), "a picture that stays")
        assert pictures[-1] not in seen, f"the screen shows nothing new after {text!r}"
        seen.add(pictures[-1])
    vm.type("exit\n")


def _unchanged(vm: Vm, file: Path, pictures: list[bytes]) -> bool:
    pictures.append(vm.screenshot(file))
    time.sleep(2)
    return len(pictures) > 6 and len(set(pictures[-5:])) == 1


def test_traffic_takes_all_paths(link: list[End], figures: Figures) -> None:
    rate, spread = send(link[0], link[1])
    assert rate > 0
    assert min(spread.values()) > 10_000, (spread, [end.data("paths") for end in link])
    figures[f"iperf3, {FLOWS} flows, {INSTANCES} instances (Mbit/s)"] = rate / 1e6


def test_what_containers_lack(link: list[End]) -> None:
    """The device of the bundle is a dummy; a VRF and WireGuard stand beside it and disturb nothing."""
    r1 = link[0]
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
    until(r1.reaches, "an echo beside them")
    until(r1.all_up, "all paths beside them")
    # WireGuard inside the tunnel's loopback keeps its own address out of what the instances offer.
    assert not [line for line in r1.person.op("show zerotier zt0 identity").splitlines() if "10.9.0.1" in line]
    r1.person.root("ip link del wg0; ip link del dummy9; ip link del blue; rm -f /run/key")


@pytest.mark.long
def test_a_vrf_carries_the_bundle(link: list[End], edition: Edition) -> None:
    """Also with the map of conntrack zones that VyOS has."""
    r1, vyos = link[0], edition.name == "vyos"
    zones = "nft list map inet vrf_zones ct_iface_map"
    if not vyos:
        r1.person.root('nft "add table inet vrf_zones; add map inet vrf_zones ct_iface_map { typeof iifname : ct zone; }"')
        r1.person.root("ip link add red type vrf table 101 && ip link set red up")
    r1.person.configure([*(["set vrf name red table 101"] if vyos else []), "set interfaces zerotier zt0 vrf red"])
    until(lambda: "10.0.55.2" in r1.person.op("ip route show vrf red"), "the route in the VRF")
    assert "10.0.55.2" not in r1.person.op("ip route show table main")
    until(lambda: " 0% packet loss" in r1.person.root("ip vrf exec red ping -c1 -W2 10.0.55.2"), "an echo from the VRF")
    assert '"zt0p4" : 101' in r1.person.root(zones)
    r1.person.configure(["delete interfaces zerotier zt0 vrf"])
    until(r1.reaches, "an echo without the VRF")
    assert '"zt0' not in r1.person.root(zones)
    if vyos:
        r1.person.configure(["delete vrf"])
    else:
        r1.person.root("ip link del red && nft delete table inet vrf_zones")


def test_a_restart_keeps_everything(link: list[End], edition: Edition, figures: Figures) -> None:
    if edition.name == "vyos":
        pytest.skip("VyOS's live system keeps nothing")
    r1 = link[0]
    nodes, commands = r1.nodes(), r1.commands()
    begin = time.monotonic()
    r1.person.reboot()
    until(r1.reaches, "an echo after the restart")
    figures["reboot to traffic (s)"] = time.monotonic() - begin
    assert r1.nodes() == nodes
    assert r1.commands() == commands
    assert r1.person.op("hostname") == "R1"
    until(r1.all_up, "all paths after the restart")
