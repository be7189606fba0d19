"""Whether what comes over the network can be had, asked before anything long begins."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass

from builder.errors import BuildError

_SECONDS = 15


@dataclass(frozen=True)
class Need:
    """Something from the network, and how a person can give it by hand."""

    what: str
    url: str
    by_hand: str
    demands_login: bool = False  # a registry that answers "who are you" can be reached


def check(needs: Sequence[Need]) -> None:
    """Raises :class:`BuildError` with one sentence that names all that cannot be had."""
    failed = [(need, reason) for need in needs if (reason := _problem(need))]
    if failed:
        reached = "; ".join(f"{need.what} ({need.url}: {reason})" for need, reason in failed)
        by_hand = ", ".join(dict.fromkeys(need.by_hand for need, _ in failed))
        raise BuildError(f"could not reach {reached}; give what is missing by hand with {by_hand}")


def _problem(need: Need) -> str:
    try:
        with urllib.request.urlopen(urllib.request.Request(need.url, method="HEAD"), timeout=_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        return "" if need.demands_login and error.code == 401 else f"answers {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def read(need: Need) -> bytes:
    """The file itself; raises :class:`BuildError`."""
    try:
        with urllib.request.urlopen(need.url, timeout=_SECONDS) as answer:
            data: bytes = answer.read()
            return data
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise BuildError(f"could not reach {need.what} ({need.url}: {reason}); give it by hand with {need.by_hand}") from None
