"""The daemon's state as metrics in a file for node_exporter's textfile collector."""

from __future__ import annotations

import logging
import os
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zerotier_multi import names
from zerotier_multi.files import write_atomic
from zerotier_multi.pathd.loop import Alarm
from zerotier_multi.states import WORKING, PathState, working
from zerotier_multi.usage import SYSFS, device_counters

log = logging.getLogger("pathd")

LEAST, MOST = 15.0, 60.0  # seconds between two writings: after a change of state, and without one
COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")

Data = Mapping[str, Any]
Counters = Mapping[str, Mapping[str, int]]  # device -> counter -> value
Sample = tuple[Data, float | None]  # what carries the labels, and the value; None where it is not known

_PATH = ("remote", "instance", "family", "device")
_INSTANCE = ("instance", "device")


def _entries(status: Data, kind: str) -> Iterator[Data]:
    for bundle, state in status["bundles"].items():
        for entry in state[kind]:
            yield {"bundle": bundle, **entry}


def _families(status: Data, counters: Counters) -> Iterator[tuple[str, str, str, tuple[str, ...], Iterable[Sample]]]:
    """(name, type, help, labels besides the bundle, samples) of every metric."""
    paths, instances = list(_entries(status, "paths")), list(_entries(status, "instances"))
    yield (
        "path_up", "gauge", "Whether the path carries traffic, or would as a backup.",
        _PATH, ((p, p["state"] in WORKING) for p in paths),
    )  # fmt: skip
    yield (
        "path_in_use", "gauge", "Whether the path carries traffic.",
        _PATH, ((p, p["state"] == PathState.UP) for p in paths),
    )  # fmt: skip
    yield (
        "path_backup", "gauge", "Whether the path is a backup, for this router or the remote.",
        _PATH, ((p, p["backup"]) for p in paths),
    )  # fmt: skip
    yield (
        "path_rtt_seconds", "gauge", "Smoothed round-trip time of the probes of the path.",
        _PATH, ((p, None if p["rtt_ms"] is None else p["rtt_ms"] / 1000) for p in paths),
    )  # fmt: skip
    yield (
        "path_loss_ratio", "gauge", "Share of the last 100 probes of the path that stayed without an answer.",
        _PATH, ((p, p["loss"]) for p in paths),
    )  # fmt: skip
    yield (
        "path_passes_bytes", "gauge", "Largest packet of a path on which packets of full size are lost; 0 where none of 1280 bytes passes.",
        _PATH, ((p, p["passes"] if p["state"] in (PathState.UP, PathState.NARROW) else None) for p in paths),
    )  # fmt: skip
    yield (
        "path_changes_total", "counter", "Changes of the state of the path since zerotier-pathd was started.",
        _PATH, ((p, p["changes"]) for p in paths),
    )  # fmt: skip
    yield (
        "path_falls_total", "counter", "Times that the path ceased to carry traffic, not drained, since zerotier-pathd was started.",
        _PATH, ((p, p["falls"]) for p in paths),
    )  # fmt: skip
    yield (
        "path_weight", "gauge", "Weight of the path in the group of its remote, beside those of the others; for IPv4 and IPv6 each.",
        _PATH, ((p, p["weight"]) for p in paths),
    )  # fmt: skip
    bundles = [({"bundle": name}, [p["state"] for p in state["paths"]]) for name, state in status["bundles"].items()]
    yield (
        "bundle_configured", "gauge", "Whether the bundle is configured; 0 once it has been deleted, until the next start.",
        (), (({"bundle": name}, there) for name, there in status["configured"].items()),
    )  # fmt: skip
    yield "bundle_paths", "gauge", "Paths of the bundle.", (), ((b, len(states)) for b, states in bundles)
    yield (
        "bundle_paths_up", "gauge", "Paths of the bundle that carry traffic, or would as a backup.",
        (), ((b, working(states)) for b, states in bundles),
    )  # fmt: skip
    yield (
        "bundle_prefixes_unrouted", "gauge", "Prefixes of remotes whose packets the kernel sends elsewhere or nowhere.",
        (), (({"bundle": name}, len(state["unrouted"])) for name, state in status["bundles"].items()),
    )  # fmt: skip
    yield (
        "instance_device_present", "gauge", "Whether the device of the instance is there.",
        _INSTANCE, ((i, i["device_present"]) for i in instances),
    )  # fmt: skip
    yield (
        "instance_load_ratio", "gauge", "Share of the time in which the instance works; with balance weights auto.",
        _INSTANCE, ((i, i["load"]) for i in instances),
    )  # fmt: skip
    yield (
        "instance_revivals_total", "counter", "Times that zerotier-pathd has started, restarted or killed the instance since that was started.",
        _INSTANCE, ((i, i["revivals"]) for i in instances),
    )  # fmt: skip
    for counter in COUNTERS:
        way, _, what = counter.partition("_")
        way = {"rx": "receive", "tx": "transmit"}[way]
        verb = {"receive": "received", "transmit": "sent"}[way]
        yield (
            f"device_{way}_{what}_total", "counter", f"{what.capitalize()} {verb} over the device since it was created.",
            _INSTANCE, ((i, counters.get(i["device"], {}).get(counter)) for i in instances),
        )  # fmt: skip
    yield "pathd_start_time_seconds", "gauge", "When zerotier-pathd was started, since 1970.", (), [({}, status["started"])]
    yield "problems", "gauge", "Changes that zerotier-pathd failed to apply.", (), [({}, len(status["problems"]))]


def render(status: Data, counters: Counters) -> str:
    """The file's text, from the daemon's status and the counters of the devices."""
    lines = []
    for name, kind, text, labels, samples in _families(status, counters):
        name = f"zerotier_multi_{name}"
        found = [f"{name}{_labels(of, labels)} {_number(value)}" for of, value in samples if value is not None]
        if found:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *found]
    return "\n".join(lines) + "\n"


def _labels(of: Data, labels: Iterable[str]) -> str:
    present = ("bundle", *labels) if "bundle" in of else ()
    return "{" + ",".join(f'{label}="{_escaped(of[label])}"' for label in present) + "}" if present else ""


def _number(value: float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(int(value))


def _escaped(value: object) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def read_counters(devices: Iterable[str], sysfs: Path = SYSFS) -> dict[str, dict[str, int]]:
    """Counters of the devices that are there."""
    found = {device: device_counters(device, COUNTERS, sysfs) for device in devices}
    return {device: counters for device, counters in found.items() if counters}


class MetricsFile:
    """Writes the file soon after :meth:`change` and regularly after that; ``status`` gives the daemon's status."""

    def __init__(self, loop: AbstractEventLoop, status: Callable[[], Data], path: Path = names.METRICS_FILE) -> None:
        self._loop, self._alarm, self._status, self._path = loop, Alarm(loop, self._work), status, path
        self._written: float | None = None
        self._changed = False
        self._told = False  # that it cannot be written

    def change(self, _what: object = None) -> None:
        """The state has changed."""
        self._changed = True
        self._set()

    def write(self) -> None:
        """Write it now: who ends the daemon leaves a file whose age says nothing, and nobody removes it."""
        self._work(self._loop.time())

    def _set(self) -> None:
        self._alarm.set(0.0 if self._written is None else self._written + (LEAST if self._changed else MOST))

    def _work(self, now: float) -> None:
        self._written, self._changed = now, False
        self._set()
        seen = self._status()
        text = render(seen, read_counters(entry["device"] for entry in _entries(seen, "instances")))
        try:
            if not write_atomic(self._path, text.encode()):
                os.utime(self._path)  # its age tells whether the daemon lives
            self._told = False
        except OSError as error:
            if not self._told:
                log.warning("%s cannot be written (%s)", self._path, error.strerror)
            self._told = True
