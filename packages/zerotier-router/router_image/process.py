"""Programs of the system, mounts, and files that are on the disk when they have their names."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LOCK = Path("/run/router-image.lock")
REMEDIES = {
    errno.ENOSPC: "free some space there",
    errno.EIO: "the disk, CD or stick cannot be read or written; try another one",
    errno.EROFS: "its file system is read-only, perhaps after an error; see: journalctl -k",
}


class ImageError(RuntimeError):
    """It cannot be done; the text says why and what to do."""


def told(error: OSError) -> str:
    """One sentence about a file that could not be read or written."""
    names = [str(name) for name in (error.filename, error.filename2) if name]
    remedy = REMEDIES.get(error.errno or 0, "see journalctl -k, then try again")
    return f"{' to '.join(names) or 'a file of the image'}: {error.strerror or error}: {remedy}"


def run(command: Sequence[str], text: str | None = None) -> str:
    """What a program prints. Raises :class:`ImageError` when it fails."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ImageError(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[0]
        raise ImageError(f"{' '.join(command)} failed: {reason}")
    return done.stdout


@contextmanager
def exclusive(wait: bool, path: Path = LOCK) -> Iterator[None]:
    """One command for images at a time. Without ``wait`` raises :class:`ImageError` while another one runs."""
    # Root's alone: whoever can open a file can hold its lock.
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+") as file:
        os.fchmod(file.fileno(), 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ImageError("another image command is running; wait until it ends") from None
        yield


@contextmanager
def mounted(source: str, *options: str) -> Iterator[Path]:
    """A file system for a while."""
    directory = tempfile.mkdtemp(prefix="router-image-")
    try:
        run(["mount", *options, source, directory])
        try:
            yield Path(directory)
        finally:
            run(["umount", directory])
    finally:
        # Not with what is in it: that would be the file system, should it still be there.
        if not os.path.ismount(directory):
            os.rmdir(directory)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a power cut leaves the old one or the new one."""
    aside = path.with_name(path.name + ".new")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
