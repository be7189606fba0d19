"""Waiting until routers themselves send nothing more over devices that are to go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from zerotier_multi.usage import device_counters

QUIET = 0.02  # seconds without a packet
_STEP = 0.002


def packets(device: str) -> int:
    """Packets that have come and gone over a device; none where there is no such."""
    return sum((device_counters(device, ("rx_packets", "tx_packets")) or {}).values())


async def wait_until_quiet(
    devices: Iterable[str],
    patience: float,
    count: Callable[[str], int] = packets,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bool:
    """Wait, ``patience`` seconds at most, until each device has carried nothing for :data:`QUIET` seconds; whether each has.

    What is forwarded leaves a next hop at once. But a router's own sockets, here and at the far end, keep an IPv6 route
    over a next hop that was deleted until the kernel frees it (RCU; 10 to 20 ms were seen).
    """
    now = clock()
    end = now + patience
    seen = {device: (count(device), now) for device in devices}
    while seen and now < end:
        await sleep(_STEP)
        now = clock()
        for device, (last, since) in list(seen.items()):
            if (at_present := count(device)) != last:
                seen[device] = at_present, now
            elif now - since >= QUIET:
                del seen[device]
    return not seen
