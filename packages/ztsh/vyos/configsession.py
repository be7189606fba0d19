"""``ConfigSession``: a configuration session for programs, with the calls that VyOS's smoketests use."""

import contextlib
import io
import os
import subprocess
from pathlib import Path

from ztsh import access, places
from ztsh.confmode import ConfMode
from ztsh.errors import AlreadySet, NothingToDelete, SessionError
from ztsh.opmode import PART
from ztsh.rights import demand_rights
from ztsh.session import Session
from ztsh.store import StoreError, write


class ConfigSessionError(Exception):
    """A command that was refused; the text is what the shell would print."""


class ConfigSession:
    """One session with a candidate of its own; a path is a list of words."""

    def __init__(self, session_id=None, app='python'):
        try:
            demand_rights()
            self._session = Session()
        except SessionError as error:
            raise ConfigSessionError(str(error)) from None
        self._conf = ConfMode(self._session, lambda text: self.show(text.split()), via=app)

    @staticmethod
    def _words(path, value):
        return [*path, value] if value else list(path)

    def _call(self, function, *arguments):
        try:
            self._session.refresh()
            return function(*arguments)
        except (AlreadySet, NothingToDelete) as told:
            return f'{told}\n'
        except (SessionError, StoreError) as error:
            raise ConfigSessionError(str(error)) from None

    def set(self, path, value=None):
        """Set a path; one that is set already is no error."""
        self._call(self._session.set, self._words(path, value))

    def set_section(self, path, d):
        """Set all that a nested dict holds below a path."""
        for below in _paths(d):
            self.set([*path, *below])

    def delete(self, path, value=None):
        """Delete a path; one that is not set is no error."""
        self._call(self._session.delete, self._words(path, value))

    def comment(self, path, value=None):
        """Give a node a comment, or take it away."""
        self._call(self._session.comment, list(path), value or '')

    def commit(self):
        """Commit what has been set; returns what the commit says, warnings of conf scripts too."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            told = self._call(self._conf.execute, ['commit'])
        return said.getvalue() + told

    def discard(self):
        """Forget what has not been committed."""
        self._call(self._session.discard)

    def show_config(self, path, format='raw'):
        """The candidate below a path as text."""
        return self._session.text(path)

    def load_config(self, file_path):
        """Replace the candidate by a file."""
        return self._call(self._load, file_path)

    def migrate_and_load_config(self, file_path):
        """As :meth:`load_config`; there is nothing to migrate."""
        return self.load_config(file_path)

    def _load(self, file_path):
        try:
            text = Path(file_path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SessionError(f'{file_path} cannot be read ({error})') from None
        self._session.load(text)
        return ''

    def save_config(self, file_path):
        """Write the running configuration to a file; to config.boot is to keep it for the next boot."""
        return self._call(self._save, Path(file_path).absolute())

    def _save(self, file):
        if file == places.boot_file():
            return access.ask(self._session.schema, 'save')
        write(file, self._session.running.saved_text(self._session.schema))
        return ''

    def _op(self, verb, path):
        done = subprocess.run(
            ['/usr/bin/ztsh', verb, *path], env={**os.environ, PART: '1'},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ConfigSessionError(done.stdout)
        return done.stdout

    def show(self, path):
        """What an op mode command prints."""
        return self._op('show', path)

    def generate(self, path):
        """What an op mode command prints."""
        return self._op('generate', path)

    def reset(self, path):
        """What an op mode command prints."""
        return self._op('reset', path)


def _paths(section):
    for key, below in section.items():
        if isinstance(below, dict) and below:
            yield from ([key, *rest] for rest in _paths(below))
        elif isinstance(below, list):
            yield from ([key, value] for value in below)
        else:
            yield [key] if isinstance(below, dict) else [key, below]
