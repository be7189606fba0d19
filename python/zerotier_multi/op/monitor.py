"""A bundle live, once per second: on a terminal in place, otherwise block after block."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from zerotier_multi.op import data, table
from zerotier_multi.op.errors import disabled
from zerotier_multi.op.gather import Watcher, plan_of
from zerotier_multi.op.snapshot import Snapshot
from zerotier_multi.op.text import instance_word, warning_lines
from zerotier_multi.plan import Plan
from zerotier_multi.states import working

INTERVAL = 1.0
# A screen of its own without a cursor, where long lines are cut and not continued below; and back.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
_HEADERS = [
    "Nr", "State", "Paths\nup", "In\nMbit/s", "Out\nMbit/s", "In\npackets/s", "Out\npackets/s", "CPU\n%", "Device",
]  # fmt: skip


def block(snapshot: Snapshot, plan: Plan, colour: bool) -> str:
    """What is shown of one second; pure."""
    entry = data.bundle_entry(snapshot, plan)
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot.now))
    head = (
        f"{clock} {plan.bundle} {table.state(entry['state'], colour)}, "
        f"instances {entry['instances_up']}/{entry['instances_total']}, "
        f"paths {entry['paths_up']}/{entry['paths_total']}\n"
        f"in {table.mbit(entry['rate_in_bits'])} Mbit/s, out {table.mbit(entry['rate_out_bits'])} Mbit/s"
    )
    rows = [_row(snapshot, plan, number, colour) for number in range(len(plan.instances))]
    listed = table.table(_HEADERS, rows, "rlrrrrrrl") if rows else f"{disabled(plan.bundle)}."
    warnings = warning_lines([*data.general_warnings(snapshot), *entry["warnings"]], colour)
    return "\n".join(part for part in (head, listed, warnings) if part)


def _row(snapshot: Snapshot, plan: Plan, place: int, colour: bool) -> list[str]:
    instance = plan.instances[place]
    states = [data.path_state(snapshot, plan, path) for path in plan.paths if path.instance == instance.number]
    entry = data.instance_entry(snapshot, plan, instance)
    packets = (snapshot.rate(instance.device, counter) for counter in ("rx_packets", "tx_packets"))
    return [
        str(instance.number),
        table.state(instance_word(entry), colour),
        f"{working(states)}/{len(states)}",
        table.mbit(entry["rate_in_bits"]),
        table.mbit(entry["rate_out_bits"]),
        *("-" if rate is None else str(round(rate)) for rate in packets),
        table.dash(entry["cpu_percent"]),
        instance.device,
    ]


class Live:
    """Looks at a bundle again and again, each time by the plan that is in force then."""

    def __init__(self, bundle: str) -> None:
        self._bundle = bundle
        self._plan = plan_of(bundle)
        self._watcher = Watcher([self._plan])

    def block(self, colour: bool) -> str:
        """What is shown now. Raises :class:`~zerotier_multi.op.errors.NotConfigured` when the bundle is gone."""
        plan = plan_of(self._bundle)
        if plan != self._plan:
            self._plan, self._watcher = plan, Watcher([plan])
        return block(self._watcher.look(), plan, colour)


def monitor(bundle: str) -> None:
    """Show a bundle until q, Ctrl-C or the end of the reader. Raises :class:`~zerotier_multi.op.errors.OpError` kinds, also
    when the bundle is deleted meanwhile."""
    try:
        live = Live(bundle)
        if sys.stdout.isatty():
            _on_terminal(live)
        else:
            _in_blocks(live)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is flushed into it at the end


def _in_blocks(live: Live) -> None:
    while True:
        time.sleep(INTERVAL)
        print(live.block(False), end="\n\n", flush=True)


def _on_terminal(live: Live) -> None:
    colour = table.use_colour()
    with _screen():
        while True:
            begin = time.monotonic()
            _draw(f"{live.block(colour)}\n\nPress q to quit.")
            if _quit_within(max(0.0, INTERVAL - (time.monotonic() - begin))):
                return


def _draw(text: str) -> None:
    """Paint over what stands there, so that nothing flickers; what does not fit the screen is left out."""
    height = shutil.get_terminal_size().lines
    lines = text.split("\n")
    if len(lines) > height:
        lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines; enlarge the window"]
    sys.stdout.write(_HOME + f"{_CLEAR_LINE}\n".join(lines) + _CLEAR_LINE + _CLEAR_REST)
    sys.stdout.flush()


def _quit_within(seconds: float) -> bool:
    """Wait for so long; True when somebody has typed q meanwhile."""
    end = time.monotonic() + seconds
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        typed = os.read(sys.stdin.fileno(), 64)
        if not typed or b"q" in typed.lower():
            return True


@contextmanager
def _screen() -> Iterator[None]:
    """A screen of our own and keys without Return; the terminal is given back as it was, whatever happens."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
    handlers = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        if before:
            tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        yield
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        if before:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
