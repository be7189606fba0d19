"""Where Debian's packages come from while the image is built; nothing of it stays in the image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from imagebuild.steps import BuildError, output

SUITE = "bookworm"
AREAS = "main non-free-firmware"
# What the image itself gets: the public mirrors of Debian.
SOURCES = f"""\
deb http://deb.debian.org/debian {SUITE} {AREAS}
deb http://deb.debian.org/debian {SUITE}-updates {AREAS}
deb http://deb.debian.org/debian-security {SUITE}-security {AREAS}
"""


@dataclass(frozen=True)
class Mirror:
    """The mirrors that this machine's own apt uses."""

    main: str
    security: str
    ignores_expiry: bool  # a frozen mirror's lists are past their date


def find_mirror() -> Mirror:
    """Ask apt. Raises :class:`BuildError` when this machine has no lists of Debian 12."""
    lines = output(["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages", "Origin: Debian"])
    found = dict(line.split(maxsplit=1) for line in lines.splitlines())
    if SUITE not in found:
        raise BuildError("apt has no Debian 12 package lists; check /etc/apt/sources.list, then run apt-get update")
    security = found.get(f"{SUITE}-security")
    if security is None:
        raise BuildError(
            f"apt has no {SUITE}-security, without which no image is built: "
            "add it to /etc/apt/sources.list, then run apt-get update"
        )
    expiry = output(["apt-config", "shell", "value", "Acquire::Check-Valid-Until"])
    return Mirror(_plain(found[SUITE]), _plain(security), "false" in expiry)


def first_mirror(text: str) -> str | None:
    """The first mirror with HTTP of a list as apt-transport-mirror(1) describes it; behind a tab is when apt uses it."""
    mirrors = (line.partition("\t")[0].strip() for line in text.splitlines())
    return next((mirror for mirror in mirrors if mirror.startswith(("http://", "https://"))), None)


def _plain(uri: str) -> str:
    """The same without ``mirror+file:``, which apt knows and debootstrap does not. Raises :class:`BuildError`."""
    kind, _, name = uri.partition(":")
    if kind != "mirror+file":
        return uri
    path = Path(name)
    try:
        found = first_mirror(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise BuildError(f"{path}, apt's list of mirrors, cannot be read ({reason}); name a mirror in /etc/apt instead") from None
    if found is None:
        raise BuildError(f"{path}, apt's list of mirrors, has none with http, by which an image is built; add one to it")
    return found
