"""Whether a probe comes from the router that our own probes reach; pure.

A transit network may have members besides the two ends of a path, and any of them can send with another's address. But
what we send to the remote reaches the remote alone. So each side puts a random token of its own into its probes, and
echoes the other's: who echoes ours has read what we sent to that address.

ZeroTier takes a packet a second time, so anybody who could read the underlay may repeat one. A remote that starts again
has another token; with the same token an older probe is a repeated one, and so is any with a token of an earlier start.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass, field

LATE = 10**9  # ns by which a probe may be older than the last one; two sockets bring them
_STARTS = 64  # of the remote, whose tokens are kept in mind


def _new_token() -> int:
    return secrets.randbits(64) or 1


@dataclass(slots=True)
class Trust:
    """The two tokens of one path. ``echo`` is the remote's as far as it is known, 0 before."""

    token: int = field(default_factory=_new_token)
    echo: int = 0
    renewed: bool = False  # the probe last believed is the first of a start of the remote
    _proven: int = 0  # the token that came with a proof
    _sent: int = 0  # when the newest probe with it was sent, in ns of the remote's clock
    _former: deque[int] = field(default_factory=lambda: deque(maxlen=_STARTS))

    def hear(self, token: int, echo: int, sent: int) -> bool:
        """A probe with these came over the path: whether its words may be believed. ``sent`` is in ns of the sender's clock.

        A first token is echoed whoever it comes from, or two routers that start would never agree; one that came with a
        proof gives way only to another with a proof. A remote that starts again learns our token from our probes.
        """
        proof = echo == self.token
        if not proof:
            if token and not self._proven:
                self.echo = token
            return False
        if token in self._former or token == self._proven and sent < self._sent - LATE:
            return False
        self.renewed = token != self._proven
        if self.renewed:
            if self._proven:
                self._former.append(self._proven)
            self._proven, self._sent = token, 0
        self._sent = max(self._sent, sent)
        if token:
            self.echo = token
        return True
