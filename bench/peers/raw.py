"""The underlay itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.ends import Site
from bench.peers.common import Link
from bench.results import Parameter


@contextmanager
def link(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """Nothing between."""
    yield Link(site.underlay, device="eth0")
