"""``make smoketest``: the installed smoketest on one router, its output as it comes, its exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.lab import Lab
from lab.process import LabError

PROGRAM = "/usr/libexec/vyos/tests/smoke/cli/test_interfaces_zerotier.py"


def main() -> int:
    """Entry point; the arguments are our packages."""
    if len(sys.argv) < 2:
        print("smoketest: give the packages to install, such as build/debs/*.deb", file=sys.stderr)
        return 2
    try:
        with Lab([Path(deb) for deb in sys.argv[1:]]) as lab:
            router = lab.add_router("R1")
            return subprocess.run(router.command([PROGRAM]), stdin=subprocess.DEVNULL, check=False).returncode
    except LabError as error:
        print(f"smoketest: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
