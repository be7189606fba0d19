"""The command ``ztsh``: the shell of a router, and what scripts and units call."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

from ztsh.errors import SessionError
from ztsh.store import StoreError
from ztsh.xmlfile import SchemaError

USAGE = """usage: ztsh                       the shell: op mode, and 'configure' for configuration mode
       ztsh -c LINE               one line of op mode, or of the system shell
       ztsh WORDS...              one command of op mode, such as: ztsh show zerotier
       ztsh script FILE|-         lines of configuration mode, from a file or standard input
       ztsh apply [--check] FILE|-  set and delete lines in one commit, saved; with --check only what would change
       ztsh cfg COMMAND [WORDS]   configuration mode for scripts: begin, set, delete, commit, save, end
       ztsh boot                  apply the saved configuration (ztsh-boot.service)
       ztsh -h | --help | -v | --version
"""


def script(arguments: Sequence[str]) -> int:
    """Run conf mode lines until one is refused: 0, or 1 with the line and the reason on standard error."""
    from ztsh.confmode import ConfMode
    from ztsh.errors import Leave
    from ztsh.opmode import OpMode, run_filters
    from ztsh.rights import demand_rights
    from ztsh.session import Session
    from ztsh.words import LineError

    if len(arguments) != 1:
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        if arguments[0] == "-":
            text = sys.stdin.read()
        else:
            with open(arguments[0]) as file:
                text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        print(f"ztsh: {arguments[0]} cannot be read ({getattr(error, 'strerror', None) or 'not a text'})", file=sys.stderr)
        return 1
    demand_rights()
    op = OpMode()
    conf = ConfMode(Session(), op.run_text, run_filters, via="script")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or line.strip() == "configure":
            continue
        try:
            sys.stdout.write(conf.line(line))
            sys.stdout.flush()
        except (SessionError, LineError) as error:
            print(f"line {number}: {line.strip()}\n{error}", file=sys.stderr)
            return 1
        except Leave:
            break
    if conf.session.modified():
        print("ztsh: the changes of the script were not committed; end it with commit, or with discard", file=sys.stderr)
        return 1
    return 0


def boot(_arguments: Sequence[str]) -> int:
    """Apply the saved configuration; what is refused goes to standard error."""
    from ztsh import boot as at_boot
    from ztsh import places
    from ztsh.schema import load_schema

    told = at_boot.boot(load_schema(places.definitions()))
    for line in told:
        print(f"configuration at boot: {line}", file=sys.stderr)
    return 1 if told else 0


def revert(_arguments: Sequence[str]) -> int:
    """Go back to before commit-confirm; its timer calls this."""
    from ztsh import confirm, places
    from ztsh.schema import load_schema

    print(confirm.revert(load_schema(places.definitions())), end="")
    return 0


def apply(arguments: Sequence[str]) -> int:
    """Bring the router to what the lines of a file say."""
    from ztsh.apply import call

    return call(arguments)


def cfg(arguments: Sequence[str]) -> int:
    """A call of the command wrapper."""
    from ztsh.wrapper import call

    return call(arguments)


def show_own(arguments: Sequence[str]) -> int:
    """What op mode shows of the configuration itself."""
    from ztsh.showconfig import show

    return show(arguments)


def filter_text(arguments: Sequence[str]) -> int:
    """A filter behind a pipe."""
    from ztsh.showconfig import run_filter

    return run_filter(arguments)


def shell() -> int:
    """The interactive shell, or without a terminal the lines of standard input."""
    if not sys.stdin.isatty():
        from ztsh.opmode import OpMode

        op, status = OpMode(), 0
        for line in sys.stdin:
            if line.split() in (["exit"], ["logout"]):
                break
            status = op.text(line.rstrip("\n"))
        return status
    from ztsh.shell import Shell

    return Shell().run()


_VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "script": script,
    "apply": apply,
    "boot": boot,
    "revert": revert,
    "cfg": cfg,
    "config": show_own,
    "filter": filter_text,
}


def _open_missing() -> None:
    """What was closed by whoever started this is /dev/null, here and for programs: otherwise a file would take its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # as Python has it where the number was closed at its start
            number = os.open(os.devnull, os.O_RDWR)  # the lowest one that is free, so the one that is missing
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    _open_missing()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _main(words)
        sys.stdout.flush()  # here, where a reader that has gone is no surprise
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nothing more can be said
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # as shells say it
    except (SessionError, SchemaError, StoreError) as error:
        print(f"ztsh: {error}", file=sys.stderr)
        return 1


def _main(words: list[str]) -> int:
    if not words or words == ["-l"] or words == ["--login"]:
        return shell()
    if words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if words[0] in ("-v", "--version"):
        from ztsh.version import VERSION

        print(f"ztsh {VERSION}")
        return 0
    from ztsh.opmode import PART, OpMode
    from ztsh.words import Line

    op = OpMode(alone=PART not in os.environ)
    if words[0] == "-c" and len(words) > 1:
        return op.text(words[1])
    if words[0] in _VERBS:
        return _VERBS[words[0]](words[1:])
    if words[0].startswith("-"):
        print(USAGE, end="", file=sys.stderr)
        return 2
    return op.line("", Line(words))


if __name__ == "__main__":
    sys.exit(main())
