"""GRUB on the disk: its menu, its memory, and how a new image gets one chance.

GRUB's memory (grubenv) holds: ``slot``, the image that has come up before; ``trial``, an image that shall take over;
``tried``, set by GRUB itself when it starts that; ``needed``, what it has to bring (:mod:`router_image.health`);
``failed``, an image that did not come up. The running system confirms a trial (:mod:`router_image.commands`); one that
is not confirmed is not started a second time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from router_image import slots
from router_image.process import run, write_whole

OPTIONS = "boot=live persistence persistence-storage=filesystem quickusbmodules quiet panic=30 console=ttyS0,115200n8 console=tty0"
MENU = """\
# Written by the op mode commands for images; changes made here are lost.
load_env
set timeout=3
if serial --unit=0 --speed=115200; then
	terminal_input console serial
	terminal_output console serial
fi
set menu_color_normal=white/black
set menu_color_highlight=black/light-gray
set default="$slot"
# An image on trial comes first, once. When its kernel cannot be loaded, GRUB goes on to the other one by itself.
if [ -n "$trial" -a "$tried" != yes ]; then
	set default="$trial"
{fallbacks}fi
"""
# GRUB takes no name here, but the number of an entry.
FALLBACK = """\
	if [ "$slot" = {slot} ]; then
		set fallback={number}
	fi
"""
# The chance is taken only by a start of that image, so it is noted here: neither the other entry nor a power cut in the
# menu uses it up.
ENTRY = """
menuentry "{title}" --id {slot} {{
	set mode=
	if [ "$trial" = {slot} -a "$tried" != yes ]; then
		set mode=router.trial
		set tried=yes
		save_env tried
	fi
	linux /{path}/vmlinuz {options} live-media-path={path} router.slot={slot} $mode
	initrd /{path}/initrd.img
}}
"""
SHIM, SIGNED, MODULES = Path("/usr/lib/shim"), Path("/usr/lib/grub/x86_64-efi-signed"), Path("/usr/lib/grub/i386-pc")
KEYS = ("slot", "trial", "tried", "needed", "failed")
NO_TRIAL = {"trial": "", "tried": "", "needed": ""}


def menu(names: Mapping[str, str], home: Path) -> str:
    """The menu for slots in a directory and the names of their images."""
    installation = slots.installation(home)
    options = OPTIONS + (f" persistence-label=config-{installation}" if installation else "")
    fallbacks = (FALLBACK.format(slot=slot, number=number) for number, slot in enumerate(names))
    entries = (
        ENTRY.format(title=f"{name} (image {slot})", slot=slot, path=f"{home.name}/{slot}", options=options)
        for slot, name in names.items()
    )
    return "".join([MENU.format(fallbacks="".join(fallbacks)), *entries])


def write_menu(images: Path) -> None:
    """Write the menu for what is on the partition of the images."""
    write_whole(images / "boot/grub/grub.cfg", menu(slots.names(images), slots.home(images)))


def read_memory(images: Path) -> dict[str, str]:
    """GRUB's memory."""
    lines = run(["grub-editenv", str(images / "boot/grub/grubenv"), "list"]).splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    return {key: found[key] for key in KEYS if found.get(key)}


def change_memory(images: Path, **values: str) -> None:
    """Set values of GRUB's memory; an empty one is taken out. All of them change in one write of one block."""
    path = images / "boot/grub/grubenv"
    memory = {**read_memory(images), **values}
    text = "# GRUB Environment Block\n" + "".join(f"{key}={memory[key]}\n" for key in KEYS if memory.get(key))
    with path.open("r+b") as file:
        # GRUB knows where the block lies and cannot move it, so it is written in place.
        file.write(text.encode().ljust(1024, b"#"))
    run(["sync", str(path)])


def install(images: Path, esp: Path, disk: str) -> None:
    """GRUB for BIOS and, with Debian's signatures, for UEFI."""
    run(["grub-install", "--target=i386-pc", f"--directory={MODULES}", f"--boot-directory={images}/boot", disk])
    run(["grub-editenv", str(images / "boot/grub/grubenv"), "create"])
    uuid = run(["findmnt", "--noheadings", "--output", "UUID", str(images)]).strip()
    search = f"search --no-floppy --fs-uuid --set=root {uuid}\n"
    finder = search + "set prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
    (esp / "EFI/BOOT").mkdir(parents=True)
    (esp / "EFI/debian").mkdir()
    shutil.copy(SHIM / "shimx64.efi.signed", esp / "EFI/BOOT/BOOTX64.EFI")
    shutil.copy(SHIM / "mmx64.efi.signed", esp / "EFI/BOOT/mmx64.efi")
    shutil.copy(SIGNED / "grubx64.efi.signed", esp / "EFI/BOOT/grubx64.efi")
    (esp / "EFI/debian/grub.cfg").write_text(finder)
