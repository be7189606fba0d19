"""How each scenario is measured: a function that takes a link and yields readings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.measure import commit, evenness, latency, load, loopback, memory, profile, scaling, stalls
from bench.measure.common import Context, Reading

MEASURES: Mapping[str, Callable[[Context], Iterator[Reading]]] = {
    "throughput": load.throughput,
    "forwarded": load.forwarded,
    "pinned": load.pinned,
    "transfer-1gb": load.transfer,
    "memory": memory.measure,
    "scaling": scaling.measure,
    "loopback": loopback.measure,
    "evenness": evenness.measure,
    "latency": latency.measure,
    "stalls": stalls.measure,
    "commit": commit.measure,
    "trusted-path": load.throughput,
    "profile": profile.measure,
}
