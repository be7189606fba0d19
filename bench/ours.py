"""The product as a subject: a bundle of N instances between the two routers, made by a commit at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.ends import Site
from bench.peers.common import Link, Unavailable
from bench.results import Parameter
from lab.lan import Lan
from lab.scenario import example, introduce, loopback, reach, wait_paths

ZT = "set interfaces zerotier zt0"
TRANSIT = "10.14.0.0/26"  # room for 16 instances
FIRST_TRANSIT = ("10.14.0.1", "10.14.0.2")  # of instance 1
DEVICE = "zt0"
ENGINES = ("ztnode", "zerotier-one")
DAEMON = "zerotier_multi.pathd"


def lines(parameters: Mapping[str, Parameter]) -> str:
    """Configuration besides the example's: ``weights`` and ``mtu`` where a subject names them.

    Both routers share the cores of this machine, so instances are not pinned: instance K of both would have the same core.
    """
    words = {"weights": "balance weights", "mtu": "mtu"}
    given = [f"{ZT} {words[name]} {parameters[name]}\n" for name in words if name in parameters]
    return "".join([f"{ZT} cpu affinity none\n", *given])


@contextmanager
def link(site: Site, parameters: Mapping[str, Parameter], lans: tuple[Lan, Lan] | None = None) -> Iterator[Link]:
    """A bundle that carries traffic over all its paths, with the LANs as prefixes of the remotes."""
    count, engine = int(parameters.get("instances", 1)), str(parameters.get("engine", "ztnode"))
    if engine == "zerotier-one" and not site.stock:
        raise Unavailable("zerotier-one is not on PATH and not named; name it: make bench ZEROTIER_ONE=/path/zerotier-one")
    near, far = site.routers
    text = {}
    for own, router in enumerate(site.routers):
        other = site.routers[1 - own]
        text[router.name] = example(router, [other], count, transit=(TRANSIT,), engine=engine) + lines(parameters)
        if lans:
            text[router.name] += f"{ZT} remote {other.name} prefix {lans[1 - own].prefix}\n"
    try:
        for router in site.routers:
            router.must_configure(text[router.name])
        introduce(site.routers, count, endpoints="4")
        wait_paths(site.routers, count, timeout=40)
        for router, other in ((near, far), (far, near)):
            reach(router, loopback(router), loopback(other))
        yield Link(
            (loopback(near), loopback(far)), tuple(site.pids(ENGINES)), tuple(site.pids([DAEMON])),
            tuple(text[near.name].splitlines()), DEVICE,
        )  # fmt: skip
    finally:
        for router in site.routers:
            router.configure("delete interfaces zerotier")
