"""Op mode: words to the command that a definition gives them; everything else is the system shell's."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence

from ztsh import places, terminal
from ztsh.bootreport import boot_warning
from ztsh.complete import Choices, op_choices, wrong_op
from ztsh.errors import SessionError
from ztsh.opschema import OpNode, load_op_schema, resolve
from ztsh.store import GROUP
from ztsh.terminal import lent
from ztsh.tree import Tree
from ztsh.words import Line, LineError, split_op

# VyOS's filters behind a pipe, as functions of the shell that runs them.
FILTERS = {
    "commands": "Convert to set commands",
    "count": "Count the lines",
    "json": "Convert to JSON",
    "match": "Show lines that match a pattern",
    "more": "Show page by page",
    "no-match": "Show lines that do not match a pattern",
    "no-more": "Show without a pager",
    "strip-private": "Remove private data: addresses, names, secrets",
}
_FUNCTIONS = """
match() { grep -E -- "$@"; }
no-match() { grep -E -v -- "$@"; }
count() { echo "Count: $(wc -l) lines"; }
more() { less -FRX; }
no-more() { cat; }
commands() { /usr/bin/ztsh filter commands; }
json() { /usr/bin/ztsh filter json; }
strip-private() { /usr/bin/ztsh filter strip-private; }
"""
# Root needs no sudo to be root; others get one sentence about what they may not do.
_AS_ROOT = 'sudo() { "$@"; }\n'
_AS_USER = (
    """sudo() {
command sudo -n -l -- "$@" >/dev/null 2>&1 && { command sudo -n -- "$@"; return; }
echo "user $(id -un) may not do this: only members of the group %s may" >&2
return 1
}
"""
    % GROUP
)


_WORDS = re.compile(r"[\w-]+")
PART = "ZTSH_PART"  # in the environment of a command that is a part of a longer line


class OpError(SessionError):
    """Words that are not a command; the text is what VyOS would print."""


class UnknownError(OpError):
    """Words of which the first is no command."""

    def __init__(self, word: str) -> None:
        super().__init__(f"  Invalid command: [{word}]")


def filtered(pipe: str) -> str:
    """A shell script that does with its standard input the filters behind a pipe (``pipe`` begins with the pipe)."""
    return f"{_FUNCTIONS}\ncat {pipe}"


def run_filters(text: str, pipe: str) -> str:
    """Print a text through the filters behind a pipe; nothing is left to print."""
    sys.stdout.flush()
    terminal.run(["/bin/bash", "-c", filtered(pipe)], text=text)
    return ""


class OpMode:
    """Commands of op mode."""

    def __init__(self, schema: OpNode | None = None, alone: bool = False) -> None:
        """``alone``: its one line has no session, which would have said at its start what boot has left out."""
        self._schema, self._alone = schema, alone

    @property
    def schema(self) -> OpNode:
        """The definitions, read when first needed."""
        if self._schema is None:
            self._schema = load_op_schema(places.op_definitions())
        return self._schema

    def knows(self, word: str) -> bool:
        """Whether a command may begin with this word, also cut short."""
        return resolve(self.schema, [word]).wrong is None

    def script(self, words: Sequence[str]) -> list[str]:
        """The program that runs a command. Raises :class:`OpError`."""
        found = resolve(self.schema, words)
        if found.wrong is not None:
            raise OpError(wrong_op(words, found.wrong, found.choices).rstrip("\n"))
        if not found.node.command:
            raise OpError(f"  Incomplete command: {' '.join(found.words)}")
        prefix = _AS_ROOT if os.geteuid() == 0 else _AS_USER
        return ["/bin/bash", "-c", prefix + found.node.command, "ztsh", *found.words]

    def run(self, words: Sequence[str], pipe: str = "") -> int:
        """Run a command on this terminal; its exit status. Raises :class:`OpError`.

        ``show`` reads nothing; with the terminal as its standard input, sudo would take what is typed ahead.
        """
        command = self.script(words)
        stdin = subprocess.DEVNULL if command[4] == "show" else None
        if not pipe:
            return terminal.run(command, stdin=stdin, env=self._environment())
        with lent(), subprocess.Popen(command, env=self._environment(), stdin=stdin, stdout=subprocess.PIPE) as source:
            done = terminal.run(["/bin/bash", "-c", filtered(pipe)], stdin=source.stdout)
            if source.stdout:
                source.stdout.close()
            return source.wait() or done

    @staticmethod
    def _environment() -> dict[str, str]:
        return {
            **os.environ,
            "vyos_op_scripts_dir": str(places.op_scripts()),
            "vyos_completion_dir": str(places.completion_scripts()),
        }

    def line(self, text: str, line: Line) -> int:
        """Run a line on this terminal, ``text`` being all of it for the system shell; its exit status.

        Programs of the system have their own names; a word cut short is op mode's only where no program has it.
        """
        word = line.words[0]
        try:
            return self._line(text, line, word in self.schema.children or (self.knows(word) and not _is_system(text, line)))
        except OpError as error:
            print(f"\n{error}\n", file=sys.stderr)
            return 127 if isinstance(error, UnknownError) else 1

    def _line(self, text: str, line: Line, own: bool) -> int:
        if not own:
            if _is_system(text, line):
                return run_system(self._functions(set(_WORDS.findall(text)) & self.schema.children.keys()) + text)
            raise UnknownError(line.words[0])
        if self._alone:
            print(boot_warning(), end="", file=sys.stderr, flush=True)
        if line.is_filtered:
            return self.run(line.words, line.pipe)
        return run_system(self._functions({line.words[0], *filter(self.is_own, _WORDS.findall(text))}) + text)

    @staticmethod
    def _functions(names: Collection[str]) -> str:
        """Op mode's commands of these names as functions of the shell that runs a line, as they are on VyOS."""
        call = f"{PART}=1 {shlex.quote(str(places.program()))}"
        return "".join(f'{name}() {{ {call} {name} "$@"; }}\n' for name in sorted(names)) + (_FUNCTIONS if names else "")

    def run_text(self, text: str) -> str:
        """Run a line for ``run`` of conf mode; nothing is left to print. Raises :class:`OpError`.

        There a word cut short is op mode's also where a program has it.
        """
        sys.stdout.flush()
        line = split_op(text)
        if not line.words:
            run_system(text)
        elif self.knows(line.words[0]) or _is_system(text, line):
            self._line(text, line, self.knows(line.words[0]))
        else:
            self.script(line.words)  # which says what would fit
        return ""

    def text(self, text: str) -> int:
        """As :meth:`line`, for a line that has not been cut yet."""
        try:
            line = split_op(text)
        except LineError:
            return run_system(text)
        if line.words:
            return self.line(text, line)
        return run_system(text) if line.pipe else 0

    def is_own(self, word: str) -> bool:
        """Whether a line that begins with this word is not the system shell's."""
        return word in self.schema.children or (self.knows(word) and not is_system_command([word]))

    def choices(self, words: Sequence[str], tree: Tree) -> Choices:
        """What may follow words."""
        return op_choices(self.schema, tree, words)


def _is_system(text: str, line: Line) -> bool:
    return bool(text) and is_system_command(line.words)


def is_system_command(words: Sequence[str]) -> bool:
    """Whether a line of these words is one for the system shell: a program, a builtin, a keyword, an assignment, a group."""
    word = words[0]
    if word == "set":  # of conf mode, unless it is about the shell's options
        return len(words) > 1 and words[1][:1] in ("-", "+")
    if re.match(r"[A-Za-z_]\w*(\[.*\])?\+?=|[({!]|\[\[", word):
        return True
    return "/" in word or shutil.which(word) is not None or word in _builtins()


@functools.cache
def _builtins() -> frozenset[str]:
    """Builtins and keywords, as the system shell lists them."""
    done = subprocess.run(["/bin/bash", "-c", "compgen -bk"], capture_output=True, text=True, check=False)
    return frozenset(done.stdout.split())


def run_system(line: str) -> int:
    """Have the system shell run a line."""
    return terminal.run(["/bin/bash", "-c", line])


def is_whole(text: str) -> bool:
    """Whether the system shell finds nothing unfinished in a text; of a here-document without an end it only warns."""
    done = subprocess.run(["/bin/bash", "-n", "-c", text], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr
