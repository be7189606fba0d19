"""What a router has when it has come up, and what of it an image on trial has to bring."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from router_image.process import run


def _carried_out() -> bool:
    # The unit also counts as active when ztsh boot has ended with 1: there the rest of the router goes on.
    shown = run(["systemctl", "show", "--property=ActiveState,ExecMainStatus", "ztsh-boot.service"])
    return {"ActiveState=active", "ExecMainStatus=0"} <= set(shown.splitlines())


def _routes() -> bool:
    return subprocess.run(["systemctl", "is-active", "--quiet", "frr.service"], check=False).returncode == 0


# Names as they stand in GRUB's memory, how to look, and what is wrong where it is not so.
CHECKS: dict[str, tuple[Callable[[], bool], str]] = {
    "config": (lambda: os.path.ismount("/config"), "/config is not on the disk"),
    "boot": (_carried_out, "the configuration was not applied"),
    "frr": (_routes, "FRR is not running"),
}


def holding() -> str:
    """What holds now, for GRUB's memory."""
    return ",".join(name for name, (holds, _missing) in CHECKS.items() if holds()) or "none"


def lacking(needed: str | None) -> list[str]:
    """What is missing now, in words. ``needed`` is from GRUB's memory; all is where it says nothing.

    A check that this image does not know cannot be asked of it.
    """
    wanted = CHECKS if needed is None else needed.split(",")
    return [missing for name, (holds, missing) in CHECKS.items() if name in wanted and not holds()]
