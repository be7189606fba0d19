"""The interactive shell: op mode, and conf mode inside it, at a prompt with history and VyOS's completion."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ztsh import places, terminal
from ztsh.bootreport import boot_warning
from ztsh.complete import ENTER, Choices, help_text
from ztsh.errors import Leave, SessionError
from ztsh.opmode import FILTERS, OpError, OpMode, is_whole, run_filters
from ztsh.rights import demand_rights, user_name
from ztsh.schema import Node, load_schema
from ztsh.terminal import run_and_stay
from ztsh.words import Line, LineError, first_command, indented, split, split_op, split_open
from ztsh.xmlfile import SchemaError

if TYPE_CHECKING:
    from ztsh.confmode import ConfMode

BUILT_IN = {"configure": "Enter configuration mode", "exit": "Exit from the shell"}


class Shell:
    """One terminal."""

    def __init__(self, schema: Node | None = None) -> None:
        self._schema = schema
        self._op = OpMode()
        self._conf: ConfMode | None = None
        # A serial console may not answer when it is asked where its cursor is.
        os.environ.setdefault("PROMPT_TOOLKIT_NO_CPR", "1")
        self._user, self._host = user_name(), socket.gethostname().partition(".")[0]
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            key_bindings=self._keys(),
            enable_open_in_editor=False,
            complete_while_typing=False,
        )

    @property
    def schema(self) -> Node:
        """The interface definitions, read when first needed."""
        if self._schema is None:
            self._schema = load_schema(places.definitions())
        return self._schema

    # -- life

    def run(self) -> int:
        """Read and run lines until the user leaves."""
        print(boot_warning(), end="")
        while True:
            try:
                line = self._prompt.prompt(self._message())
            except KeyboardInterrupt:
                continue
            except EOFError:
                line = "exit"
            try:
                if not self._lines(line):
                    return 0
            except KeyboardInterrupt:
                print()
            except Exception as error:  # what was changed and not committed stays
                print(indented(f"Internal error, please report it: {error!r}"), end="", file=sys.stderr)

    def _lines(self, text: str) -> bool:
        """Run a line, or what was pasted as one text one command after the other, as if each had been typed; False ends the shell."""
        text = text.strip("\n")
        pasted = "\n" in text
        while text:
            command, text = first_command(text, self._is_whole) if pasted else (text, "")
            if pasted and command.strip():
                print(f"{self._message()}{command}", flush=True)
            if not self._line(command):
                return False
        return True

    def _is_whole(self, text: str) -> bool:
        try:
            line = split(text) if self._conf else split_op(text)
        except LineError:
            return False
        if self._conf or line == Line([]) or (line.words and line.is_filtered and self._is_own(line.words[0])):
            return True
        return is_whole(text)

    def _is_own(self, word: str) -> bool:
        return word in ("exit", "logout", "cd") or _is_configure(word) or self._op.is_own(word)

    def _message(self) -> str:
        mark = "#" if self._conf or os.geteuid() == 0 else "$"
        if self._conf:
            return f"[edit{''.join(f' {word}' for word in self._conf.level)}]\n{self._user}@{self._host}{mark} "
        home, here = os.environ.get("HOME", ""), _here()
        if home and (here == home or here.startswith(home + "/")):
            here = "~" + here[len(home) :]
        return f"{self._user}@{self._host}:{here}{mark} "

    def _line(self, text: str) -> bool:
        """Run a line; False ends the shell."""
        try:
            if self._conf:
                self._conf_line(self._conf, text)
                return True
            line = split_op(text)
        except LineError as error:
            print(indented(f"Invalid command: {error}"), end="", file=sys.stderr)
            return True
        return self._op_line(text, line)

    # -- the two modes

    def _op_line(self, text: str, line: Line) -> bool:
        if not line.words:
            self._op.text(text)
            return True
        word = line.words[0]
        if word in ("exit", "logout"):
            return False
        if word == "cd":  # of this shell, not of one that ends with the line
            try:
                if len(line.words) > 2 or line.pipe:
                    run_and_stay(text)
                else:
                    os.chdir(os.path.expanduser(line.words[1] if len(line.words) > 1 else "~"))
            except OSError as error:
                print(f"cd: {error.strerror}", file=sys.stderr)
            return True
        if _is_configure(word) and not line.pipe:
            self._configure()
        else:
            self._op.line(text, line)
        return True

    def _configure(self) -> None:
        from ztsh.confmode import ConfMode  # the first prompt comes without it
        from ztsh.session import Session

        try:
            demand_rights()
            session = Session(self.schema)
        except (SessionError, SchemaError) as error:
            print(indented(str(error)), end="", file=sys.stderr)
            return
        self._conf = ConfMode(session, self._op.run_text, run_filters, isolated=True)

    def _conf_line(self, conf: ConfMode, line: str) -> None:
        try:
            text = conf.line(line)
        except OpError as error:
            print(f"\n{error}\n", file=sys.stderr)
            return
        except SessionError as error:
            print(indented(str(error)), end="", file=sys.stderr)
            return
        except Leave as left:
            self._conf = None
            print(str(left), end="")
            print("exit")
            return
        if text:
            self._print(text)

    @staticmethod
    def _print(text: str) -> None:
        """Page by page where it does not fit on the screen."""
        if sys.stdout.isatty() and text.count("\n") >= os.get_terminal_size().lines:
            try:
                terminal.run(["less", "-FRX"], text=text)
                return
            except FileNotFoundError:
                pass
        print(text, end="")

    # -- completion

    def choices(self, words: Sequence[str]) -> Choices:
        """What may follow whole words at this prompt."""
        if self._conf:
            return self._conf.choices(words, lambda rest: self._op.choices(rest, self._conf_tree()))
        if not words:
            found = self._op.choices([], {})
            lines = [*found.lines, *(("  ", name, text) for name, text in BUILT_IN.items())]
            return Choices([*found.words, *BUILT_IN], sorted(lines, key=lambda line: line[1]))
        if words[0] in BUILT_IN or _is_configure(words[0]):
            return Choices(lines=[("  ", *ENTER)])
        from ztsh.configuration import running

        return self._op.choices(words, running(self.schema).tree)

    def _conf_tree(self) -> dict[str, object]:
        return self._conf.session.running.tree if self._conf else {}

    def _pipe_choices(self, text: str) -> Choices | None:
        """Filters, when the cursor is behind a pipe."""
        try:
            pipe = split(text).pipe
        except LineError:
            return None
        last = pipe.rpartition("|")[2].split()
        if not pipe or len(last) > 1 or (last and text.endswith(" ")):
            return Choices(lines=[("  ", *ENTER)]) if pipe else None
        found = Choices(list(FILTERS), [("  ", name, helps) for name, helps in FILTERS.items()])
        return found.starting(last[0] if last else "")

    def _complete(self, event: KeyPressEvent, show: bool) -> None:
        buffer = event.current_buffer
        text = buffer.document.text_before_cursor
        behind = self._pipe_choices(text)
        if behind is not None:
            prefix = "" if text.endswith((" ", "|")) else text.split()[-1].lstrip("|")
            choices = behind
        else:
            words, prefix = split_open(text.lstrip())
            try:
                choices = self.choices(words).starting(prefix)
            except (SessionError, SchemaError, OSError) as error:
                choices = Choices(wrong=f"  {error}\n")
        common = os.path.commonprefix(choices.words)
        if not show and prefix and choices.words and not choices.wrong:
            whole = len(choices.words) == 1
            added = common[len(prefix) :] + (" " if whole else "")
            if added:
                buffer.insert_text(added)
                return
        if not show and not prefix and len(choices.words) == 1 and not any(w.startswith("<") for _, w, _ in choices.lines):
            buffer.insert_text(choices.words[0] + " ")
            return
        typed = self._message() + buffer.text
        width = self._prompt.output.get_size().columns
        run_in_terminal(lambda: print(f"{typed}\n{help_text(choices, width)}", end=""))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @Condition
        def outside_quotes() -> bool:
            text = self._prompt.app.current_buffer.document.text_before_cursor
            try:
                split(text)
            except LineError:
                return False
            return True

        @keys.add("tab")
        def _tab(event: KeyPressEvent) -> None:
            self._complete(event, show=False)

        @keys.add("?", filter=outside_quotes)
        def _question(event: KeyPressEvent) -> None:
            self._complete(event, show=True)

        @keys.add("c-z")
        def _stop(event: KeyPressEvent) -> None:
            """Nothing: there is no shell behind this one."""

        return keys


def _is_configure(word: str) -> bool:
    return len(word) >= 4 and "configure".startswith(word)


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return "?"


class History(FileHistory):
    """Lines of earlier sessions; on a disk that is full or broken the lines of this one stay in memory."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def _history() -> FileHistory | InMemoryHistory:
    """Lines of earlier sessions of this user; only of this one where the home cannot be written."""
    home = os.environ.get("HOME", "")
    path = Path(home) / ".ztsh_history"
    try:
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return History(str(path))
