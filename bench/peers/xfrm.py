"""IPsec in the kernel: ESP in tunnel mode with AES-128-GCM, keys set by hand as an IKE daemon would."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.ends import Place, Site
from bench.peers.common import ADDRESSES, Link, Unavailable, kernel_has, reached
from bench.results import Parameter


@contextmanager
def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """States and policies between two addresses on the loopback devices."""
    for module in ("esp4", "esp4_offload", "xfrm_user"):
        kernel_has(module)
    keys = ["0x" + os.urandom(20).hex() for _ in range(2)]
    try:
        for place in site.places:
            _states(place, site.underlay, keys)
        for own, place in enumerate(site.places):
            _policies(place, own, site.underlay)
        reached(site.places[0], ADDRESSES[1], "IPsec")
        yield Link(ADDRESSES, commands=("ip xfrm state add src … dst … proto esp spi … mode tunnel aead 'rfc4106(gcm(aes))' …",))
    finally:
        for own, place in enumerate(site.places):
            for kind in ("state", "policy"):
                place.run(["ip", "xfrm", kind, "flush"], check=False)
            place.run(["ip", "address", "del", f"{ADDRESSES[own]}/32", "dev", "lo"], check=False)
            place.run(["ip", "route", "del", ADDRESSES[1 - own]], check=False)


def _states(place: Place, underlay: tuple[str, str], keys: list[str]) -> None:
    for way in (0, 1):
        done = place.run(
            ["ip", "xfrm", "state", "add", "src", underlay[way], "dst", underlay[1 - way], "proto", "esp", "spi", f"0x{way + 1:x}",
             "mode", "tunnel", "replay-window", "32", "aead", "rfc4106(gcm(aes))", keys[way], "128"],
            check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise Unavailable(f"kernel {os.uname().release} refuses ESP with AES-GCM ({done.stderr.strip()})")


def _policies(place: Place, own: int, underlay: tuple[str, str]) -> None:
    place.run(["ip", "address", "replace", f"{ADDRESSES[own]}/32", "dev", "lo"])
    place.run(["ip", "route", "replace", ADDRESSES[1 - own], "via", underlay[1 - own], "src", ADDRESSES[own]])
    for direction, way in (("out", own), ("in", 1 - own)):
        place.run(
            ["ip", "xfrm", "policy", "add", "src", ADDRESSES[way], "dst", ADDRESSES[1 - way], "dir", direction,
             "tmpl", "src", underlay[way], "dst", underlay[1 - way], "proto", "esp", "mode", "tunnel"]
        )  # fmt: skip
