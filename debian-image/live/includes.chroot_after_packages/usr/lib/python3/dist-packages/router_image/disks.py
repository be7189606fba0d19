"""Disks: which one an image may be installed on, and its partitions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from router_image.process import ImageError, mounted, run
from router_image.slots import LABEL

LEAST = 3 << 30  # bytes
LAYOUT = """\
label: gpt
size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios-boot
size=64MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=efi
size=2GiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=images
type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=config
"""
# GRUB of Debian 12 cannot read file systems with these.
NOT_FOR_GRUB = "^metadata_csum_seed,^orphan_file"


@dataclass(frozen=True)
class Disk:
    """A disk as a person would choose it."""

    path: str
    size: int
    model: str
    in_use: bool

    def __str__(self) -> str:
        return f"{self.path}  {self.size / 1e9:.0f} GB  {self.model or 'no name'}"


def disks() -> list[Disk]:
    """All disks that can be written."""
    told = json.loads(run(["lsblk", "--json", "--bytes", "--output", "PATH,SIZE,MODEL,TYPE,RO,MOUNTPOINTS"]))
    return [
        Disk(entry["path"], int(entry["size"]), (entry["model"] or "").strip(), _mounted(entry))
        for entry in told["blockdevices"]
        if entry["type"] == "disk" and not entry["ro"] and not entry["path"].startswith(("/dev/zram", "/dev/fd"))
    ]


def _mounted(entry: dict[str, object]) -> bool:
    points = [point for point in entry.get("mountpoints") or () if point]  # type: ignore[attr-defined]
    return bool(points) or any(_mounted(child) for child in entry.get("children") or ())  # type: ignore[attr-defined]


def choose(path: str) -> Disk:
    """The disk of that name. Raises :class:`ImageError` when nothing can be installed on it."""
    disk = next((disk for disk in disks() if disk.path == path), None)
    if disk is None:
        known = ", ".join(disk.path for disk in disks()) or "none"
        raise ImageError(f"{path} is no disk of this machine: choose one of these: {known}")
    if disk.in_use:
        raise ImageError(f"{path} is in use: start from a stick, with the menu entry for an empty /config")
    if disk.size < LEAST:
        raise ImageError(f"{path} has {disk.size >> 20} MiB: an installation needs {LEAST >> 20} MiB")
    return disk


@dataclass(frozen=True)
class Partitions:
    """Devices of the partitions of an installation."""

    esp: str
    images: str
    config: str


def partition(disk: Disk) -> Partitions:
    """Take a disk for this router; what was on it is gone."""
    run(["wipefs", "--all", "--quiet", disk.path])
    run(["sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", disk.path], text=LAYOUT)
    run(["udevadm", "settle"])
    table = json.loads(run(["sfdisk", "--json", disk.path]))["partitiontable"]
    _bios, *nodes = (entry["node"] for entry in table["partitions"])
    found = Partitions(*nodes)
    run(["mkfs.fat", "-F", "32", "-n", "EFI", found.esp])
    run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", NOT_FOR_GRUB, "-L", LABEL, found.images])
    run(["mkfs.ext4", "-q", "-F", "-L", "persistence", found.config])
    return found


def copy_config(partition_path: str) -> None:
    """What is configured now goes along; live-boot finds /config by this file."""
    with mounted(partition_path) as directory:
        (directory / "persistence.conf").write_text("/config\n")
        run(["cp", "-a", "/config", str(Path(directory) / "config")])
