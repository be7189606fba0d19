"""``ConfigSession``: a configuration session for programs, with the calls that VyOS's smoketests use."""

from ztsh.session import Session, SessionError


class ConfigSessionError(Exception):
    """A command that was refused; the text is what the shell would print."""


class ConfigSession:
    """Set, delete, commit and discard in one session; a path is a list of words."""

    def __init__(self, session_id=None, app=None):
        self._session = Session()

    @staticmethod
    def _call(function, *arguments):
        try:
            return function(*arguments)
        except SessionError as error:
            raise ConfigSessionError(str(error)) from None

    def set(self, path, value=None):
        """Set a path; one that stands already is no error."""
        words = [*path, value] if value is not None else list(path)
        try:
            self._session.set(words)
        except SessionError as error:
            if not str(error).endswith('already exists\n'):
                raise ConfigSessionError(str(error)) from None

    def delete(self, path, value=None):
        """Delete a path."""
        self._call(self._session.delete, [*path, value] if value is not None else list(path))

    def commit(self):
        """Commit what has been set."""
        self._call(self._session.commit)

    def discard(self):
        """Forget what has not been committed."""
        self._session.discard()

    def show_config(self, path=()):
        """The candidate below a path as text."""
        return self._session.show(path)
