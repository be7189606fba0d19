"""``python3 -m lab``: a lab for working in by hand."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from lab.host import check_root
from lab.lab import FILES, Lab, labs, reason, sweep
from lab.process import LabError, children


def _up(arguments: argparse.Namespace) -> int:
    with Lab(arguments.debs, name=arguments.name) as lab:
        routers = lab.add_routers([f"R{k}" for k in range(1, arguments.routers + 1)])
        for router in routers:
            print(f"{router.name} {router.underlay4} {router.underlay6}  enter: python3 -m lab shell {lab.name} {router.name}")
        print("Ctrl-C ends the lab.", flush=True)
        signal.pause()
    return 0


def _shell(arguments: argparse.Namespace) -> int:
    pidfile = FILES / arguments.name / arguments.router / "pid"
    if not labs().get(arguments.name):
        raise LabError(f"no lab named {arguments.name} is running; see: python3 -m lab list")
    if not pidfile.exists():
        there = ", ".join(sorted(path.parent.name for path in FILES.glob(f"{arguments.name}/*/pid")))
        raise LabError(f"lab {arguments.name} has no router {arguments.router}; it has {there or 'none yet'}")
    found = children(int(pidfile.read_text() or 0))
    if not found:
        raise LabError(f"{arguments.router} is not running")
    leader = str(found[0])
    command = arguments.command or ["bash", "-l"]
    os.execvp("nsenter", ["nsenter", "-t", leader, "-m", "-u", "-i", "-n", "-p", "--", *command])


def _number(text: str) -> int:
    """How many routers: fewer than the addresses that the underlay has for them."""
    if not text.isdecimal() or not 1 <= int(text) <= 50:
        raise argparse.ArgumentTypeError(f"{text} is no number of routers; give one from 1 to 50")
    return int(text)


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="lab", description="Routers on one machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a lab and keep it until Ctrl-C")
    up.add_argument("--routers", type=_number, default=2)
    up.add_argument("--name")
    up.add_argument("--debs", nargs="*", default=[])
    shell = verbs.add_parser("shell", help="enter a router")
    shell.add_argument("name")
    shell.add_argument("router")
    shell.add_argument("command", nargs="*")
    verbs.add_parser("list", help="labs of this machine")
    verbs.add_parser("sweep", help="remove what killed labs left behind")
    arguments = parser.parse_args()
    try:
        if arguments.verb in ("shell", "sweep"):
            check_root()
        match arguments.verb:
            case "up":
                return _up(arguments)
            case "shell":
                return _shell(arguments)
            case "list":
                for name, alive in labs().items():
                    print(name, "running" if alive else "dead")
            case "sweep":
                for name in sweep():
                    print(f"removed {name}")
    except (LabError, OSError) as error:
        print(f"lab: {reason(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
