"""The command ``ztsh``: conf mode for scripts, the boot loader and a look at the running configuration."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ztsh.schema import SchemaError
from ztsh.session import Session, SessionError
from ztsh.text import set_commands


def execute(session: Session, line: str) -> str:
    """Carry out one conf mode command; returns what it prints. Raises :class:`SessionError`."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise SessionError(f"cannot be read: {error}") from None
    match words:
        case []:
            return ""
        case ["set", *path]:
            session.set(path)
        case ["delete", *path]:
            session.delete(path)
        case ["commit"]:
            return "" if session.commit() else "No configuration changes to commit\n"
        case ["save", *where] if len(where) <= 1:
            return f"Saving configuration to '{session.save(Path(where[0]) if where else None)}'\nDone\n"
        case ["discard"]:
            session.discard()
        case ["load" | "merge" as verb, name]:
            try:
                text = Path(name).read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise SessionError(f"{name} cannot be read ({error})") from None
            (session.load if verb == "load" else session.merge)(text)
        case ["show", *path]:
            return session.show(path)
        case ["compare"]:
            return session.compare()
        case [other, *_]:
            raise SessionError(f"  Invalid command: [{other}]")
    return ""


def run_script(session: Session, lines: list[str]) -> int:
    """Carry out lines until one is refused: 0, or 1 with the line and the reason on standard error."""
    for number, line in enumerate(lines, start=1):
        try:
            sys.stdout.write(execute(session, line))
            sys.stdout.flush()
        except SessionError as error:
            text = str(error)
            if text.endswith("already exists\n"):
                sys.stdout.write(text)
                continue
            print(f"line {number}: {line.strip()}\n{text}", file=sys.stderr)
            return 1
    return 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="ztsh", description="Configuration in VyOS's syntax.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    script = verbs.add_parser("script", help="carry out conf mode commands from a file, or - for standard input")
    script.add_argument("file")
    verbs.add_parser("boot", help="carry out the saved configuration")
    show = verbs.add_parser("show", help="the running configuration")
    show.add_argument("--commands", action="store_true", help="as set commands")
    show.add_argument("path", nargs="*")
    arguments = parser.parse_args()
    try:
        session = Session()
        if arguments.verb == "script":
            text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text()
            return run_script(session, text.splitlines())
        if arguments.verb == "boot":
            refused = session.boot()
            for line in refused:
                print(f"not carried out: {line}", file=sys.stderr)
            return 1 if refused else 0
        if arguments.commands:
            sys.stdout.write(set_commands(session.running, session.schema))
        else:
            sys.stdout.write(session.show(arguments.path, session.running))
    except (SessionError, SchemaError, OSError) as error:
        print(f"ztsh: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
