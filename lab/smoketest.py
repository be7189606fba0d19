"""``make smoketest``: the installed smoketests on one router, their output as it comes, the worst exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.lab import Lab
from lab.process import LabError

PROGRAMS = tuple(f"/usr/libexec/vyos/tests/smoke/cli/test_{name}.py" for name in ("interfaces_zerotier", "op_mode_zerotier"))


def main() -> int:
    """Entry point; the arguments are our packages."""
    if len(sys.argv) < 2:
        print("smoketest: give the packages to install, such as build/debs/*.deb", file=sys.stderr)
        return 2
    try:
        with Lab([Path(deb) for deb in sys.argv[1:]]) as lab:
            router = lab.add_router("R1")
            commands = [router.command([program]) for program in PROGRAMS]
            return max(subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode for command in commands)
    except LabError as error:
        print(f"smoketest: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
