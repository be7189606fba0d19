"""Disks: which one an image may be installed on, and its partitions."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router_image.process import ImageError, mounted, run
from router_image.slots import LABEL

LEAST = 3 << 30  # bytes
ISO_LABEL = "ZTM_ROUTER"  # the volume id that debian-image/imagebuild/iso.py gives an ISO
# FAT32 has at least 65525 clusters, or firmware on EDK2 refuses it; with sectors of 4096 bytes that is 257 MiB.
# live-boot finds /config by the name of its partition, which only this installation has. A stick finds it by the label
# of its file system.
LAYOUT = """\
label: gpt
size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios-boot
size=300MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=efi
size=2GiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=images
type=0FC63DAF-8483-4772-8E79-3D69D8477DE4, name=config-{installation}
"""
# GRUB of Debian 12 cannot read file systems with these.
NOT_FOR_GRUB = "^metadata_csum_seed,^orphan_file"


@dataclass(frozen=True)
class Disk:
    """A disk as a person would choose it."""

    path: str
    size: int
    model: str
    transport: str
    removable: bool
    in_use: bool
    medium: bool  # this image was written to it; a system that runs from memory does not use it any more

    def __str__(self) -> str:
        return f"{self.path}  {self.size / 1e9:.0f} GB  {self.transport or '-'}  {self.model or 'no name'}"

    @property
    def free(self) -> bool:
        """Whether it may be offered to be installed on."""
        return not self.in_use and not self.medium and self.size >= LEAST


def disks() -> list[Disk]:
    """All disks that can be written."""
    columns = "PATH,SIZE,MODEL,TYPE,RO,RM,TRAN,FSTYPE,LABEL,MOUNTPOINTS"
    return read(json.loads(run(["lsblk", "--json", "--bytes", "--output", columns])))


def read(told: dict[str, Any]) -> list[Disk]:
    """The disks of what lsblk says."""
    return [
        Disk(
            path=entry["path"],
            size=int(entry["size"]),
            model=(entry["model"] or "").strip(),
            transport=entry["tran"] or "",
            removable=bool(entry["rm"]) or entry["tran"] == "usb",
            in_use=any(point for part in _tree(entry) for point in part.get("mountpoints") or ()),
            medium=any((part["fstype"], part["label"]) == ("iso9660", ISO_LABEL) for part in _tree(entry)),
        )
        for entry in told["blockdevices"]
        if entry["type"] == "disk" and not entry["ro"] and not entry["path"].startswith(("/dev/zram", "/dev/fd"))
    ]


def _tree(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A disk, its partitions, and what is made of them."""
    yield entry
    for child in entry.get("children") or ():
        yield from _tree(child)


def ask() -> str:
    """Have somebody choose one. Enter takes the first one that is built in: a stick holds somebody's files."""
    found = [disk for disk in disks() if disk.free]
    if not found:
        raise ImageError(f"no free disk has {LEAST >> 20} MiB or more; attach one and try again")
    print("Free disks:", *(f"  {disk}" for disk in found), sep="\n")
    usual = next((disk.path for disk in found if not disk.removable), "")
    path = input("Install on which disk? " + (f"[{usual}] " if usual else "")).strip() or usual
    if not path:
        raise ImageError("no disk was selected and nothing was changed; type the path of a disk, such as /dev/sdb")
    return path


def choose(path: str) -> Disk:
    """The disk of that name. Raises :class:`ImageError` when nothing can be installed on it."""
    disk = next((disk for disk in disks() if disk.path == path), None)
    if disk is None:
        known = ", ".join(disk.path for disk in disks()) or "none"
        raise ImageError(f"{path} is not a disk of this machine; choose one of: {known}")
    if disk.in_use:
        raise ImageError(f"{path} is in use; start from a stick, with the menu entry for an empty /config")
    if disk.size < LEAST:
        raise ImageError(f"{path} has {disk.size >> 20} MiB; an installation needs {LEAST >> 20} MiB")
    return disk


@dataclass(frozen=True)
class Partitions:
    """Devices of the partitions of an installation, and its id."""

    esp: str
    images: str
    config: str
    installation: str


def partition(disk: Disk) -> Partitions:
    """Take a disk for this router; what was on it is gone."""
    installation = secrets.token_hex(4)
    layout = LAYOUT.format(installation=installation)
    run(["wipefs", "--all", "--quiet", disk.path])
    run(["sfdisk", "--quiet", "--wipe", "always", "--wipe-partitions", "always", disk.path], text=layout)
    run(["udevadm", "settle"])
    table = json.loads(run(["sfdisk", "--json", disk.path]))["partitiontable"]
    _bios, esp, images, config = (str(entry["node"]) for entry in table["partitions"])
    found = Partitions(esp, images, config, installation)
    run(["mkfs.fat", "-F", "32", "-n", "EFI", found.esp])
    run(["mkfs.ext4", "-q", "-F", "-m", "0", "-O", NOT_FOR_GRUB, "-L", LABEL, found.images])
    run(["mkfs.ext4", "-q", "-F", "-L", "persistence", found.config])
    return found


def copy_config(partition_path: str) -> None:
    """What is configured now goes along; live-boot finds /config by this file."""
    with mounted(partition_path) as directory:
        (directory / "persistence.conf").write_text("/config\n")
        run(["cp", "-a", "/config", str(Path(directory) / "config")])
