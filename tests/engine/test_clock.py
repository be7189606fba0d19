"""The wall clock of a router is set by hours while an engine runs: at a boot with a battery that is empty, or a BIOS in local time."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.process import run, wait
from tests.engine.test_contract import Node, engine, hosts, longest_silence, pair, reaches  # noqa: F401 (fixtures)

HOUR = 3600


class Clock:
    """The wall clock of the engines that start while it is here; everybody else's is right."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._error, library = folder / "error", folder / "clock.so"
        self.set(0)
        run(["gcc", "-shared", "-fPIC", "-O2", "-o", str(library), str(Path(__file__).with_name("clock.c"))])
        monkeypatch.setenv("CLOCK_ERROR", str(self._error))
        monkeypatch.setenv("LD_PRELOAD", str(library))

    def set(self, seconds: int) -> None:
        """Let it be ahead by so many seconds."""
        with self._error.open("r+b" if self._error.exists() else "wb") as file:  # the same file: it is mapped
            file.write(struct.pack("=q", seconds))
        self.ahead = seconds

    def now(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[Clock]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Clock(tmp_path, monkeypatch)


def path_in_use(node: Node) -> dict[str, Any]:
    status, peers = node.get("/peer")
    assert status == 200 and isinstance(peers, list)
    (path,) = [path for peer in peers for path in peer["paths"] if path["preferred"]]
    return dict(path)


@pytest.mark.only_ztnode
@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR, 400 * 24 * HOUR, -400 * 24 * HOUR])
def test_a_clock_that_is_set_stops_no_traffic(
    clock: Clock,
    ahead: int,
    pair: Callable[..., tuple[Node, Node]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``ahead`` is how far it is ahead before; both ends are one router's worth of the same mistake."""
    clock.set(ahead)
    a, b = pair()
    for name in ("LD_PRELOAD", "CLOCK_ERROR"):
        monkeypatch.delenv(name)  # ping has the right time
    assert abs(a.get("/status")[1]["clock"] / 1000 - clock.now()) < 5  # type: ignore[index]
    assert longest_silence(a, b, lambda: clock.set(0), limit=15) < 3
    # What the API says is by the clock as it is set now.
    assert abs(a.get("/status")[1]["clock"] / 1000 - time.time()) < 5  # type: ignore[index]
    assert reaches(a)
    assert -1 < time.time() - path_in_use(a)["lastReceive"] / 1000 < 10
    # A path that dies is still seen, and one that comes back.
    b.host.run("ip", "link", "set", "eth0", "down")
    wait(
        lambda: not any(p["preferred"] for peer in a.get("/peer")[1] for p in peer["paths"]), timeout=10, what="the end of the path"
    )  # type: ignore[attr-defined,index]
    b.host.run("ip", "link", "set", "eth0", "up")
    wait(lambda: reaches(a), timeout=10, what="echo over the path that came back")
