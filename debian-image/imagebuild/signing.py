"""The builder's key: made once, kept outside the tree, its public half in every image that it signs."""

from __future__ import annotations

import os
from pathlib import Path

from imagebuild.steps import BuildError, Steps

IN_IMAGE = "usr/share/router-image/keys/builder.pub"
VARIABLE = "ZTM_IMAGE_KEY"


def key_file() -> Path:
    """Where the secret key is: ``ZTM_IMAGE_KEY``, else in minisign's own directory."""
    return Path(os.environ.get(VARIABLE) or Path.home() / ".minisign/zerotier-multi-image.key")


def public_key(steps: Steps, key: Path) -> bytes:
    """The public half of the builder's key, which is made when there is none. Raises :class:`BuildError`."""
    public = key.with_suffix(".pub")
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        steps.run(["minisign", "-G", "-W", "-s", str(key), "-p", str(public)])
        key.chmod(0o600)
        print(f"created {key}, the key that signs images; keep it, because routers accept new images by its signature", flush=True)
    elif not public.exists():
        steps.run(["minisign", "-R", "-s", str(key), "-p", str(public)])
    try:
        return public.read_bytes()
    except OSError as error:
        raise BuildError(f"{public} cannot be read ({error.strerror}): set {VARIABLE} to a key of minisign -G -W") from None


def put_in(root: Path, public: bytes) -> None:
    """Have the image trust its builder."""
    target = root / IN_IMAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(public)
    target.chmod(0o644)


def sign(steps: Steps, live: Path, key: Path, name: str) -> None:
    """Sign the checksums of an image. The comments have no time in them, so that two builds are the same."""
    comments = ["-c", "signature of a router image", "-t", name]
    steps.run(["minisign", "-S", "-s", str(key), "-m", str(live / "SHA256SUMS"), *comments])
