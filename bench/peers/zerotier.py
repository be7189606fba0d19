"""ZeroTier as it comes: one zerotier-one at each end, on one thread or on all cores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bench.ends import Site
from bench.instance import ADDRESSES, DEVICE, joined
from bench.peers.common import Link, Unavailable
from bench.results import Parameter


@contextmanager
def single(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """With its own settings."""
    with _link(site, {}) as link:
        yield link


@contextmanager
def multicore(site: Site, _parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """As its release notes tell to use several cores."""
    with _link(site, {"multicoreEnabled": True, "concurrency": max(2, os.cpu_count() or 2), "cpuPinningEnabled": True}) as link:
        yield link


@contextmanager
def _link(site: Site, settings: Mapping[str, object]) -> Iterator[Link]:
    if not site.stock:
        raise Unavailable("zerotier-one is not on PATH and not named; name it: make bench ZEROTIER_ONE=/path/zerotier-one")
    with joined(site.stock, (site.near.namespace, site.far.namespace), site.underlay, settings) as commands:
        yield Link(ADDRESSES, tuple(site.pids(["zerotier-one"])), (*commands[:1], f"local.conf: {dict(settings)}"), DEVICE)
