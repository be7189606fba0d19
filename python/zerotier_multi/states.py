"""The words for states, as the daemon, op mode, scripts, metrics and the journal have them; pure.

Each is a text, so that it is written to JSON and to tables as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class PathState(StrEnum):
    """A path from one instance to one remote."""

    UP = "up"  # it carries traffic
    BACKUP = "backup"  # it works, and carries traffic once no other path to the remote does
    NO_ROUTE = "no route"  # its probes are answered, but the kernel sends nothing over it
    WAITING = "waiting"  # for the other paths to the remote, or for its device
    DRAINED = "drained"  # carries nothing new, because its instance is to be restarted
    HELD = "held down"  # answers come, but it has fallen too often
    NARROW = "narrow"  # packets of full size are lost on it, and not on another to the same remote
    REMOTE_DOWN = "remote down"  # the remote does not hear us over it
    DOWN = "down"  # no answer to its probes
    NO_DEVICE = "no device"
    UNKNOWN = "unknown"  # the daemon does not say

    @property
    def answered(self) -> bool:
        """Whether the probes of a path in this state are answered and nobody keeps it out of use."""
        return self.works or self is PathState.NO_ROUTE

    @property
    def works(self) -> bool:
        """Whether a path in this state carries traffic, or waits for its turn as a backup."""
        return self in WORKING

    @property
    def probed(self) -> bool:
        """Whether a path in this state has been judged by its probes."""
        return self not in (PathState.NO_DEVICE, PathState.WAITING, PathState.DRAINED)


WORKING = (PathState.UP, PathState.BACKUP)


class BundleState(StrEnum):
    """A bundle, by its paths; an instance too, by what it needs to carry traffic."""

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


class LinkState(StrEnum):
    """A network device."""

    UP = "up"
    LINK_DOWN = "link down"
    ADMIN_DOWN = "admin down"
    NO_DEVICE = "no device"
    DISABLED = "disabled"


class NetworkState(StrEnum):
    """Where an instance is on the network of a controller."""

    UP = "up"
    NO_PATH = "no path"
    NO_ROOT = "no root"
    REQUESTING = "requesting"
    NOT_FOUND = "not found"
    UNAUTHORIZED = "unauthorized"
    SIGN_IN = "sign-in"
    TOO_OLD = "too old"
    PORT_ERROR = "port error"
    UNKNOWN = "unknown"


def bundle_state(paths: Iterable[str], unrouted: bool = False) -> BundleState | None:
    """The state of a bundle whose paths are in these states; None where it has no path.

    ``unrouted``: packets for some prefix do not go over it.
    """
    found = list(paths)
    if not found:
        return None
    if PathState.UP not in found:
        return BundleState.UNKNOWN if PathState.UNKNOWN in found else BundleState.DOWN
    return BundleState.UP if working(found) == len(found) and not unrouted else BundleState.DEGRADED


def working(paths: Iterable[str]) -> int:
    """How many of the paths in these states work."""
    return sum(path in WORKING for path in paths)


def link_state(up: bool, carrier: bool) -> LinkState:
    """The state of a device that is there; ``up`` is what its owner wants, ``carrier`` what it is."""
    if not up:
        return LinkState.ADMIN_DOWN
    return LinkState.UP if carrier else LinkState.LINK_DOWN
