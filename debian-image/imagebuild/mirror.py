"""Where Debian's packages come from while the image is built; nothing of it stays in the image."""

from __future__ import annotations

from dataclasses import dataclass

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
    return Mirror(found[SUITE], security, "false" in expiry)
