"""``python3 -m zerotier_multi.pathd``: what zerotier-pathd.service runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

# asyncio works without TLS, which the daemon does not use: 1.2 MiB less memory. This comes before the first import of asyncio.
sys.modules["ssl"] = None  # type: ignore[assignment]

import asyncio  # noqa: E402

from zerotier_multi.pathd.failures import SOUND, Failures  # noqa: E402
from zerotier_multi.version import VERSION  # noqa: E402


class _Journal(logging.Formatter):
    """Lines with the priority prefix of sd-daemon(3), so that journalctl -p can filter."""

    _LEVELS = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}

    def format(self, record: logging.LogRecord) -> str:
        return f"<{self._LEVELS.get(record.levelno, 3)}>{super().format(record)}"


USAGE = """usage: zerotier_multi.pathd                   run the daemon, as zerotier-pathd.service does
       zerotier_multi.pathd -h | --help | -v | --version
"""


def main(arguments: Sequence[str]) -> int:
    """Run the daemon."""
    if arguments:
        asked = arguments[0] in ("-h", "--help", "-v", "--version")
        text = f"zerotier-pathd {VERSION}\n" if arguments[0] in ("-v", "--version") else USAGE
        print(text, end="", file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Journal("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    failures = Failures()
    try:
        from zerotier_multi.pathd.daemon import Daemon  # what cannot be imported is a failure too

        loop = asyncio.new_event_loop()
        loop.call_soon(loop.call_later, SOUND, failures.clear)  # the loop turns when the daemon is ready
        Daemon(loop).run()
    except (Exception, SystemExit) as error:
        failures.wait(error)
        raise
    failures.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
