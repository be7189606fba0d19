"""Who has made an image: its checksums are signed with minisign, as VyOS signs its images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from router_image.process import ImageError, run

SIGNED, SIGNATURE = "SHA256SUMS", "SHA256SUMS.minisig"
# The builder's key comes with the image; an administrator may add others.
KEYS = (Path("/usr/share/router-image/keys"), Path("/config/image-keys"))
INSIST = "or insist with the word without-signature"


def known_keys(directories: Sequence[Path] = KEYS) -> list[Path]:
    """Public keys that this router trusts. A directory that others than root can change counts for nothing."""
    trusted = []
    for directory in directories:
        try:
            status = directory.stat()
        except OSError:
            continue
        if status.st_uid == 0 and not status.st_mode & 0o022:
            trusted += sorted(directory.glob("*.pub"))
    return trusted


def verify(directory: Path, keys: Sequence[Path] | None = None) -> None:
    """Raises :class:`ImageError` unless one of the keys has signed the checksums of the image in a directory."""
    if not (directory / SIGNATURE).is_file():
        raise ImageError(f"the image is not signed: take one whose builder's key this router knows, {INSIST}")
    keys = known_keys() if keys is None else keys
    for key in keys:
        command = ["minisign", "-V", "-q", "-p", str(key), "-x", str(directory / SIGNATURE), "-m", str(directory / SIGNED)]
        try:
            run(command)
            return
        except ImageError:
            continue
    raise ImageError(
        f"the image is signed by nobody that this router knows ({len(keys)} key{'' if len(keys) == 1 else 's'}) or was changed "
        f"since: take one of a known builder, put the builder's key into {KEYS[-1]}, {INSIST}"
    )
