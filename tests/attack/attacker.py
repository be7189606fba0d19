"""A host on the lab's underlay that belongs to nobody: it sends packets with the addresses of others."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab import Lab, Router
from lab.process import run

PACKETS_MOST = 1472  # bytes of payload that fit into one frame of Ethernet
_SOURCE = Path(__file__).with_name("flood.c")
_DEVICE = "eth0"


class Attacker:
    """In a namespace of its own, on the bridge of the underlay; it has no address.

    ``spoofed`` are the sources that it makes up unless told otherwise, a /24: any of them, any port.
    """

    spoofed = "198.51.100.0/24"

    def __init__(self, lab: Lab, directory: Path, seed: int) -> None:
        self._lab, self._seed = lab, seed
        self.namespace = f"{lab.underlay.namespace}-attacker"
        self._program = directory / "flood"
        run(["gcc", "-O2", "-o", str(self._program), str(_SOURCE)])
        run(["ip", "netns", "add", self.namespace])
        lab.underlay.plug("attacker", self.namespace, _DEVICE)
        run(["ip", "netns", "exec", self.namespace, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"])
        run(["ip", "-n", self.namespace, "link", "set", _DEVICE, "up"])

    def close(self) -> None:
        self._lab.underlay.unplug("attacker")
        run(["ip", "netns", "del", self.namespace], check=False)

    def mac(self, router: Router) -> str:
        """Link-layer address of a router's ``eth0``, which is no secret on its LAN."""
        (link,) = json.loads(run(["ip", "-n", router.namespace, "-j", "link", "show", "dev", "eth0"]).stdout)
        return str(link["address"])

    @contextmanager
    def flood(
        self, router: Router, port: int, payloads: Sequence[bytes], *edits: str, rate: int, packets: int,
        source: str | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:  # fmt: skip
        """Send ``payloads`` in turn to a router while the block runs, ``packets`` of them, at most ``rate`` a second.

        ``edits`` are words of flood.c that change each packet; ``source`` is ``address:port`` or a prefix.
        """
        start = ["ip", "netns", "exec", self.namespace, "setpriv", "--pdeathsig", "KILL", str(self._program), _DEVICE]
        target = [self.mac(router), router.underlay4, str(port), source or self.spoofed]
        words = [*start, *target, str(rate), str(packets), str(self._seed), *edits]
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert program.stdin
            program.stdin.write(b"".join(struct.pack(">H", len(payload)) + payload for payload in payloads))
            program.stdin.close()
            yield program
        finally:
            program.kill()
            program.wait()

    def send(self, router: Router, frames: Sequence[bytes]) -> None:
        """Send packets of the network layer as they are, each from its first byte of IP on."""
        mac = bytes.fromhex(self.mac(router).replace(":", ""))
        kinds = {4: 0x0800, 6: 0x86DD}
        whole = [mac + bytes.fromhex("020000bad001") + struct.pack(">H", kinds[frame[0] >> 4]) + frame for frame in frames]
        program = (
            "import socket,sys,json\n"
            f"s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(({_DEVICE!r},0))\n"
            "for line in sys.stdin: s.send(bytes.fromhex(line))\n"
        )
        run(
            ["ip", "netns", "exec", self.namespace, "/usr/bin/python3", "-c", program],
            text_input="".join(frame.hex() + "\n" for frame in whole),
        )


def payloads_of(capture: Path) -> list[bytes]:
    """UDP payloads of a pcap file of Ethernet frames with IPv4, little-endian as tcpdump writes it here."""
    data, at, found = capture.read_bytes(), 24, []
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if len(frame) > 42 and frame[12:14] == b"\x08\x00" and frame[23] == 17:
            found.append(frame[42 : 34 + struct.unpack_from(">H", frame, 38)[0]])
    return found
