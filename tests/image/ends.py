"""Two routers on a cable, each with a person at its serial console, and the design's example on them.

    R1 203.0.113.1 ---------- cable 0 (two UDP ports) ---------- 203.0.113.2 R2
    R1 192.168.77.2 --- cable 1, not in its port                 198.51.100.2 R2, the same
    loopback 10.0.55.1                                             loopback 10.0.55.2

What they save lies on a disk of its own with the label that live-boot looks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.person import Person
from lab.process import run
from lab.vm import emulated
from tests.image.conftest import until

INSTANCES, FLOWS = 4, 64
NETWORK = "8056c2e21c000001"
Result = TypeVar("Result")
SECOND_PORT = {1: ("192.168.77.2/24", "192.168.77.1"), 2: ("198.51.100.2/24", "")}  # address, gateway


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

    def underlay(self) -> None:
        """Give its ports their addresses, and it its name."""
        name, wan = f"R{self.number}", f"203.0.113.{self.number}/24"
        if self.person.edition.name == "vyos":
            lines = [f"set system host-name {name}", f"set interfaces ethernet eth0 address {wan}"]
            self.person.configure(lines, save=True)
            return
        second, gateway = SECOND_PORT[self.number]
        # Every Ethernet port, as somebody would write it who has one; the second one has a file that is looked at before.
        self.network_file("10-wan", "Type=ether", wan)
        self.network_file("09-second", f"MACAddress={self.person.vm.mac(1)}", second, gateway)
        self.person.root(f"echo {name} >/config/etc/hostname && systemctl restart router-settings && networkctl reload")

    def network_file(self, name: str, match: str, address: str, gateway: str = "") -> None:
        """A file of systemd-networkd's below /config."""
        text = f"[Match]\\n{match}\\n[Network]\\nAddress={address}\\n" + (f"Gateway={gateway}\\n" if gateway else "")
        place = "/config/etc/systemd/network"
        self.person.root(f'mkdir -p {place} && printf "{text}" >{place}/{name}.network')

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

    def example(self) -> list[str]:
        """The design's example, controller-free.

        An emulated machine stands still for a second when its processor does something else; that is no dead path.
        """
        base = "set interfaces zerotier zt0"
        patient = [f"{base} health-check interval 1000", f"{base} health-check multiplier 5"]
        return [
            *(patient if emulated() else []),
            f"{base} instances {INSTANCES}",
            f"{base} network-id {NETWORK}",
            f"{base} controller-free",
            f"{base} transit prefix 10.14.0.0/28",
            f"{base} transit site {self.number}",
            f"{base} address 10.0.55.{self.number}/32",
            f"{base} remote R{self.other} prefix 10.0.55.{self.other}/32",
        ]

    def identity_lines(self, address: str) -> list[str]:
        """What makes it known to the other one, once all its instances have an endpoint with that address."""
        found: list[str] = []

        def look() -> bool:
            text = self.person.op(f"show zerotier zt0 identity name R{self.number}")
            found[:] = [line.strip() for line in text.splitlines() if line.strip().startswith("set ")]
            return len([line for line in found if f" endpoint {address}:" in line]) == INSTANCES

        until(look, f"R{self.number}: identities and endpoints of {INSTANCES} instances")
        return found

    def reaches(self) -> bool:
        """Whether an echo comes back from the other loopback; VyOS has a command of its own called ping."""
        text = self.person.op(f"/bin/ping -c1 -W2 -I 10.0.55.{self.number} 10.0.55.{self.other}")
        return " 0% packet loss" in text

    def all_up(self) -> bool:
        """Whether all its paths carry."""
        return [path["state"] for path in self.data("paths")] == ["up"] * INSTANCES

    def commands(self) -> str:
        """What is configured."""
        return self.person.op("show configuration commands | no-more")


def send(sender: End, receiver: End, seconds: int = 10) -> tuple[float, dict[str, int]]:
    """TCP flows between the loopbacks: bit/s received, and the bytes that went out over each member device.

    Each flow takes a path by chance. There are so many of them that no path of four is left out: by 64 flows once in
    25 million times, by 16 once in 25.
    """
    receiver.person.op(f"iperf3 --server --daemon --one-off --bind 10.0.55.{receiver.number}")
    before = sender.sent()
    text = sender.person.op(
        f"iperf3 --json --client 10.0.55.{receiver.number} --bind 10.0.55.{sender.number} --parallel {FLOWS} "
        f"--time {seconds} | jq .end.sum_received.bits_per_second",
        timeout=180,
    )
    return float(text.split()[-1]), {name: count - before[name] for name, count in sender.sent().items()}


def at_once(ends: Sequence[End], what: Callable[[End], Result]) -> list[Result]:
    """Do the same at every console: a commit waits more than it works, and mostly on one processor."""
    with ThreadPoolExecutor(len(ends)) as people:
        return list(people.map(what, ends))


def join(ends: Sequence[End]) -> None:
    """Configure the example on both, exchange the identities, and wait for an echo both ways."""

    def offer(end: End) -> list[str]:
        assert end.person.edition.saved in end.person.configure(end.example(), save=True)
        return end.identity_lines(f"203.0.113.{end.number}")

    lines = dict(zip((end.other for end in ends), at_once(ends, offer), strict=True))
    at_once(ends, lambda end: end.person.configure(lines[end.number], save=True))
    for end in ends:
        until(end.reaches, "an echo between the loopbacks")
