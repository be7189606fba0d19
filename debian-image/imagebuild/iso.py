"""From a file system to an ISO that starts from CD and USB, under BIOS and UEFI.

live-build's own ISO step gives a GRUB image no code in the MBR, so it would not start from a USB stick under BIOS;
and it wants a second copy of the chroot. This one takes GRUB from the image itself: what starts the ISO is what
``install image`` puts on a disk.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path

from imagebuild.steps import BuildError, Steps

LABEL = "ZTM_ROUTER"
# Modules that GRUB needs before it can read others from the ISO.
BIOS_MODULES = ["biosdisk", "iso9660", "part_msdos", "part_gpt", "normal", "search", "search_fs_file", "configfile"]
EXCLUDED = ["boot/*", "initrd.img*", "vmlinuz*", "usr/lib/grub/x86_64-efi/*", "usr/share/locale/*"]


def squash(steps: Steps, root: Path, live: Path, excludes: Path, name: str) -> None:
    """The compressed file system, kernel, initial RAM disk, the image's name, and the checksums of these."""
    live.mkdir(parents=True)
    excludes.write_text("\n".join(EXCLUDED) + "\n")
    steps.run(
        [
            "mksquashfs", str(root), str(live / "filesystem.squashfs"), "-noappend", "-no-progress", "-comp", "zstd",
            "-Xcompression-level", "17", "-b", "256K", "-wildcards", "-ef", str(excludes),
        ]
    )  # fmt: skip
    for pattern, target in (("vmlinuz-*", "vmlinuz"), ("initrd.img-*", "initrd.img")):
        found = sorted((root / "boot").glob(pattern))
        if len(found) != 1:
            raise BuildError(f"the image has {len(found)} files /boot/{pattern}, not one")
        shutil.copy(found[0], live / target)
    (live / "name").write_text(f"{name}\n")
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(live.iterdir()))
    (live / "SHA256SUMS").write_text("".join(sums))


def grub_for_bios(steps: Steps, root: Path, boot: Path) -> None:
    """GRUB's first stage for El Torito, its modules and its menu."""
    modules = root / "usr/lib/grub/i386-pc"
    target = boot / "grub/i386-pc"
    target.mkdir(parents=True)
    for path in sorted([*modules.glob("*.mod"), *modules.glob("*.lst")]):
        shutil.copy(path, target)
    core = boot / "grub/core.img"
    steps.run(["grub-mkimage", "-d", str(modules), "-o", str(core), "-O", "i386-pc", "-p", "/boot/grub", *BIOS_MODULES])
    (boot / "grub/eltorito.img").write_bytes((modules / "cdboot.img").read_bytes() + core.read_bytes())
    core.unlink()


def efi_partition(steps: Steps, root: Path, image: Path, epoch: int) -> None:
    """A FAT image with Debian's signed shim and GRUB, which then find the ISO by a file that only it has."""
    tree = image.with_suffix(".tree")
    files = {
        "EFI/BOOT/BOOTX64.EFI": (root / "usr/lib/shim/shimx64.efi.signed").read_bytes(),
        "EFI/BOOT/grubx64.efi": (root / "usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed").read_bytes(),
        "EFI/BOOT/mmx64.efi": (root / "usr/lib/shim/mmx64.efi.signed").read_bytes(),
        "boot/grub/grub.cfg": (
            b"search --set=root --file /.disk/zerotier-multi\nset prefix=($root)/boot/grub\nconfigfile ($root)/boot/grub/grub.cfg\n"
        ),
    }
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    set_times(tree, epoch)
    kilobytes = sum(len(content) for content in files.values()) // 1024 + 512
    volume_id = f"{epoch % 2**32:08x}"
    # Without --invariant the label bears the time of the build; it comes before -i, whose number it would set too.
    steps.run(["mkfs.fat", "-C", "-F", "12", "--invariant", "-i", volume_id, "-n", "ZTM_EFI", str(image), str(kilobytes)])
    names = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) != "."})
    steps.run(["mmd", "-i", str(image), *(f"::{name}" for name in names)])
    for name in sorted(files):
        steps.run(["mcopy", "-m", "-i", str(image), str(tree / name), f"::{name}"])
    shutil.rmtree(tree)


def set_times(tree: Path, epoch: int) -> None:
    """Give everything in a tree the same time."""
    for path in [*tree.rglob("*"), tree]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def make_iso(steps: Steps, tree: Path, efi: Path, mbr: Path, iso: Path, epoch: int) -> None:
    """The ISO: El Torito for CDs, an MBR with GRUB and an EFI partition for sticks.

    The MBR holds a plain partition table, so that a partition for /config can be added on the stick.
    """
    set_times(tree, epoch)
    stamp = f"{_utc(epoch)}00"
    steps.run(
        [
            "xorriso", "-as", "mkisofs", "-r", "-J", "-joliet-long", "-iso-level", "3", "-V", LABEL,
            f"--modification-date={stamp}", "-b", "boot/grub/eltorito.img", "-c", "boot/grub/boot.cat",
            "-no-emul-boot", "-boot-load-size", "4", "-boot-info-table", "--grub2-boot-info",
            "--grub2-mbr", str(mbr), "--mbr-force-bootable", "-partition_offset", "16",
            "-append_partition", "2", "0xef", str(efi),
            "-eltorito-alt-boot", "-e", "--interval:appended_partition_2:all::", "-no-emul-boot",
            "-o", str(iso), str(tree),
        ]
    )  # fmt: skip


def _utc(epoch: int) -> str:
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(epoch))
