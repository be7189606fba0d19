"""OpenVPN, point to point with AES-128-GCM: in user space, and with data channel offload in the kernel."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.ends import Site, stop
from bench.peers.common import ADDRESSES, Link, Unavailable, exists, kernel_has, program, reached
from bench.results import Parameter
from lab.process import run, wait

DEVICE, PORT = "tun0", 1194
OPTIONS = (
    "--dev", DEVICE, "--dev-type", "tun", "--proto", "udp", "--topology", "subnet", "--data-ciphers", "AES-128-GCM",
    "--sndbuf", "0", "--rcvbuf", "0", "--txqueuelen", "1000", "--ping", "10", "--verb", "0",
)  # fmt: skip


@contextmanager
def user_space(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """As it is on every kernel."""
    with _link(site, ["--disable-dco", "--fast-io"]) as link:
        yield link


@contextmanager
def with_dco(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """With the kernel's module, where there is one."""
    for module in ("ovpn", "ovpn-dco-v2"):
        kernel_has(module)
    if not (done := site.places[0].run(["ip", "link", "add", "ovpn0", "type", "ovpn-dco"], check=False)).returncode:
        site.places[0].run(["ip", "link", "del", "ovpn0"])
    else:
        raise Unavailable(
            f"kernel {os.uname().release} has no module that OpenVPN's data channel offload uses ({done.stderr.strip()})"
        )
    with _link(site, []) as link:
        yield link


@contextmanager
def _link(site: Site, options: list[str]) -> Iterator[Link]:
    path = program(site.peers, "openvpn")
    started: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory() as directory:
        prints = [_certificate(Path(directory), name) for name in ("near", "far")]
        try:
            for own, (place, name) in enumerate(zip(site.places, ("near", "far"), strict=True)):
                certificate = ["--cert", f"{directory}/{name}.crt", "--key", f"{directory}/{name}.key"]
                role = ["--tls-server", "--dh", "none"] if own else ["--tls-client", "--remote", site.underlay[1], str(PORT)]
                addresses = ["--ifconfig", ADDRESSES[own], "255.255.255.0"]
                command = [path, *OPTIONS, *options, *role, *certificate, "--peer-fingerprint", prints[1 - own], *addresses]
                started.append(place.popen([*command, "--port" if own else "--lport", str(PORT) if own else "0"]))
            for place in site.places:
                wait(lambda p=place: exists(p, DEVICE), timeout=15, what="device of OpenVPN")
            reached(site.places[0], ADDRESSES[1], "OpenVPN", timeout=30)
            yield Link(
                ADDRESSES, tuple(p.pid for p in started), commands=(f"openvpn {' '.join([*OPTIONS, *options])} …",), device=DEVICE
            )
        finally:
            for process in started:
                stop(process)


def _certificate(directory: Path, name: str) -> str:
    """Make a key and its certificate; its SHA-256 fingerprint."""
    run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
         "-keyout", f"{directory}/{name}.key", "-out", f"{directory}/{name}.crt"]
    )  # fmt: skip
    text = run(["openssl", "x509", "-in", f"{directory}/{name}.crt", "-noout", "-fingerprint", "-sha256"]).stdout
    return text.strip().partition("=")[2]
