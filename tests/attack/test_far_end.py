"""A remote whose root is hostile: what it sends over the paths changes nothing at our end."""

from __future__ import annotations

from lab import Router
from lab.scenario import loopback, loopback6, reach


def test_the_link_carries_traffic(pair: list[Router]) -> None:
    first, second = pair
    reach(first, loopback(first), loopback(second))
    reach(first, loopback6(first), loopback6(second))
