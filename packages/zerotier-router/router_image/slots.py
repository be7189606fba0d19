"""The images on the disk: which there are, which runs, and how one gets there.

They lie in one directory of their partition. Its name ends with the id of the installation, which the partition for
/config has too, so that a router with two installed disks keeps them apart; older installations have no id.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from router_image.process import ImageError, mounted, run, sync_directory
from router_image.signature import SIGNATURE, SIGNED, verify

SLOTS = ("a", "b")
LABEL = "router-images"
FILES = ("vmlinuz", "initrd.img", "filesystem.squashfs", SIGNED, "name")
MEDIUM = Path("/run/live/medium")
HOME = re.compile(r"images(?:-([0-9a-f]{8}))?")


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
        raise ImageError("this system runs from a stick or CD and has no images; install it on a disk with: install image")
    run(["mount", "-o", "remount,rw", str(MEDIUM)])
    try:
        yield MEDIUM
    finally:
        run(["mount", "-o", "remount,ro", str(MEDIUM)])


def home(images: Path) -> Path:
    """The directory of the slots on the partition of the images."""
    found = sorted(path for path in images.glob("images*") if HOME.fullmatch(path.name))
    if not found:
        raise ImageError("the disk has no directory of images; start from a stick or CD and install again with: install image")
    return found[-1]


def installation(directory: Path) -> str:
    """The id of the installation that a directory of slots belongs to; empty for an older one."""
    found = HOME.fullmatch(directory.name)
    return (found[1] if found else "") or ""


def names(images: Path) -> dict[str, str]:
    """Slots in use, and what their images are called."""
    directory, found = home(images), {}
    for slot in SLOTS:
        path = directory / slot / "name"
        if path.exists():
            found[slot] = path.read_text(errors="replace").strip()
    return found


def copy_in(source: Path, images: Path, slot: str, signed: bool = False) -> None:
    """Copy the files of an image, which have been checked, into a slot; its signature is looked at again if it counts.

    It has its name there only when it is whole and on the disk, and what was there keeps it until then.
    """
    directory = home(images)
    target, aside, old = (directory / f"{slot}{suffix}" for suffix in ("", ".new", ".old"))
    for left in (aside, old):
        shutil.rmtree(left, ignore_errors=True)
    _demand_room(source, images)
    try:
        aside.mkdir()
        for name in (*FILES, *([SIGNATURE] if (source / SIGNATURE).exists() else [])):
            shutil.copy(source / name, aside / name)
            with (aside / name).open("rb") as file:
                os.fsync(file.fileno())
        check(aside, "the disk did not keep the data that was written; use another disk")
        if signed:  # a stick may give something else when it is read again
            verify(aside)
        sync_directory(aside)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if target.exists():
        target.rename(old)
    aside.rename(target)
    sync_directory(directory)
    shutil.rmtree(old, ignore_errors=True)


def _demand_room(source: Path, images: Path) -> None:
    """Raises :class:`ImageError` where another image does not fit."""
    needed = sum((source / name).stat().st_size for name in FILES) + (1 << 20)  # and its directory
    free = shutil.disk_usage(images).free
    if free < needed:
        raise ImageError(
            f"the image needs {-(-needed >> 20)} MiB and the partition of the images has {free >> 20} MiB free: "
            "remove what does not belong there"
        )


def check(directory: Path, remedy: str) -> None:
    """Raises :class:`ImageError` when an image is not what its checksums say."""
    missing = [name for name in FILES if not (directory / name).exists()]
    if missing:
        raise ImageError(f"the image is incomplete ({missing[0]} is missing); {remedy}")
    try:
        run(["sh", "-c", 'cd "$1" && sha256sum --quiet --check SHA256SUMS', "sh", str(directory)])
    except ImageError:
        raise ImageError(f"the image is damaged (its checksums differ); {remedy}") from None


@contextmanager
def iso(path: Path) -> Iterator[Path]:
    """The files of the image in an ISO, which may also be a CD or stick."""
    if not path.is_file() and not path.is_block_device():
        raise ImageError(f"{path} is not a file; give the path of an ISO, or the device of a CD or stick")
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(mounted(str(path), "-o", "ro" if path.is_block_device() else "loop,ro"))
        except ImageError as error:
            raise ImageError(f"{path} is not an ISO image ({error}); give one built by make iso") from None
        yield directory / "live"
