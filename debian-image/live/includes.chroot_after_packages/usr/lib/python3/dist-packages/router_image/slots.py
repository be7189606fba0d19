"""The images on the disk: which there are, which runs, and how one gets there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router_image.process import ImageError, mounted, run, sync_directory

SLOTS = ("a", "b")
LABEL = "router-images"
FILES = ("vmlinuz", "initrd.img", "filesystem.squashfs", "SHA256SUMS", "name")
MEDIUM = Path("/run/live/medium")


def running() -> str:
    """The slot that this system was started from; empty for one that runs from a stick or CD."""
    return _parameter("router.slot=")


def on_trial() -> bool:
    """Whether this start is the one chance of an image."""
    return "router.trial" in Path("/proc/cmdline").read_text().split()


def _parameter(name: str) -> str:
    words = Path("/proc/cmdline").read_text().split()
    return next((word[len(name) :] for word in words if word.startswith(name)), "")


@contextmanager
def writable() -> Iterator[Path]:
    """The partition of the images, which is only read otherwise."""
    if not running():
        raise ImageError("this system runs from a stick or CD and has no images: install image puts it on a disk")
    run(["mount", "-o", "remount,rw", str(MEDIUM)])
    try:
        yield MEDIUM
    finally:
        run(["mount", "-o", "remount,ro", str(MEDIUM)])


def names(images: Path) -> dict[str, str]:
    """Slots in use, and what their images are called."""
    found = {}
    for slot in SLOTS:
        path = images / "images" / slot / "name"
        if path.exists():
            found[slot] = path.read_text().strip()
    return found


def copy_in(source: Path, images: Path, slot: str) -> None:
    """Copy the files of an image into a slot. It has its name there only when it is whole and on the disk."""
    check(source)
    target, aside = images / "images" / slot, images / "images" / f"{slot}.new"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name in FILES:
        shutil.copy(source / name, aside / name)
        with (aside / name).open("rb") as file:
            os.fsync(file.fileno())
    check(aside)
    shutil.rmtree(target, ignore_errors=True)
    aside.rename(target)
    sync_directory(images / "images")


def check(directory: Path) -> None:
    """Raises :class:`ImageError` when an image is not what its checksums say."""
    missing = [name for name in FILES if not (directory / name).exists()]
    if missing:
        raise ImageError(f"this is no image of this router ({missing[0]} is missing): give an ISO of make iso")
    try:
        run(["sh", "-c", 'cd "$1" && sha256sum --quiet --check SHA256SUMS', "sh", str(directory)])
    except ImageError:
        raise ImageError("the image is damaged (its checksums differ): copy it here once more") from None


@contextmanager
def iso(path: Path) -> Iterator[Path]:
    """The files of the image in an ISO, which may also be a CD or stick."""
    if not path.is_file() and not path.is_block_device():
        raise ImageError(f"{path} is no file: give the path of an ISO, or the device of a CD or stick")
    try:
        with mounted(str(path), "-o", "ro" if path.is_block_device() else "loop,ro") as directory:
            yield directory / "live"
    except ImageError as error:
        if "mount" in str(error):
            raise ImageError(f"{path} is no ISO ({error})") from None
        raise
