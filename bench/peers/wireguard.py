"""WireGuard: the kernel's, wireguard-go and boringtun."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from bench.ends import Place, Site, stop
from bench.peers.common import ADDRESSES, Link, Unavailable, exists, give, kernel_has, program, reached
from bench.results import Parameter
from lab.process import run, wait

PORT, MTU = 51820, 1420


def _key(wg: str) -> tuple[str, str]:
    private = run([wg, "genkey"]).stdout.strip()
    return private, run([wg, "pubkey"], text_input=private).stdout.strip()


def _configure(site: Site, devices: tuple[str, str]) -> None:
    wg = program(site.peers, "wg")
    keys = [_key(wg) for _ in devices]
    for own, (place, device) in enumerate(zip(site.places, devices, strict=True)):
        peer = ["peer", keys[1 - own][1], "allowed-ips", "0.0.0.0/0", "endpoint", f"{site.underlay[1 - own]}:{PORT}"]
        command = [wg, "set", device, "listen-port", str(PORT), "private-key", "/dev/stdin", *peer]
        place.run(command, text_input=keys[own][0])
        give(place, device, ADDRESSES[own], MTU)
    reached(site.places[0], ADDRESSES[1], "WireGuard")


@contextmanager
def kernel(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """The kernel's own."""
    kernel_has("wireguard")
    add = ["ip", "link", "add", "wg0", "type", "wireguard"]
    try:
        for place in site.places:
            if (done := place.run(add, check=False)).returncode != 0:
                raise Unavailable(f"kernel {os.uname().release} has no WireGuard ({done.stderr.strip()})")
        _configure(site, ("wg0", "wg0"))
        yield Link(ADDRESSES, commands=(" ".join(add),), device="wg0")
    finally:
        for place in site.places:
            place.run(["ip", "link", "del", "wg0"], check=False)


def user_space(name: str, options: Sequence[str]) -> Callable[[Site, Mapping[str, Parameter]], AbstractContextManager[Link]]:
    """A program that serves the device by itself; each end's device has another name, after which its socket is called."""

    @contextmanager
    def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
        path = program(site.peers, name)
        devices = (f"wg{os.getpid() % 10000}a", f"wg{os.getpid() % 10000}b")
        started: list[subprocess.Popen[str]] = []
        try:
            for place, device in zip(site.places, devices, strict=True):
                started.append(_start(place, [path, *options, device], device))
            _configure(site, devices)
            pids = tuple(process.pid for process in started)
            yield Link(ADDRESSES, pids, commands=(f"{name} {' '.join(options)} DEVICE",))
        finally:
            for process in started:
                stop(process)

    return link


def _start(place: Place, command: list[str], device: str) -> subprocess.Popen[str]:
    process = place.popen(command, env={**os.environ, "WG_PROCESS_FOREGROUND": "1", "LOG_LEVEL": "error", "WG_SUDO": "1"})
    socket = f"/var/run/wireguard/{device}.sock"
    try:
        wait(lambda: exists(place, device) and os.path.exists(socket), timeout=15, what=f"device {device} of {command[0]}")
    except BaseException:
        stop(process)
        raise
    return process
