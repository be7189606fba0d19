"""Tailscale: its daemon needs a control server, which here would be headscale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.ends import Site
from bench.peers.common import Link, Unavailable, program
from bench.results import Parameter


@contextmanager
def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """Not yet: says what is missing."""
    for name in ("headscale", "tailscaled", "tailscale"):
        program(site, name)
    raise Unavailable("Tailscale with headscale is not measured by this version")
    yield  # a generator
