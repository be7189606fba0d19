"""Configurations in files, here or behind a URL: save, load, merge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ztsh import access, places, store
from ztsh.editor import Editor
from ztsh.errors import Misused, SessionError

_URL = ("http://", "https://", "ftp://", "scp://", "sftp://", "tftp://")


def save(editor: Editor, words: list[str]) -> str:
    """Write the running configuration to a file, by default the one that the next boot reads."""
    if len(words) > 1:
        raise Misused
    warning = ""
    if editor.session.modified():
        warning = "Warning: you have uncommitted changes that will not be saved.\n\n"
    if not words or _is_boot_file(words[0]):
        access.ask(editor.session.schema, "save", isolated=editor.isolated)
        editor.unsaved = False
    else:
        _write(words[0], editor.session.running.saved_text(editor.session.schema))
    editor.level = ()
    return f"{warning}Saving configuration to '{words[0] if words else places.boot_file()}'...\nDone\n"


def _is_boot_file(name: str) -> bool:
    """Whether a name means the file of the next boot, which is not written while a commit waits to be confirmed."""
    return not name.startswith(_URL) and os.path.realpath(name) == os.path.realpath(places.boot_file())


def load(editor: Editor, words: list[str]) -> str:
    """Replace the candidate by a file, by default the saved configuration."""
    if len(words) > 1:
        raise Misused
    if editor.session.modified():
        return _modified("load", "loading")
    name = words[0] if words else str(places.boot_file())
    editor.session.load(read(name))
    editor.level = ()
    return f"Loading configuration from '{name}'\n{_loaded(editor, 'Load')}"


def merge(editor: Editor, words: list[str]) -> str:
    """Add a file to the candidate."""
    if len(words) != 1:
        raise Misused
    if editor.session.modified():
        return _modified("merge", "merging")
    editor.session.merge(read(words[0]))
    editor.level = ()
    return _loaded(editor, "Merge")


def _modified(verb: str, participle: str) -> str:
    return f"Cannot {verb}: configuration modified.\nCommit or discard the changes before {participle} a config file.\n"


def _loaded(editor: Editor, what: str) -> str:
    if not editor.session.modified():
        return "No configuration changes to commit.\n"
    return f"{what} complete. Use 'commit' to make changes effective.\n"


def read(name: str) -> str:
    """The text of a file or a URL. Raises :class:`SessionError`."""
    if name.startswith(_URL):
        return _transfer(name, [], None)
    try:
        return Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SessionError(f"{name} cannot be read ({getattr(error, 'strerror', None) or 'not a text'})") from None


def _write(name: str, text: str) -> None:
    if name.startswith(_URL):
        _transfer(name, ["--upload-file", "-"], text)
        return
    try:
        store.write(Path(name).absolute(), text)
    except store.StoreError as error:
        raise SessionError(str(error)) from None


def _transfer(url: str, options: list[str], text: str | None) -> str:
    """Have curl fetch or send a file; addresses may hold a password, so neither arguments nor errors have it."""
    scheme, rest = url.split("://", 1)
    shown = f"{scheme}://{rest.rpartition('@')[2]}"
    descriptor = os.memfd_create("curl")
    try:
        os.write(descriptor, f'url = "{url}"'.encode())
        done = subprocess.run(
            ["curl", "--fail", "--silent", "--show-error", "--max-time", "60", "--config", f"/dev/fd/{descriptor}", *options],
            input=text, pass_fds=[descriptor], capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise SessionError(f"{shown} needs the program curl; install it with: apt install curl") from None
    finally:
        os.close(descriptor)
    if done.returncode:
        raise SessionError(f"{shown}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'curl failed'}")
    return done.stdout
