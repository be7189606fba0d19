"""What the op mode commands for images do."""

from __future__ import annotations

import subprocess
from pathlib import Path

from router_image import boot, disks, health, signature, slots
from router_image.process import ImageError, mounted


def install(path: str, ask: bool, signed: bool = True) -> None:
    """Put the running image on a disk, with GRUB and a partition for /config; unless ``signed``, whoever has made it."""
    if slots.running():
        raise ImageError("this router already runs from its disk; add another image with: add system image")
    disk = disks.choose(path or disks.ask())
    if ask and input(f"Everything on {disk} will be lost. Type yes to continue: ").strip() != "yes":
        raise ImageError("nothing was changed")
    source = slots.MEDIUM / "live"
    print("Checking the image", flush=True)
    if signed:
        signature.verify(source)
    slots.check(source, "nothing was changed; write the stick or CD again and start from it")
    print("Partitioning", flush=True)
    parts = disks.partition(disk)
    # What starts comes last, so that half an installation does not.
    print("Copying the configuration", flush=True)
    disks.copy_config(parts.config)
    with mounted(parts.images) as images, mounted(parts.esp) as esp:
        print("Copying the image", flush=True)
        (images / f"images-{parts.installation}").mkdir()
        slots.copy_in(source, images, "a", signed)
        print("Installing GRUB for BIOS and UEFI", flush=True)
        boot.install(images, esp, disk.path)
        boot.write_menu(images)
        boot.change_memory(images, slot="a")
    print("Done. Remove the stick or CD, then restart with: reboot")


def add(path: str, signed: bool = True) -> None:
    """Put the image of an ISO into the slot that does not run; the next start tries it.

    Unless ``signed``, whoever has made it.
    """
    target = _other()
    with slots.iso(Path(path)) as source, slots.writable() as images:
        _demand_default(boot.read_memory(images), target)
        if signed:
            signature.verify(source)
        slots.check(source, "copy an ISO built by make iso here again")
        # Nothing may point to a slot while it changes.
        boot.change_memory(images, **boot.NO_TRIAL, failed="")
        slots.copy_in(source, images, target, signed)
        boot.write_menu(images)
        boot.change_memory(images, trial=target, needed=health.holding())
        name = slots.names(images)[target]
    print(f"Image {target} ({name}) will be tried at the next start. If it does not come up, the router returns to this image.")


def _demand_default(memory: dict[str, str], target: str) -> None:
    """Raises :class:`ImageError` when the slot that would be replaced is the one that is known to start."""
    if memory.get("slot") != target:
        return
    here = slots.running()
    if slots.on_trial() and memory.get("trial") == here:
        raise ImageError(f"image {here} is still on trial; wait until show system image lists it as the default")
    raise ImageError(
        f"image {target} is the default and would be replaced; "
        f"first make this one the default: set system image default-boot {here}"
    )


def _other() -> str:
    run = slots.running()
    if not run:
        raise ImageError("this system runs from a stick or CD and has no images; install it on a disk with: install image")
    return next(slot for slot in slots.SLOTS if slot != run)


def default_boot(wanted: str) -> None:
    """Say which image the next start takes; one that does not run now is on trial first."""
    with slots.writable() as images:
        known = slots.names(images)
        slot = wanted if wanted in known else next((s for s, name in known.items() if name == wanted), "")
        if not slot:
            raise ImageError(f"image {wanted} does not exist; choose one of: {', '.join(known)}")
        slots.check(slots.home(images) / slot, "add an image with: add system image")
        memory = boot.read_memory(images)
        again = memory.get("trial") == slot
        if slot == memory.get("slot"):
            boot.change_memory(images, **boot.NO_TRIAL)
        elif slot == slots.running() and not health.lacking(memory.get("needed") if again else None):
            boot.change_memory(images, slot=slot, **boot.NO_TRIAL, failed="")
        else:
            # The menu too: how a trial goes is for the image to say that begins it.
            boot.write_menu(images)
            needed = memory.get("needed", "") if again else health.holding()
            boot.change_memory(images, trial=slot, tried="", needed=needed, failed="")
    print(f"The next start uses image {slot}, {known[slot]}.")


def show() -> None:
    """The images, and what each is."""
    here = slots.running()
    if not here:
        print("This system runs from a stick or CD. Install it on a disk with: install image")
        return
    memory = boot.read_memory(slots.MEDIUM)
    print(f"{'Image':<7}{'Name':<28}State")
    print(f"{'-----':<7}{'----':<28}-----")
    for slot, name in slots.names(slots.MEDIUM).items():
        states = [
            *(["running"] if slot == here else []),
            *(["on trial"] if slot == here and slots.on_trial() and memory.get("trial") == slot else []),
            *(["default"] if slot == memory.get("slot") else []),
            *(["tried at the next start"] if slot == memory.get("trial") and memory.get("tried") != "yes" else []),
            *(["did not come up"] if slot == memory.get("failed") else []),
        ]
        print(f"{slot:<7}{name:<28}{', '.join(states)}".rstrip())


def wait_for_start() -> None:
    """Wait until the start has ended, well or not."""
    subprocess.run(["systemctl", "is-system-running", "--wait"], stdout=subprocess.DEVNULL, check=False)


def confirm() -> None:
    """After a start: a trial that went well becomes the default, one that did not is written down.

    On trial a router that lacks what the image before it had starts again, and GRUB takes that one. A trial that
    somebody has called off is none.
    """
    here = slots.running()
    if not here:
        return
    memory = boot.read_memory(slots.MEDIUM)
    trial = memory.get("trial")
    if trial == here:
        missing = health.lacking(memory.get("needed"))
        if not missing:
            print(f"image {here} came up and is now the default")
            with slots.writable() as images:
                boot.change_memory(images, slot=here, **boot.NO_TRIAL, failed="")
        elif slots.on_trial():
            print(f"image {here} is on trial and did not come up ({', '.join(missing)}); starting the other image")
            subprocess.run(["systemctl", "reboot"], check=False)
    elif trial and memory.get("tried") == "yes" and memory.get("slot") == here:
        print(f"image {trial} did not come up; image {here} runs again")
        with slots.writable() as images:
            boot.change_memory(images, **boot.NO_TRIAL, failed=trial)
