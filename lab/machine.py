"""A router as the networks of a lab see it: what DHCP and the underlay use of :class:`lab.router.Router`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Machine(Protocol):
    """Programs, files and underlay addresses of a router; each method does what the router's does."""

    name: str
    underlay4: str
    underlay6: str

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program inside to its end."""

    def json(self, command: Sequence[str]) -> Any:
        """What a program inside prints as JSON."""

    def read(self, path: str) -> str:
        """Text of a file inside."""

    def write(self, path: str, text: str) -> None:
        """Write a file inside."""

    def wait(self, look: Callable[[], T], *, what: str) -> T:
        """Wait for a state of this router."""
