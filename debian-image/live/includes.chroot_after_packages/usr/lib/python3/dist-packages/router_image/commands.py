"""What the op mode commands for images do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from router_image import boot, disks, slots
from router_image.process import ImageError, mounted

# What must have come about before an image on trial counts as good: the configuration was carried out, routing runs.
NEEDED = ("ztsh-boot.service", "frr.service")


def install(path: str, ask: bool) -> None:
    """Put the running image on a disk, with GRUB and a partition for /config."""
    if slots.running():
        raise ImageError("this router runs from its disk already: add system image brings another image")
    found = [disk for disk in disks.disks() if not disk.in_use and disk.size >= disks.LEAST]
    if not path:
        if not found:
            raise ImageError(f"there is no free disk of {disks.LEAST >> 20} MiB or more: attach one, and try again")
        print("Disks that are free:", *(f"  {disk}" for disk in found), sep="\n")
        path = input(f"Install on which disk? [{found[0].path}] ").strip() or found[0].path
    disk = disks.choose(path)
    if ask and input(f"Everything on {disk} will be lost. Type yes to go on: ").strip() != "yes":
        raise ImageError("nothing was changed")
    print("Partitioning", flush=True)
    parts = disks.partition(disk)
    with mounted(parts.images) as images, mounted(parts.esp) as esp:
        print("Copying the image", flush=True)
        slots.copy_in(slots.MEDIUM / "live", images, "a")
        print("Installing GRUB for BIOS and UEFI", flush=True)
        boot.install(images, esp, disk.path)
        boot.write_menu(images, slots.names(images))
        boot.change_memory(images, slot="a")
    disks.copy_config(parts.config)
    print("Done. Take the stick or CD out and restart: reboot")


def add(path: str) -> None:
    """Put the image of an ISO into the slot that does not run; the next start tries it."""
    target = _other()
    with slots.iso(Path(path)) as source, slots.writable() as images:
        slots.check(source)
        if boot.read_memory(images).get("slot") == target:
            raise ImageError("the running image is still on trial: wait until show system image calls it the default")
        # Nothing may point to a slot while it changes.
        boot.change_memory(images, trial="", tried="", failed="")
        slots.copy_in(source, images, target)
        boot.write_menu(images, slots.names(images))
        boot.change_memory(images, trial=target)
        name = slots.names(images)[target]
    print(f"Image {target}, {name}, will be tried at the next start. If it does not come up, this one comes back.")


def _other() -> str:
    run = slots.running()
    if not run:
        raise ImageError("this system runs from a stick or CD and has no images: install image puts it on a disk")
    return next(slot for slot in slots.SLOTS if slot != run)


def default_boot(wanted: str) -> None:
    """Say which image the next start takes; one that does not run now is on trial first."""
    with slots.writable() as images:
        known = slots.names(images)
        slot = wanted if wanted in known else next((s for s, name in known.items() if name == wanted), "")
        if not slot:
            raise ImageError(f"there is no image {wanted}: choose one of these: {', '.join(known)}")
        if slot == boot.read_memory(images).get("slot"):
            boot.change_memory(images, trial="", tried="")
        else:
            boot.change_memory(images, trial=slot, tried="", failed="")
    print(f"The next start takes image {slot}, {known[slot]}.")


def show() -> None:
    """The images, and what each is."""
    here = slots.running()
    if not here:
        print("This system runs from a stick or CD; install image puts it on a disk.")
        return
    memory = boot.read_memory(slots.MEDIUM)
    print(f"{'Image':<7}{'Name':<28}State")
    print(f"{'-----':<7}{'----':<28}-----")
    for slot, name in slots.names(slots.MEDIUM).items():
        states = [
            *(["running"] if slot == here else []),
            *(["on trial"] if slot == here and slots.on_trial() and memory.get("slot") != slot else []),
            *(["default"] if slot == memory.get("slot") else []),
            *(["tried at the next start"] if slot == memory.get("trial") and memory.get("tried") != "yes" else []),
            *(["did not come up"] if slot == memory.get("failed") else []),
        ]
        print(f"{slot:<7}{name:<28}{', '.join(states)}".rstrip())


def confirm() -> None:
    """After a start: a trial that went well becomes the default, one that did not is written down.

    On trial a router that lacks what it needs starts again, and GRUB takes the image that it had.
    """
    here = slots.running()
    if not here:
        return
    # Ends when the start has ended, well or not.
    subprocess.run(["systemctl", "is-system-running", "--wait"], stdout=subprocess.DEVNULL, check=False)
    good = subprocess.run(["systemctl", "is-active", "--quiet", *NEEDED], check=False).returncode == 0
    memory = boot.read_memory(slots.MEDIUM)
    if memory.get("slot") == here:
        if memory.get("trial") and memory.get("tried") == "yes":
            print(f"image {memory['trial']} did not come up; this is image {here} again")
            with slots.writable() as images:
                boot.change_memory(images, trial="", tried="", failed=memory["trial"])
    elif good:
        print(f"image {here} has come up and is the default now")
        with slots.writable() as images:
            boot.change_memory(images, slot=here, trial="", tried="", failed="")
    elif slots.on_trial():
        print(f"image {here} is on trial and did not bring up {' and '.join(NEEDED)}; starting the other one")
        subprocess.run(["systemctl", "reboot"], check=False)
