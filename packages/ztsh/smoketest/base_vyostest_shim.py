"""What VyOS's smoketests derive from, for systems without VyOS: a configuration session around every class.

A test class sees an ordinary router: before it the running configuration is put aside, after it, whatever came
of the tests, it is committed again. Touch /tmp/vyos.smoketest.debug to see every command.
"""

import os
import subprocess
import tempfile
import unittest

from vyos.configsession import ConfigSession, ConfigSessionError

DEBUG_FLAG = '/tmp/vyos.smoketest.debug'
OP_MODE = '/usr/bin/ztsh'


def _output(command):
    """What a program prints, without the last newline. Raises OSError, as VyOS's ``cmd`` does, when it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.returncode, f'{" ".join(command)}: {(done.stderr or done.stdout).strip()}')
    return done.stdout.removesuffix('\n')


def _say(test, *words):
    if test.debug:
        print(*(word for word in words if word is not None), flush=True)


class VyOSUnitTestSHIM:
    """Holds the class to derive from, so that importing it does not make it a test."""

    class TestCase(unittest.TestCase):
        """A test of the CLI; ``debug`` prints the commands.

        VyOS's tests also call the methods on the class itself, as in ``cls.cli_set(cls, path)``.
        """

        debug = False

        @classmethod
        def setUpClass(cls):
            cls._session = ConfigSession(os.getpid())
            handle, cls._saved = tempfile.mkstemp(prefix='vyos-smoketest-')
            os.close(handle)
            cls._session.save_config(cls._saved)
            cls.debug = cls.debug or os.path.exists(DEBUG_FLAG)

        @classmethod
        def tearDownClass(cls):
            """Put the configuration back; a router that refuses it fails the class."""
            cls._session.discard()
            cls._session.migrate_and_load_config(cls._saved)
            try:
                cls._session.commit()
            except ConfigSessionError:
                cls._session.discard()
                raise
            os.unlink(cls._saved)

        def cli_set(self, config):
            """Set a path. Raises ConfigSessionError when it is refused."""
            _say(self, 'set', *config)
            self._session.set(config)

        def cli_delete(self, config):
            """Delete a path; one that is not set is no error, as on VyOS."""
            _say(self, 'del', *config)
            self._session.delete(config)

        def cli_commit(self):
            """Commit. Raises ConfigSessionError when it is refused."""
            _say(self, 'commit')
            self._session.commit()

        def op_mode(self, path):
            """What an op mode command prints; ``path`` is a list of words. Raises OSError when it fails."""
            _say(self, *path)
            found = _output([OP_MODE, '-c', ' '.join(path)])
            _say(self, found)
            return found
