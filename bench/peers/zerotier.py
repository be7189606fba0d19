"""ZeroTier as it comes: one zerotier-one at each end, on one thread or on all cores; and one of ours without the product.

``trusted_path`` says whether the underlay is one on which packets are neither encrypted nor authenticated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.ends import Site
from bench.instance import ADDRESSES, DEVICE, joined
from bench.peers.common import Link, Unavailable
from bench.results import Parameter


@contextmanager
def single(site: Site, parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """With its own settings."""
    with _link(site, _stock(site), {}, parameters) as link:
        yield link


@contextmanager
def ztnode(site: Site, parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """The program of the first router's package, in the place of zerotier-one."""
    with _link(site, str(site.near.root / "usr/sbin/ztnode"), {}, parameters) as link:
        yield link


@contextmanager
def multicore(site: Site, parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    """As its release notes tell to use several cores; not pinned: both ends are on one machine, and would pin to the same cores."""
    settings = {"multicoreEnabled": True, "concurrency": max(2, os.cpu_count() or 2), "cpuPinningEnabled": False}
    with _link(site, _stock(site), settings, parameters) as link:
        yield link


def _stock(site: Site) -> str:
    if not site.stock:
        raise Unavailable("zerotier-one is not on PATH and not named; name it: make bench ZEROTIER_ONE=/path/zerotier-one")
    return site.stock


@contextmanager
def _link(site: Site, engine: str, settings: Mapping[str, object], parameters: Mapping[str, Parameter]) -> Iterator[Link]:
    physical = (
        {f"{address}/32": {"trustedPathId": 101} for address in site.underlay} if parameters.get("trusted_path") == "on" else {}
    )
    spaces = (site.near.namespace, site.far.namespace)
    with joined(engine, spaces, site.underlay, settings, physical) as commands:
        conf = f"local.conf: {dict(settings)} {physical}"
        yield Link(ADDRESSES, tuple(site.pids([Path(engine).name])), commands=(*commands[:1], conf), device=DEVICE)
