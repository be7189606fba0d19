"""A third machine between the two: R1 stands behind its NAT, and R2 knows no address of R1.

    R1 192.168.77.2 ---- 192.168.77.1 NAT 198.51.100.1 ---- 198.51.100.2 R2

The NAT gives every flow another port and lets nothing in that it has not seen go out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.edition import Edition
from lab.person import Person
from lab.vm import Hardware, Vm
from tests.image.conftest import first_login, until
from tests.image.ends import INSTANCES, End, send

pytestmark = pytest.mark.long

RULES = (
    "add table ip nat",
    "add chain ip nat out { type nat hook postrouting priority srcnat; }",
    "add rule ip nat out ip saddr 192.168.77.0/24 masquerade fully-random",
    "add chain ip nat forward { type filter hook forward priority filter; policy drop; }",
    "add rule ip nat forward ct state established,related accept",
    "add rule ip nat forward ip saddr 192.168.77.0/24 ct state new accept",
)


@pytest.fixture(scope="module")
def nat(
    machine: Callable[[str, Hardware], Vm], iso: Path, edition: Edition, link: list[End], cables: list[tuple[int, int]]
) -> Iterator[Person]:
    """The live image as a NAT router: its first port is on R1's second cable, its second one on R2's."""
    if edition.name != "debian":
        pytest.skip("the machine in the middle is one of the Debian edition")
    vm = machine("NAT", Hardware(stick=iso, cables=[(other, own) for own, other in cables], memory=768))
    vm.start()
    person = Person(vm, edition)
    first_login(person)
    for port, address in enumerate(("192.168.77.1/24", "198.51.100.1/24")):
        text = f"[Match]\\nMACAddress={vm.mac(port)}\\n[Network]\\nAddress={address}\\n"
        person.root(f'printf "{text}" >/etc/systemd/network/{port}.network')
    person.root("networkctl reload")
    person.root(" && ".join(f'nft "{rule}"' for rule in RULES))
    yield person
    vm.cut_power()


def test_the_bundle_comes_up_through_it(link: list[End], nat: Person) -> None:
    r1, r2 = link
    for end in link:
        end.person.vm.plug(1, True)
    new = [line for line in r2.identity_lines("198.51.100.2") if " endpoint 198.51.100." in line]
    r1.person.configure(new)
    r2.person.configure(f"delete interfaces zerotier zt0 remote R1 instance {k} endpoint" for k in range(1, INSTANCES + 1))
    assert "endpoint" not in r2.person.op("show configuration commands | match endpoint")
    for end in link:
        end.person.vm.plug(0, False)
    for end in link:
        until(end.reaches, f"an echo of R{end.number} through the NAT", timeout=300)
        until(end.all_up, f"R{end.number}: {INSTANCES} paths up", timeout=300)
    # Nothing of it goes another way: R2 talks to the NAT, at ports that it has chosen, and never to R1.
    addresses = [str(path["underlay_address"]) for path in r2.data("paths")]
    assert all(address.startswith("198.51.100.1:") for address in addresses), addresses
    assert len(set(addresses)) == INSTANCES
    assert "192.168.77.2" in nat.op("ip neigh show")


def test_traffic_through_it(link: list[End], nat: Person) -> None:
    """From behind the NAT and towards it."""
    for sender, receiver in (link, link[::-1]):
        rate, spread = send(sender, receiver, seconds=5)
        assert rate > 0
        assert min(spread.values()) > 10_000, (spread, [end.data("paths") for end in link])


def test_back_on_the_cable(link: list[End], nat: Person) -> None:
    """What was saved comes back; so do all paths, without the machine in the middle."""
    for end in link:
        end.person.vm.plug(0, True)
        end.person.vm.plug(1, False)
    for end in link:
        end.person.configure(["load /config/config.boot"])
    for end in link:
        until(end.all_up, f"R{end.number}: {INSTANCES} paths up", timeout=300)
        assert end.reaches()
