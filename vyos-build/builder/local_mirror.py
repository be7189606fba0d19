"""A repository made by :mod:`builder.packages`, offered to VyOS's program over HTTP while an image is built.

apt inside the image that is being built cannot see this machine's files.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.errors import BuildError
from builder.repository import KEY

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class LocalMirror:
    """Where it is offered, the key that it is signed with, and what its manifest says."""

    url: str
    key: Path
    manifest: dict[str, Any]

    @property
    def kernel(self) -> str:
        """The kernel's package where it is not the one that vyos-build names; otherwise ""."""
        kernel = self.manifest["kernel"]
        return "" if kernel["taken"] == kernel["wanted"] else str(kernel["taken"])


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """apt says itself what it does not get."""


@contextlib.contextmanager
def served(url: str) -> Iterator[LocalMirror | None]:
    """Offer the directory of a ``file:`` URL on this machine's loopback; nothing for any other URL.

    Raises :class:`BuildError` when there is no such repository.
    """
    if not url.startswith("file:"):
        yield None
        return
    root = Path(url.removeprefix("file:").replace("//", "/")).resolve()
    try:
        manifest = json.loads((root / MANIFEST).read_text())
        manifest["kernel"]["taken"], manifest["kernel"]["wanted"]
    except (OSError, ValueError, KeyError) as error:
        raise BuildError(f"{root} is not a usable repository ({error}); make one with: make vyos-packages") from None
    handler = functools.partial(_Quiet, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="mirror")
        thread.start()
        try:
            yield LocalMirror(f"http://127.0.0.1:{server.server_address[1]}", root / KEY, manifest)
        finally:
            server.shutdown()
            thread.join()
