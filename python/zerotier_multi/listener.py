"""Who listens on a port of loopback: a token is told to nobody but root.

While an instance does not run anybody may take its port, and would be told its token.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_LISTENING = "0A"


def listens_as_root(port: int, table: Path = Path("/proc/self/net/tcp")) -> bool:
    """Whether nobody but root listens on a TCP port of loopback. Raises OSError."""
    places = (f"0100007F:{port:04X}", f"00000000:{port:04X}")
    users = {words[7] for words in _rows(table) if words[3] == _LISTENING and words[1] in places}
    return users == {"0"}


def _rows(table: Path) -> Iterable[list[str]]:
    """Rows of the kernel's table of TCP sockets: 1 is the local address, 3 the state, 7 the user."""
    return [words for line in table.read_text().splitlines()[1:] if len(words := line.split()) > 7]
