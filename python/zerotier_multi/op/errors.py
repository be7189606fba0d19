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
