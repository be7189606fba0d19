"""Whether a probe comes from the router that our own probes reach; pure.

A transit network may have members besides the two ends of a path, and any of them can send with another's address. But
what we send to the remote reaches the remote alone. So each side puts a random token of its own into its probes, and
echoes the other's: who echoes ours has read what we sent to that address.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


def _new_token() -> int:
    return secrets.randbits(64) or 1


@dataclass(slots=True)
class Trust:
    """The two tokens of one path. ``echo`` is the remote's as far as it is known, 0 before."""

    token: int = field(default_factory=_new_token)
    echo: int = 0
    _proven: bool = False

    def hear(self, token: int, echo: int) -> bool:
        """A probe with these came over the path: whether its words may be believed.

        A first token is echoed whoever it comes from, or two routers that start would never agree; one that came with a
        proof gives way only to another with a proof. A remote that starts again learns our token from our probes.
        """
        proof = echo == self.token
        if token and (proof or not self._proven):
            self.echo = token
            self._proven = proof
        return proof
