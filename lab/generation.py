"""The generation of a namespace's IPv6 routes, which must not come to be that of the machine's own while flows run.

A cached IPv6 route over a next-hop object is good as long as its generation is that of its namespace, which every new IPv6
route raises. Linux asks rt6_is_valid() in net/ipv6/route.c, which takes the namespace from the route's device. A cached route
that was let go (dst_dev_put()) has the blackhole device, and that is in the namespace of the machine. So if both generations
are equal for a moment, sockets inside keep such a route for as long as the machine's own routes stay as they are, and all that
they send is discarded. A router that is a machine has one namespace, and so only one generation.
"""

from __future__ import annotations

from lab.process import run

AHEAD = 1024  # IPv6 routes that a machine has seldom made since its start
_PREFIX = "2001:db8:ffff::/128"


def run_ahead(namespace: str) -> None:
    """Raise the generation of a new namespace beyond what the machine's own is likely to be."""
    turn = f"route add unreachable {_PREFIX}\nroute del unreachable {_PREFIX}\n"
    run(["ip", "-netns", namespace, "-6", "-batch", "-"], text_input=turn * AHEAD)
