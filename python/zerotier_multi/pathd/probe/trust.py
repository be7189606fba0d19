"""Whether a probe comes from the router that our own probes reach; pure.

A transit network may have members besides the two ends of a path, and any of them can send with another's address. But
what we send to the remote reaches the remote alone. So each side puts a random token of its own into its probes, and
echoes the other's: who echoes ours has read what we sent to that address.

ZeroTier takes a packet a second time, so anybody who could read the underlay may repeat one. A remote that starts again
has another token; with the same token an older probe is a repeated one, and so is any with a token of an earlier start.

A virtual machine that goes back to a snapshot with memory looks like a repeated recording: it has the token and the time of
then, and it may wait for an echo of a token that we have no more. Where such probes go on and none is believed, we take a
new token: whoever echoes that one has read it now, whatever token and time he has. And where none is believed, a token that
comes without a proof is echoed, as a first one is, in turn with the one that was believed.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field

from zerotier_multi.pathd.probe.twin import Twin

LATE = 10**9  # ns by which a probe may be older than the last one; two sockets bring them
MEANWHILE = 3.0  # seconds in which a remote is heard that is there
SILENT = 5.0  # seconds without a probe that is believed, besides two intervals of the remote, after which another token is echoed
SLOWEST = 10.0  # seconds of the longest interval
OUTDATED = 4.0  # seconds for which ones with a proof that may be repeated go on until we take a new token
RENEWAL = 60.0  # seconds at least from one new token of ours to the next
_STARTS = 64  # of the remote, whose tokens are kept in mind
_OWN = 8  # former tokens of ours that are


def _new_token() -> int:
    return secrets.randbits(64) or 1


@dataclass(slots=True)
class Trust:
    """The two tokens of one path. ``echo`` is the remote's as far as it is known, 0 before."""

    token: int = field(default_factory=_new_token)
    echo: int = 0
    renewed: bool = False  # the probe last believed is the first of a start of the remote, or of one that has gone back in time
    _proven: int = 0  # the token that came with a proof
    _sent: int = 0  # when the newest probe with it was sent, in ns of the remote's clock
    _former: dict[int, int] = field(default_factory=dict)  # tokens of former starts, and when the newest probe with each was sent
    _own: list[int] = field(default_factory=list)  # former tokens of ours, the last one at the end
    _own_at: float = -math.inf  # when we took the present one
    _asked: bool = False  # ours is new, and nobody has echoed it yet: who does is there now
    _outdated: Twin | None = None  # signs that one whose probes look repeated is the remote
    _heard: float = -math.inf  # when a probe was last believed, monotonic seconds
    _pace: float = 0.0  # seconds between two of those, about
    remote_twin: Twin = field(default_factory=Twin)  # signs that two routers have the remote's identity
    own_twin: Twin = field(default_factory=Twin)  # that another one has ours

    def hear(self, token: int, echo: int, sent: int, now: float = 0.0) -> bool:
        """A probe with these came over the path: whether its words may be believed. ``sent`` is in ns of the sender's clock,
        ``now`` in monotonic seconds.

        A first token is echoed whoever it comes from, or two routers that start would never agree; one that came with a
        proof gives way only to another with a proof, or while the remote is silent. A remote that starts again learns our
        token from our probes.
        """
        if echo != self.token:
            self._unproven(token, echo, sent, now)
            return False
        back = token == self._proven and sent < self._sent - LATE
        if (back or token in self._former) and not self._asked:
            if sent > self._former.get(token, sent):
                self._former[token] = sent
                self.remote_twin.sign(token, sent, now)
            self._is_outdated(token, sent, now)
            return False
        if sent > self._sent or back:
            self._pace = min(max(now - self._heard, 0.75 * self._pace), SLOWEST)
        self._asked, self._outdated, self._heard = False, None, now
        self.renewed = back or token != self._proven
        if self.renewed:
            self._begin(token, now)
        self._sent = max(self._sent, sent)
        if token:
            self.echo = token
        return True

    def mine(self, token: int) -> bool:
        """Whether an answer to a probe of ours has our token; one to a probe from before it was new is on its way for a while."""
        return token == self.token or token in self._own[-1:]

    def _unproven(self, token: int, echo: int, sent: int, now: float) -> None:
        if token and not self._proven:
            self.echo = token
        elif token:
            lately = now - self._heard <= MEANWHILE
            if token in self._former:
                if lately and sent > self._former[token] and echo in self._own:
                    self._former[token] = sent
                    self.remote_twin.sign(token, sent, now)  # it has not heard of our new token, which another one knows
            elif token == self._proven and echo in self._own:
                pass  # sent before it could know our new one
            elif token == self._proven and echo and sent > self._sent:
                self.own_twin.sign(token, sent, now)  # the remote knows us, and believes somebody else in our place
            elif lately:
                self.remote_twin.sign(token, sent, now)  # ZeroTier sends to one of two, and the other hears nothing of us
            self._offer(token, now)

    def _is_outdated(self, token: int, sent: int, now: float) -> None:
        """A probe with a proof may be a repeated one, or its sender may have gone back in time."""
        if now - self._heard <= MEANWHILE + 2 * self._pace:
            return
        if self._outdated is None:
            self._outdated = Twin(OUTDATED)
        self._outdated.sign(token, sent, now)
        if self._outdated.seen(now) and now - self._own_at >= RENEWAL:
            self._renew(now)
            self._asked, self._outdated = True, None
        self._offer(token, now)

    def _offer(self, token: int, now: float) -> None:
        """Echo a token that is not believed, while nobody is. The one that was is echoed as often: it may be there again."""
        if now - self._heard > SILENT + 2 * self._pace:
            self.echo = token if secrets.randbits(1) else self._proven

    def _begin(self, token: int, now: float) -> None:
        """The remote has another token, or another time."""
        self._former.pop(token, None)
        if self._proven and token != self._proven:
            self._former[self._proven] = self._sent
        if len(self._former) > _STARTS:
            while len(self._former) > _STARTS // 2:
                del self._former[next(iter(self._former))]
            self._renew(now)  # probes with those that are forgotten prove nothing any more
        self._proven, self._sent = token, 0

    def _renew(self, now: float) -> None:
        self._own = [*self._own[1 - _OWN :], self.token]
        self.token, self._own_at = _new_token(), now
