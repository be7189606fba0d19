"""All commands of conf mode, one entry each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ztsh.complete import ENTER
from ztsh.editor import Editor
from ztsh.verbs import committing, completion, editing, files, levels, looking
from ztsh.verbs.completion import Completer, add_files, add_revisions, arguments, existing_path, nothing, path


@dataclass(frozen=True)
class Verb:
    """A command: its name, the forms of its arguments, its help, its completion, and its function.

    ``run`` gets the words after the name and returns what to print. It raises :class:`ztsh.errors.SessionError` for
    what is refused, and :class:`ztsh.errors.Misused` for arguments in none of the forms. ``scripted``: also a
    command of the wrapper for scripts. ``filtered``: its output may go through a pipe, or to a file. ``verbatim``: its
    argument is the rest of the line, with quotes, pipes and all.
    """

    name: str
    forms: tuple[str, ...]
    help: str
    complete: Completer
    run: Callable[[Editor, list[str]], str]
    scripted: bool = True
    filtered: bool = False
    verbatim: bool = False

    @property
    def usage(self) -> str:
        """The forms in a row: ``compare, compare saved or compare N``."""
        *first, last = (f"{self.name} {form}".rstrip() for form in self.forms)
        return f"{', '.join(first)} or {last}" if first else last


_COMMENT = ("comment", "Comment for commit log")

_ALL = (
    Verb("comment", ("PATH 'text'",), "Add a comment to a configuration node", existing_path("comment"), editing.comment),
    Verb("commit", ("[comment 'text']",), "Commit the changes", arguments(ENTER, _COMMENT), committing.commit),
    Verb(
        "commit-confirm", ("[MINUTES] [no-prompt] [comment 'text']",), "Commit the changes, roll back unless 'confirm' follows in time",
        arguments(
            ("<Enter>", "Commit, roll back in 10 minutes if no confirm"), ("<N>", "Commit, roll back in N minutes if no confirm"),
            ("no-prompt", "Commit without a question, as without this word"), _COMMENT,
        ),
        committing.commit_confirm,
    ),
    Verb(
        "compare", ("", "saved", "N", "N M"), "Compare configurations",
        arguments(
            ("<Enter>", "Compare working & active configurations"),
            ("commands", "Show the difference as commands"),
            ("saved", "Compare working & saved configurations"),
            ("<N>", "Compare working with revision N"),
            ("<N> <M>", "Compare revision N with M"),
            more=add_revisions,
        ),
        looking.compare, filtered=True,
    ),
    Verb("confirm", ("",), "Confirm the last commit-confirm", nothing, committing.confirm),
    Verb("copy", ("NAME VALUE to NAME VALUE",), "Copy a configuration node", completion.copied, editing.copy),
    Verb("delete", ("PATH",), "Delete a configuration node or value", existing_path("delete"), editing.delete),
    Verb("discard", ("",), "Discard all uncommitted changes", nothing, editing.discard),
    Verb("edit", ("PATH",), "Go to a configuration level", path("edit"), levels.edit, scripted=False),
    Verb(
        "exit", ("[discard]",), "Exit from this level, or from configuration mode",
        arguments(ENTER, ("discard", "Discard any changes")), levels.exit_, scripted=False,
    ),
    Verb(
        "load", ("[FILE]",), "Replace the configuration with a file",
        arguments(("<Enter>", "Load from system config file"), ("<file>", "Load from a file, or from a URL"), more=add_files), files.load,
    ),
    Verb(
        "merge", ("FILE",), "Merge a file into the configuration",
        arguments(("<file>", "Merge from a file, or from a URL"), more=add_files), files.merge,
    ),
    Verb("rename", ("NAME VALUE to NAME VALUE",), "Rename a configuration node", completion.copied, editing.rename),
    Verb(
        "rollback", ("N",), "Return to an earlier commit",
        arguments(("<N>", "Rollback to revision N"), more=add_revisions), committing.rollback,
    ),
    Verb("run", ("COMMAND",), "Run an operational mode command", completion.op_command, looking.run, scripted=False, verbatim=True),
    Verb(
        "save", ("[FILE]",), "Save the running configuration",
        arguments(("<Enter>", "Save to system config file"), ("<file>", "Save to a file, or to a URL"), more=add_files), files.save,
    ),
    Verb("set", ("PATH",), "Set a value or create a configuration node", path("set"), editing.set_),
    Verb(
        "show", ("[PATH] [-all]",), "Show the configuration (-all: with default values)",
        completion.shown_path, looking.show, filtered=True,
    ),
    Verb("top", ("",), "Go to the top level", nothing, levels.top, scripted=False),
    Verb("up", ("",), "Go up one level", nothing, levels.up, scripted=False),
)  # fmt: skip

VERBS = {verb.name: verb for verb in _ALL}
ALIASES = {"rollback-soft": "rollback"}
