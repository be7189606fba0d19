"""Programs of the system, mounts, and files that are on the disk when they have their names."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class ImageError(RuntimeError):
    """It cannot be done; the text says why and what to do."""


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
def mounted(source: str, *options: str) -> Iterator[Path]:
    """A file system for a while."""
    with tempfile.TemporaryDirectory(prefix="router-image-") as directory:
        run(["mount", *options, source, directory])
        try:
            yield Path(directory)
        finally:
            run(["umount", directory])


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
