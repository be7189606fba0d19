"""Conf mode: one line in, its effect on the session and what is printed out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ztsh import access, archive, places, store
from ztsh.complete import ENTER, Choices, conf_choices, help_text
from ztsh.differences import Config
from ztsh.schema import find, locate
from ztsh.session import AlreadySet, NothingToDelete, Session, SessionError, read_config
from ztsh.text import footer, render
from ztsh.tree import exists, get
from ztsh.words import is_number, split

HELP = {
    "comment": "Give a part of the configuration a comment",
    "commit": "Carry out the changes",
    "commit-confirm": "Carry out the changes, and go back unless 'confirm' follows in time",
    "compare": "Show what differs between configurations",
    "confirm": "Keep what commit-confirm has carried out",
    "copy": "Copy a part of the configuration",
    "delete": "Delete a part of the configuration",
    "discard": "Forget all changes that are not committed",
    "edit": "Go to a part of the configuration",
    "exit": "Leave this level, or conf mode",
    "load": "Replace the configuration by a file",
    "merge": "Add a file to the configuration",
    "rename": "Rename a part of the configuration",
    "rollback": "Return to an earlier commit",
    "run": "Run a command of op mode",
    "save": "Keep the configuration over a reboot",
    "set": "Set a value, or create a part of the configuration",
    "show": "Show the configuration (with -all also the defaults)",
    "top": "Go to the top of the configuration",
    "up": "Go one level up",
}
MAX_CONFIRM = 1440  # minutes
_URL = ("http://", "https://", "ftp://", "scp://", "sftp://", "tftp://")


class Leave(Exception):
    """The user leaves conf mode."""


def indented(text: str) -> str:
    """A message as VyOS sets it off from the prompt."""
    return "\n" + "".join(f"  {line}\n" for line in text.strip("\n").splitlines()) + "\n"


class ConfMode:
    """Commands of conf mode over one session. ``run_op`` runs words of op mode and prints for itself."""

    def __init__(self, session: Session, run_op: Callable[[Sequence[str]], str], *, via: str = "cli", isolated: bool = False):
        self.session, self._run_op, self._via, self._isolated = session, run_op, via, isolated
        self.level: tuple[str, ...] = ()
        self.unsaved = False

    # -- a line

    def execute(self, words: Sequence[str]) -> str:
        """Carry out a command; returns what to print.

        Raises :class:`SessionError` for one that is refused, and :class:`Leave`.
        """
        if not words:
            return ""
        self.session.refresh()
        verb = self.verb(words[0])
        return str(getattr(self, "_" + verb.replace("-", "_"))(list(words[1:])))

    def line(self, text: str) -> str:
        """As :meth:`execute`, for a line of a script."""
        return self.execute(split(text).words)

    @staticmethod
    def verb(word: str) -> str:
        """A command in full. Raises :class:`SessionError`."""
        if word == "rollback-soft":
            return "rollback"
        fitting = [verb for verb in HELP if verb.startswith(word)]
        if word in HELP:
            return word
        if not fitting:
            raise SessionError(f"Invalid command: [{word}]")
        if len(fitting) > 1:
            choices = Choices(fitting, [("  ", verb, HELP[verb]) for verb in fitting])
            raise SessionError(f"Ambiguous command: [{word}]\n\n{help_text(choices).rstrip()}")
        return fitting[0]

    def expand(self, verb: str, words: Sequence[str]) -> list[str]:
        """Words of a path below the edit level in full. Raises :class:`SessionError` for those that lead nowhere."""
        node, is_value = locate(self.session.schema, self.level)
        full: list[str] = []
        index = 0
        if node.kind == "tag" and not is_value and words:
            full, index = [words[0]], 1
        while index < len(words):
            word, child = words[index], node.child(words[index])
            before = "".join(f"{w} " for w in full)
            if child is None:
                fitting = sorted(n for n in node.children if word and n.startswith(word))
                if len(fitting) > 1:
                    choices = Choices(fitting, [("  ", n, node.children[n].help) for n in fitting])
                    text = "\n".join(f"  {line}" if line.startswith("P") else line for line in help_text(choices).splitlines())
                    raise SessionError(f"Configuration path: {before}[{word}] is ambiguous\n\n{text}\n{verb.title()} failed")
                if not fitting:
                    raise SessionError(f"Configuration path: {before}[{word}] is not valid\n{verb.title()} failed")
                child = node.children[fitting[0]]
            full.append(child.name)
            node, index = child, index + 1
            if node.kind != "node" and not node.valueless and index < len(words):
                full.append(words[index])
                index += 1
            if node.kind == "leaf" and index < len(words):
                before = "".join(f"{w} " for w in full)
                raise SessionError(f"Configuration path: {before}[{words[index]}] is not valid\n{verb.title()} failed")
        return full

    def _path(self, verb: str, words: Sequence[str]) -> list[str]:
        return [*self.level, *self.expand(verb, words)]

    # -- editing

    def _set(self, words: list[str]) -> str:
        try:
            self.session.set(self._path("set", words))
        except AlreadySet as told:
            return indented(str(told))
        return ""

    def _delete(self, words: list[str]) -> str:
        if not words:
            raise SessionError("Need to specify the config node to delete\nDelete failed")
        try:
            self.session.delete(self._path("delete", words))
        except NothingToDelete as told:
            return indented(str(told))
        return ""

    def _comment(self, words: list[str]) -> str:
        if len(words) < 2 and not (words and self.level):
            raise SessionError("Need to specify the config node and the comment, such as: comment interfaces 'text'\nComment failed")
        self.session.comment(self._path("comment", words[:-1]), words[-1])
        return ""

    def _copy(self, words: list[str], verb: str = "copy") -> str:
        if len(words) != 5 or words[2] != "to":
            raise SessionError(f"Invalid {verb} command: use {verb} NAME VALUE to NAME VALUE\n{verb.title()} failed")
        source, target = self.expand(verb, words[:2]), self.expand(verb, words[3:])
        self.session.copy(verb, self.level, source, target)
        return ""

    def _rename(self, words: list[str]) -> str:
        return self._copy(words, "rename")

    # -- where one is

    def _edit(self, words: list[str]) -> str:
        if not words:
            raise SessionError("Need to specify the config node to edit")
        path = self._path("edit", words)
        node, is_value = locate(self.session.schema, path) if get(self.session.candidate, path) is not None else self._make(path)
        if node.kind == "leaf" or (node.kind == "tag" and not is_value):
            raise SessionError('The "edit" command cannot be issued at the specified level')
        self.level = tuple(path)
        return ""

    def _make(self, path: list[str]) -> tuple[object, bool]:
        found = find(self.session.schema, path)
        if found is None or found[0].kind == "leaf":
            raise SessionError('The "edit" command cannot be issued at the specified level')
        node, is_value = locate(self.session.schema, path)
        if node.kind == "tag" and not is_value:
            raise SessionError('The "edit" command cannot be issued at the specified level')
        self.session.set(path)
        return node, is_value

    def _up(self, _words: list[str]) -> str:
        if not self.level:
            raise SessionError("Already at the top level")
        _node, is_value = locate(self.session.schema, self.level)
        self.level = self.level[: -2 if is_value else -1]
        return ""

    def _top(self, _words: list[str]) -> str:
        if not self.level:
            return "Already at the top level\n"
        self.level = ()
        return ""

    def _exit(self, words: list[str]) -> str:
        if words and not (len(words) == 1 and "discard".startswith(words[0])):
            raise SessionError(f"Invalid argument \"{' '.join(words)}\" for 'exit'")
        if self.level:
            self.level = ()
            return ""
        if self.session.modified() and not words:
            return "Cannot exit: configuration modified.\nUse 'exit discard' to discard the changes and exit.\n"
        self.session.discard()
        raise Leave("Warning: configuration changes have not been saved.\n" if self.unsaved else "")

    # -- looking

    def _show(self, words: list[str]) -> str:
        defaults = "-all" in words
        return self.session.show(self._path("show", [w for w in words if w != "-all"]), defaults=defaults)

    def _compare(self, words: list[str]) -> str:
        as_commands = "commands" in words
        rest = [word for word in words if word != "commands"]
        old, new, what = self._sides(rest)
        text = self.session.compare_commands(old, new) if as_commands else self.session.compare(old, new, self.level)
        return text or f"No changes between {what} configurations.\n"

    def _sides(self, words: list[str]) -> tuple[Config | None, Config | None, str]:
        if not words:
            return None, None, "working and active"
        if len(words) == 1 and "saved".startswith(words[0]):
            try:
                return read_config(places.boot_file().read_text(), self.session.schema), None, "working and saved"
            except OSError as error:
                raise SessionError(f"{places.boot_file()} cannot be read ({error.strerror})") from None
        if len(words) > 2 or not all(map(is_number, words)):
            raise SessionError("Invalid compare command: use compare, compare saved, compare N or compare N M")
        old = self._revision(int(words[-1]))
        if len(words) == 1:
            return old, None, f"working and revision {words[0]}"
        return old, self._revision(int(words[0])), f"revisions {words[1]} and {words[0]}"

    def _revision(self, number: int) -> Config:
        found = archive.revisions()
        if number >= len(found):
            raise SessionError(f"Invalid revision number {number}: must be 0 <= rev < {len(found)}")
        try:
            return read_config(found[number].text(), self.session.schema, [])
        except OSError as error:
            raise SessionError(f"revision {number} cannot be read ({error})") from None

    def _run(self, words: list[str]) -> str:
        if not words:
            raise SessionError("Incomplete command: run")
        return self._run_op(words)

    # -- carrying out

    def _commit(self, words: list[str], confirm: int = 0) -> str:
        comment = ""
        if words:
            if not "comment".startswith(words[0]) or len(words) != 2:
                verb = "commit-confirm [MINUTES]" if confirm else "commit"
                raise SessionError(f"Invalid command: use {verb} [comment 'text']")
            comment = words[1]
        if not self.session.modified():
            return "No configuration changes to commit\n"
        told = access.ask(
            self.session.schema, "commit", changes=self.session.changes(), via=self._via, comment=comment,
            confirm=confirm, isolated=self._isolated,
        )  # fmt: skip
        self.session.discard()
        self._stay()
        self.unsaved = True
        return told

    def _stay(self) -> None:
        """The edit level may be gone with what was committed."""
        while self.level and get(self.session.candidate, self.level) is None:
            _node, is_value = locate(self.session.schema, self.level)
            self.level = self.level[: -2 if is_value else -1]

    def _commit_confirm(self, words: list[str]) -> str:
        minutes = 10
        if words and is_number(words[0]):
            minutes, words = int(words[0]), words[1:]
        if not 1 <= minutes <= MAX_CONFIRM:
            raise SessionError(f"commit-confirm {minutes} is not possible; give 1 to {MAX_CONFIRM} minutes")
        return self._commit(words, minutes)

    def _confirm(self, _words: list[str]) -> str:
        return access.ask(self.session.schema, "confirm", via=self._via, isolated=self._isolated)

    def _discard(self, _words: list[str]) -> str:
        had = self.session.discard()
        self._stay()
        return indented("Changes have been discarded" if had else "No changes have been discarded")

    def _save(self, words: list[str]) -> str:
        if len(words) > 1:
            raise SessionError("Invalid command: use save, or save FILE")
        warning = ""
        if self.session.modified():
            warning = "Warning: you have uncommitted changes that will not be saved.\n\n"
        self.level = ()
        if not words:
            access.ask(self.session.schema, "save", isolated=self._isolated)
        else:
            running = self.session.running
            text = render(running.tree, self.session.schema, running.comments) + footer(self.session.schema)
            if words[0].startswith(_URL):
                _transfer(["--upload-file", "-", words[0]], words[0], text)
            else:
                try:
                    store.write(Path(words[0]).absolute(), text)
                except store.StoreError as error:
                    raise SessionError(str(error)) from None
        self.unsaved = self.unsaved and bool(words)
        return f"{warning}Saving configuration to '{words[0] if words else places.boot_file()}'...\nDone\n"

    def _load(self, words: list[str], verb: str = "load") -> str:
        if len(words) > 1 or (verb == "merge" and not words):
            raise SessionError(f"Invalid command: use {verb} FILE")
        if self.session.modified():
            participle = "loading" if verb == "load" else "merging"
            return (
                f"Cannot {verb}: configuration modified.\n"
                f"Commit or discard the changes before {participle} a config file.\n"
            )
        self.level = ()
        name = words[0] if words else str(places.boot_file())
        text = _read(name)
        (self.session.load if verb == "load" else self.session.merge)(text)
        begin = f"Loading configuration from '{name}'\n" if verb == "load" else ""
        if not self.session.modified():
            return f"{begin}No configuration changes to commit.\n"
        return f"{begin}{verb.title()} complete. Use 'commit' to make changes effective.\n"

    def _merge(self, words: list[str]) -> str:
        return self._load(words, "merge")

    def _rollback(self, words: list[str]) -> str:
        if len(words) != 1 or not is_number(words[0]):
            raise SessionError("Error: must include a revision # to rollback to")
        config = self._revision(int(words[0]))
        self.session.discard()
        self.level = ()
        self.session.load(render(config.tree, self.session.schema, config.comments))
        if not self.session.modified():
            return f"Revision {words[0]} is what runs; no changes to commit.\n"
        return 'Rollback diff has been applied.\nUse "compare" to review the changes or "commit" to apply them.\n'

    # -- completion

    def choices(self, words: Sequence[str], op: Callable[[Sequence[str]], Choices]) -> Choices:
        """What may follow words; the one being typed is not among them."""
        self.session.refresh()
        if not words:
            return Choices(list(HELP), [("  ", verb, text) for verb, text in HELP.items()])
        try:
            verb = self.verb(words[0])
        except SessionError as error:
            return Choices(wrong=f"  {str(error).splitlines()[0]}\n")
        rest = list(words[1:])
        match verb:
            case "set" | "delete" | "show" | "edit" | "comment":
                return self._path_choices(verb, rest)
            case "copy" | "rename":
                return self._copy_choices(rest)
            case "run":
                return op(rest)
            case _:
                return self._argument_choices(verb, rest)

    def _path_choices(self, verb: str, words: list[str]) -> Choices:
        existing = verb in ("delete", "show", "comment")
        try:
            path = self._path(verb, words)
        except SessionError as error:
            return Choices(wrong=f"  {str(error).splitlines()[0]}\n")
        if verb == "show" and existing and words and not exists(self.session.candidate, path):
            return Choices(wrong=f"  Configuration path: [{' '.join(words)}] is not set\n")
        return conf_choices(self.session.schema, self.session.candidate, path, existing=existing, level=len(self.level))

    def _copy_choices(self, words: list[str]) -> Choices:
        if len(words) in (0, 1):
            return self._path_choices("delete", words)
        if len(words) == 2:
            return Choices(["to"], [("  ", "to", "Set destination")])
        if words[2] == "to" and len(words) in (3, 4):
            return self._path_choices("set", words[3:])
        return Choices(lines=[("  ", *ENTER)])

    def _argument_choices(self, verb: str, words: list[str]) -> Choices:
        if words:
            return Choices(lines=[("  ", *ENTER)])
        lines = {
            "exit": [ENTER, ("discard", "Discard any changes")],
            "commit": [ENTER, ("comment", "Comment for commit log")],
            "commit-confirm": [
                ("<Enter>", "Commit, go back in 10 minutes if no confirm"),
                ("<N>", "Commit, go back in N minutes if no confirm"),
                ("comment", "Comment for commit log"),
            ],
            "save": [("<Enter>", "Save to system config file"), ("<file>", "Save to a file, or to a URL")],
            "load": [("<Enter>", "Load from system config file"), ("<file>", "Load from a file, or from a URL")],
            "merge": [("<file>", "Merge from a file, or from a URL")],
            "compare": [
                ("<Enter>", "Compare working & active configurations"),
                ("commands", "Show the difference as commands"),
                ("saved", "Compare working & saved configurations"),
                ("<N>", "Compare working with revision N"),
                ("<N> <M>", "Compare revision N with M"),
            ],
            "rollback": [("<N>", "Rollback to revision N")],
        }.get(verb, [ENTER])
        choices = Choices([w for w, _ in lines if not w.startswith("<")], [("  ", *line) for line in lines])
        if verb in ("save", "load", "merge"):
            files = _saved_files()
            choices.words += files
            choices.lines += [("  ", name, "") for name in files]
        if verb in ("compare", "rollback"):
            choices.lines.append(("", "", ""))
            choices.lines.append(("  ", "Revisions:", ""))
            log = archive.log(archive.revisions()).splitlines()
            choices.lines += [("    ", line, "") for line in log]
        return choices


def _saved_files() -> list[str]:
    """Files beside the saved configuration, which is where people keep others."""
    try:
        return sorted(str(path) for path in places.boot_file().parent.iterdir() if path.is_file())
    except OSError:
        return []


def _read(name: str) -> str:
    if name.startswith(_URL):
        return _transfer([name], name, None)
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"{name} cannot be read ({getattr(error, 'strerror', None) or 'not a text'})") from None


def _transfer(arguments: list[str], url: str, text: str | None) -> str:
    """Have curl fetch or send a file; addresses may hold a password, so an error leaves that out."""
    shown = url.split("://", 1)[0] + "://" + url.split("://", 1)[1].rpartition("@")[2]
    config = "\n".join(f'url = "{a}"' for a in arguments if a == url)
    others = [a for a in arguments if a != url]
    descriptor = os.memfd_create("curl")
    try:
        os.write(descriptor, config.encode())
        done = subprocess.run(
            ["curl", "--fail", "--silent", "--show-error", "--max-time", "60", "--config", f"/dev/fd/{descriptor}", *others],
            input=text, pass_fds=[descriptor], capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise SessionError(f"{shown} needs the program curl; install it with: apt install curl") from None
    finally:
        os.close(descriptor)
    if done.returncode:
        raise SessionError(f"{shown}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'curl failed'}")
    return done.stdout
