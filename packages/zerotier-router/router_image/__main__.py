"""The program behind the op mode commands: ``image install|add|default-boot|show|confirm``."""

from __future__ import annotations

import argparse
import os
import sys

from router_image import commands
from router_image.process import ImageError, exclusive, told


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="image")
    verbs = parser.add_subparsers(dest="verb", required=True)
    install = verbs.add_parser("install")
    install.add_argument("--disk", default="")
    install.add_argument("--yes", action="store_true")
    add = verbs.add_parser("add")
    add.add_argument("path")
    for verb in (install, add):
        verb.add_argument("--without-signature", action="store_true")
    verbs.add_parser("default-boot").add_argument("image")
    verbs.add_parser("show")
    verbs.add_parser("confirm")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("image: root is required; use sudo", file=sys.stderr)
        return 1
    try:
        if arguments.verb == "show":
            commands.show()
            return 0
        if arguments.verb == "confirm":
            commands.wait_for_start()
        with exclusive(wait=arguments.verb == "confirm"):
            match arguments.verb:
                case "install":
                    commands.install(arguments.disk, ask=not arguments.yes, signed=not arguments.without_signature)
                case "add":
                    commands.add(arguments.path, signed=not arguments.without_signature)
                case "default-boot":
                    commands.default_boot(arguments.image)
                case "confirm":
                    commands.confirm()
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(told(error), file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print("\ninterrupted; nothing was changed unless a line above says so", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
