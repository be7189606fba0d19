"""Time of commits, and how it grows with instances, remotes and prefixes. No link is needed for it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure.common import Context, Reading
from lab.scenario import NETWORK

ZT = "set interfaces zerotier zt0"


def configuration(instances: int, remotes: int, prefixes: int) -> str:
    """A bundle on a controller's network: a subnet for all its sites, remotes by their numbers, prefixes spread over them."""
    length = max(24 - instances.bit_length(), 8)
    lines = [f"{ZT} instances {instances}", f"{ZT} network-id {NETWORK}", f"{ZT} transit prefix 10.0.0.0/{length - 1}"]
    lines += [f"{ZT} transit subnet-length 24", f"{ZT} transit site 1"]
    for number in range(remotes):
        lines.append(f"{ZT} remote R{number + 2} site {number + 2}")
    for number in range(prefixes):
        lines.append(f"{ZT} remote R{number % remotes + 2} prefix 172.{16 + number // 256}.{number % 256}.0/24")
    return "\n".join(lines) + "\n"


def measure(context: Context) -> Iterator[Reading]:
    """The first commit of a configuration, a small change, and its deletion."""
    words = {name: int(context.subject.parameters[name]) for name in ("instances", "remotes", "prefixes")}
    router = context.site.near
    text = configuration(**words)
    try:
        for kind, script in (
            ("first", text),
            ("small change", f"{ZT} description x\n"),
            ("deletion", "delete interfaces zerotier\n"),
        ):
            seconds = router.must_configure(script, timeout=300.0).seconds
            yield context.main(seconds, {"commit": kind}, tuple(script.splitlines()[:8]))
    finally:
        router.configure("delete interfaces zerotier\n", timeout=300.0)
