"""What went into an image: versions, hashes and the whole package list, written beside it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.debs import Deb
from builder.errors import BuildError


def installed_packages(build: Path) -> dict[str, str]:
    """Package to version, as live-build has listed them after it installed everything."""
    path = build / "chroot.packages.live"
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return {name.partition(":")[0]: version for name, version in pairs}
    except (OSError, ValueError) as error:
        raise BuildError(f"{path} does not list the packages of the image ({error}); do not use the image") from None


def check_installed(installed: Mapping[str, str], debs: Sequence[Deb]) -> None:
    """Whether the image has the packages that it was given and no others of their names."""
    for deb in debs:
        found = installed.get(deb.package, "none")
        if found != deb.version:
            raise BuildError(
                f"the image has {deb.package} {found} instead of {deb.version}; "
                f"the log says where it came from; do not use the image"
            )


def publish(iso: Path, into: Path, installed: Mapping[str, str], debs: Sequence[Deb], told: Mapping[str, Any]) -> Path:
    """Move the image into a directory and write its manifest and package list beside it; where the image is now."""
    target = into / iso.name
    shutil.move(iso, target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    manifest = {
        "image": iso.name,
        "sha256": digest,
        **told,
        "ours": [
            {"package": deb.package, "version": deb.version, "sha256": deb.sha256}
            for deb in sorted(debs, key=lambda deb: deb.package)
        ],
        "packages": dict(sorted(installed.items())),
    }
    target.with_suffix(".manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    target.with_suffix(".packages").write_text("".join(f"{n} {v}\n" for n, v in sorted(installed.items())))
    return target
