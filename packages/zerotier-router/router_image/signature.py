"""Who has made an image: its checksums are signed with minisign, as VyOS signs its images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from router_image.process import ImageError, run

SIGNED, SIGNATURE = "SHA256SUMS", "SHA256SUMS.minisig"
# The builder's key comes with the image; an administrator may add others.
KEYS = (Path("/usr/share/router-image/keys"), Path("/config/image-keys"))
INSIST = "or add the word without-signature to accept it anyway"


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
        raise ImageError(f"the image is not signed; use one that is signed with a key of this router, {INSIST}")
    keys = known_keys() if keys is None else keys
    for key in keys:
        command = ["minisign", "-V", "-q", "-p", str(key), "-x", str(directory / SIGNATURE), "-m", str(directory / SIGNED)]
        try:
            run(command)
            return
        except ImageError:
            continue
    raise ImageError(
        f"no key of this router matches the signature ({len(keys)} key{'' if len(keys) == 1 else 's'}), or the image was "
        f"changed; use an image of a known builder, put the builder's key into {KEYS[-1]}, {INSIST}"
    )
