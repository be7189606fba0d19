"""What the shell and the scripts below it refuse, as values: nothing else has to read the text."""

from __future__ import annotations


class SessionError(ValueError):
    """A command that was refused; nothing was changed.

    The text is all that VyOS would print, ``reason`` the sentence that says why.
    """

    def __init__(self, reason: str, *more: str) -> None:
        """``more`` are the lines that VyOS prints below the reason."""
        super().__init__("\n".join((reason, *more)))
        self.reason = reason


class AlreadySet(SessionError):
    """The path is set already; VyOS says so and goes on."""


class NothingToDelete(SessionError):
    """The path is not set; VyOS says so and goes on."""


class Busy(SessionError):
    """Refused because of another commit; the same request may be granted later."""


class Locked(Busy):
    """Another commit is in progress."""


class Outdated(Busy):
    """The running configuration is no longer that for which the changes were made."""


class CommitFailed(SessionError):
    """A conf script refused or failed; ``where`` is the path of its node."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"[ {where} ]", reason, "", f"[[{where}]] failed", "Commit failed")
        self.reason = f"{where}: {reason}"


class Leave(Exception):
    """The user leaves conf mode; the text is printed."""


class Misused(Exception):
    """A command with arguments that it does not have."""
