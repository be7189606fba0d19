"""Whether a probe comes from the router that our own probes reach; pure.

A transit network may have members besides the two ends of a path, and any of them can send with another's address. But
what we send to the remote reaches the remote alone. So each side puts a random token of its own into its probes, and
echoes the other's: who echoes ours has read what we sent to that address.

ZeroTier takes a packet a second time, so anybody who could read the underlay may repeat one. A remote that starts again
has another token; with the same token an older probe is a repeated one, and so is any with a token of an earlier start.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field

from zerotier_multi.pathd.probe.twin import Twin

LATE = 10**9  # ns by which a probe may be older than the last one; two sockets bring them
MEANWHILE = 3.0  # seconds in which a remote is heard that is there
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
    _former: dict[int, int] = field(default_factory=dict)  # tokens of former starts, and when the newest probe with each was sent
    _heard: float = -math.inf  # when a probe was last believed, monotonic seconds
    remote_twin: Twin = field(default_factory=Twin)  # signs that two routers have the remote's identity
    own_twin: Twin = field(default_factory=Twin)  # that another one has ours

    def hear(self, token: int, echo: int, sent: int, now: float = 0.0) -> bool:
        """A probe with these came over the path: whether its words may be believed. ``sent`` is in ns of the sender's clock,
        ``now`` in monotonic seconds.

        A first token is echoed whoever it comes from, or two routers that start would never agree; one that came with a
        proof gives way only to another with a proof. A remote that starts again learns our token from our probes.
        """
        proof = echo == self.token
        if not proof:
            if token and not self._proven:
                self.echo = token
            elif token and token == self._proven and echo and sent > self._sent:
                self.own_twin.sign(token, sent, now)  # the remote knows us, and believes somebody else in our place
            elif token and token not in self._former and now - self._heard <= MEANWHILE:
                self.remote_twin.sign(token, sent, now)  # ZeroTier sends to one of two, and the other hears nothing of us
            return False
        if token in self._former:
            if sent > self._former[token]:
                self._former[token] = sent
                self.remote_twin.sign(token, sent, now)
            return False
        if token == self._proven and sent < self._sent - LATE:
            return False
        self._heard = now
        self.renewed = token != self._proven
        if self.renewed:
            if self._proven:
                self._former[self._proven] = self._sent
                while len(self._former) > _STARTS:
                    del self._former[next(iter(self._former))]
            self._proven, self._sent = token, 0
        self._sent = max(self._sent, sent)
        if token:
            self.echo = token
        return True
