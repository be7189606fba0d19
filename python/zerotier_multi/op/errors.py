"""Why op mode has no answer; the text of each is one sentence."""

from __future__ import annotations


class OpError(ValueError):
    """No answer can be given."""


class NotConfigured(OpError):
    """It asks about something that the configuration does not have."""


class WrongValue(OpError):
    """An argument has a value that cannot be."""


class NotAllowed(OpError):
    """The user may not do it."""


class Unavailable(OpError):
    """The answer cannot be had just now."""


def disabled(bundle: str) -> str:
    """What every command says of a bundle that is disabled: nothing of it runs, so its plan has no instances."""
    return f"{bundle} is disabled; delete interfaces zerotier {bundle} disable first"
