"""Whether a path has two routers at one end: an identity that is in two places, as after a copy of a disk; pure.

Each run of a daemon sends one token over a path (:mod:`trust`). A router that starts again has another one, and the former
is never heard again. Where two routers use one identity, two tokens are heard at the same time. ZeroTier answers one of the
two, so seldom both have a proof; the one that is answered is told (:data:`wire.TWIN`), and may see that the remote, the same
as ever, echoes a token that is not its own.

What counts is that the second sender goes on, by its own clock as well as by ours, while the first is there: a packet that
was late, a repeated one, a restart, another address or another uplink are no reason; nor is a virtual machine that goes back
to a snapshot, which is believed again before that. Where a transit network has members besides the two ends, one of them may
send with the remote's address; that looks the same.
"""

from __future__ import annotations

from dataclasses import dataclass

SPAN = 10.0  # seconds that it must go on before it is said
STALE = 60.0  # seconds without a sign after which it is not said any more
_PACE = 0.5  # at least so many seconds by the sender's clock in a second of ours: a repeated recording has no more than its length


@dataclass(slots=True)
class Twin:
    """The signs on one path, which count after ``span`` seconds. Times are monotonic seconds; ``sent`` in ns of the sender's clock."""

    span: float = SPAN
    _token: int = 0  # who is heard although another has taken its place
    _since: float = 0.0
    _sent_since: int = 0
    _last: float = 0.0
    _sent: int = 0

    def sign(self, token: int, sent: int, now: float) -> None:
        """A probe that a sender who was thought to be gone, or to know us, has sent."""
        if token != self._token or now - self._last > STALE or sent < self._sent_since:
            self._token, self._since, self._sent_since = token, now, sent
            self._sent, self._last = sent, now
        elif sent > self._sent:
            self._sent, self._last = sent, now

    def seen(self, now: float) -> bool:
        """Whether there are two routers."""
        span = self._last - self._since
        return span >= self.span and now - self._last <= STALE and (self._sent - self._sent_since) / 1e9 >= _PACE * span
