"""The one shape in which a configuration is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_VERB = re.compile(r"(is|has|does|cannot|needs|requires|overlaps|conflicts|would) ")


def plain(text: str) -> str:
    """The text in ASCII: vyos-configd sends bytes but counts characters, so VyOS cuts the end off any other
    (vyos-1x: src/services/vyos-configd, ``send_result``)."""
    return text.encode("ascii", "backslashreplace").decode()


@dataclass(frozen=True)
class Problem:
    """One reason to refuse a commit.

    ``path`` is the CLI path with its value (``interfaces zerotier zt0 transit site 5``) and ``text`` says
    what is wrong and how to correct it. ``str()`` gives the one sentence that a user reads; where the text
    begins with a verb, the path is its subject.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path} {self.text}" if _VERB.match(self.text) else f"{self.path}: {self.text}"


class ConfigProblems(Exception):
    """A configuration that must not be committed; ``str()`` is one sentence per problem."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__(plain("\n".join(str(p) for p in self.problems)))


def refuse_if_any(problems: Iterable[Problem]) -> None:
    """Raise :class:`ConfigProblems` when there is at least one problem."""
    found = tuple(problems)
    if found:
        raise ConfigProblems(found)
