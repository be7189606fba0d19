"""asyncio's event loop with a clock that a test sets, and that turns only when the test says so."""

from __future__ import annotations

import asyncio
import select


class Loop(asyncio.SelectorEventLoop):
    """What is due at ``now`` and what is ready happens in :meth:`turn`."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        super().__init__()

    def time(self) -> float:
        """The time in seconds, as the test has set it."""
        return self.now

    def turn(self, patience: float = 0.0) -> bool:
        """Handle what is ready, after waiting up to ``patience`` real seconds for it, and all that follows.

        Returns whether a file was ready.
        """
        ready = self._ready_files(patience)
        while True:
            self.stop()
            self.run_forever()
            if not (self._ready or self._ready_files(0)):
                return ready

    def _ready_files(self, patience: float) -> bool:
        return bool(select.select([self._selector], [], [], patience)[0])

    @property
    def watched(self) -> int:
        """Files that are watched."""
        return len(self._selector.get_map()) - 1  # one is the loop's own
