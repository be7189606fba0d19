"""``python3 -m zerotier_multi.pathd``: what zerotier-pathd.service runs."""

from __future__ import annotations

import logging
import sys

from zerotier_multi.pathd.daemon import Daemon


class _Journal(logging.Formatter):
    """Lines with the priority prefix of sd-daemon(3), so that journalctl -p can filter."""

    _LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}

    def format(self, record: logging.LogRecord) -> str:
        return f"<{self._LEVELS.get(record.levelno, 3)}>{super().format(record)}"


def main() -> int:
    """Run the daemon."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Journal("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    Daemon().run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
