"""``make smoketest``: the installed smoketests on one router, their output as it comes, the worst exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.lab import Lab, reason
from lab.process import LabError
from lab.router import Router

PROGRAMS = tuple(f"/usr/libexec/vyos/tests/smoke/cli/test_{name}.py" for name in ("interfaces_zerotier", "op_mode_zerotier"))


def as_user(router: Router) -> list[str]:
    """What goes before a smoketest's command: VyOS runs its own as a user who may configure and use sudo without a password."""
    sudoers = "echo 'vyos ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/vyos"
    router.run(["sh", "-ec", f"useradd --create-home --groups vyattacfg vyos; {sudoers}"])
    return ["runuser", "--user", "vyos", "--"]


def main() -> int:
    """Entry point; the arguments are our packages."""
    if len(sys.argv) < 2:
        print("smoketest: give the packages to install, such as build/debs/*.deb", file=sys.stderr)
        return 2
    try:
        with Lab([Path(deb) for deb in sys.argv[1:]]) as lab:
            router = lab.add_router("R1")
            user = as_user(router)
            commands = [router.command([*user, program]) for program in PROGRAMS]
            return max(subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode for command in commands)
    except (LabError, OSError) as error:
        print(f"smoketest: {reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
