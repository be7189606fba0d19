"""What the smoketests of ``interfaces zerotier`` share: they leave a router in use as it was, or say why they do not begin.

The tests have bundles of their own, zt254 and zt255, so homes and identities of other bundles are not touched. These other
bundles are stopped meanwhile, which ZTM_STOP_BUNDLES=yes allows. Nothing is saved. Whoever stops the tests with Ctrl-C, a
signal or the end of his terminal gets his configuration back as well.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import unittest
from ipaddress import ip_network

try:
    from base_vyostest_shim import VyOSUnitTestSHIM
except ModuleNotFoundError as missing:
    if missing.name != 'base_vyostest_shim':
        raise
    sys.exit('base_vyostest_shim.py is missing: it is in VyOS\'s package vyos-1x-smoketest, which release images do not have')

base_path = ['interfaces', 'zerotier']
BUNDLE, OTHER = 'zt254', 'zt255'
homes = '/config/zerotier-multi'
plans = '/run/zerotier-multi'
saved = '/tmp/vyos-smoketest-save'  # where VyOS's shim writes the configuration of before
# Where all addresses and prefixes of the tests are: networks for measurements and documents, which no router should use
PREFIXES = [
    ip_network(prefix)
    for prefix in (
        '198.18.14.0/24', '198.18.15.0/24', '198.18.55.0/24', '198.18.56.0/24', '198.18.113.0/24', '192.0.2.0/24',
        '2001:db8:1::/64', '2001:db8:14::/64', '2001:db8:55::/64', '2001:db8:100::/48',
    )
]  # fmt: skip
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_stopped = []  # the signals that have come


class Stopped(Exception):
    """Somebody stops the tests."""


def root(*command, check=True):
    """What a program prints that only root may run."""
    words = [*([] if os.geteuid() == 0 else ['sudo', '-n']), *command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(done.returncode, f'{" ".join(words)}: {(done.stderr or done.stdout).strip()}')
    return done.stdout


def ip(*arguments):
    """What iproute2 tells, decoded."""
    return json.loads(root('ip', '-j', *arguments) or '[]')


def bundles():
    """Names of the bundles that are configured."""
    found = root('find', plans, '-maxdepth', '1', '-name', 'zt*.json', check=False)
    return sorted(os.path.basename(path).removesuffix('.json') for path in found.split())


def networks():
    """What this router has addresses or routes of, except its bundles: (network, words that name it)."""
    for link in ip('address'):
        for address in link.get('addr_info', []):
            if not re.fullmatch(r'zt\d+(p\d+)?', link['ifname']) and 'local' in address:
                text = f'{address["local"]}/{address["prefixlen"]}'
                yield ip_network(text, strict=False), f'{link["ifname"]} has the address {text}'
    for family in ('-4', '-6'):
        for route in ip(family, 'route', 'show', 'table', 'main'):
            harmless = route['dst'] == 'default' or route.get('type', 'unicast') != 'unicast'
            if not harmless and not re.fullmatch(r'zt\d+(p\d+)?', route.get('dev', '')) and 'nhid' not in route:
                yield ip_network(route['dst']), f'there is a route to {route["dst"]}'


def obstacles():
    """Why the tests must not begin on this router, in sentences."""
    try:
        root('true')
    except OSError as error:
        return [f'the tests need root: {error.strerror}; run them as root, or as a user whose sudo asks for no password']
    if not os.path.isdir('/proc/sys/net/ipv6'):
        return ['the kernel has no IPv6 here, and the tests set IPv6 addresses; run them on another router']
    found, configured = [], bundles()
    for name in (BUNDLE, OTHER):
        if name in configured:
            found.append(
                f'{name} is configured, which the tests use: delete it (if it is of a run that was killed, "load" in'
                ' configuration mode and "commit" bring back what is saved)'
            )
    others = ', '.join(name for name in configured if name not in (BUNDLE, OTHER))
    if others and os.environ.get('ZTM_STOP_BUNDLES') != 'yes':
        found.append(
            f'{others} would be stopped while the tests run, for minutes, and come back with its identities at the end;'
            ' if that may be, run them with ZTM_STOP_BUNDLES=yes'
        )
    for network, words in networks():
        for prefix in PREFIXES:
            if network.version == prefix.version and network.overlaps(prefix):
                found.append(f'{words}, and the tests use {prefix}; run them on another router')
    return found


class ZeroTierSmoketest(VyOSUnitTestSHIM.TestCase):
    """The tests of one program: before them all bundles are deleted, after them the router is as it was."""

    ending = False

    @classmethod
    def setUpClass(cls):
        if found := obstacles():
            raise AssertionError('\n'.join(found))
        cls.homes = set(root('ls', homes, check=False).split())
        # It has passwords and keys, and VyOS's shim would let every user read it; and leaves it, here of another user
        root('rm', '-f', saved)
        os.close(os.open(saved, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        super().setUpClass()
        # Without a setUpClass that ends well there is no tearDownClass
        try:
            VyOSUnitTestSHIM.TestCase.cli_delete(cls, base_path)
            VyOSUnitTestSHIM.TestCase.cli_commit(cls)
            cls.prepare()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def prepare(cls):
        """What else a program does before its tests."""

    @classmethod
    def tearDownClass(cls):
        try:
            super().tearDownClass()
        except BaseException:
            file = getattr(cls, '_saved', saved)
            print(f'What was configured before is in {file}: "load {file}" and "commit" in configuration mode.', file=sys.stderr)
            raise
        cls._session = None  # VyOS ends a session with its object, which nothing does at the end of the program
        if os.path.exists(saved):
            os.remove(saved)
        for name in {BUNDLE, OTHER} - cls.homes:
            root('rm', '-rf', f'{homes}/{name}')

    def run(self, result=None):
        if _stopped:
            return result
        return super().run(result)

    def tearDown(self):
        self.ending = True

    def go_on(self):
        """Nothing, unless somebody stops the tests; what puts things back goes on."""
        if _stopped and not self.ending:
            raise Stopped(signal.Signals(_stopped[0]).name)

    def cli_commit(self):
        self.go_on()
        super().cli_commit()


class _Output:
    """Output that goes nowhere once its terminal or pipe is gone, so that the tests come to their end."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def _try(self, function, *arguments):
        try:
            return function(*arguments)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def write(self, text):
        self._try(self._stream.write, text)
        return len(text)

    def flush(self):
        self._try(self._stream.flush)


def _stop(number, _frame):
    _stopped.append(number)
    if len(_stopped) == 1:
        try:
            os.write(2, b'\nstopping; wait until the configuration is as it was\n')
        except OSError:
            pass  # nobody reads


def _tests():
    """Run the tests of the program; its exit status."""
    for number in STOPPING:
        signal.signal(number, _stop)
    sys.stdout, sys.stderr = _Output(sys.stdout), _Output(sys.stderr)
    try:
        unittest.main(verbosity=2)
    except SystemExit as end:
        return 128 + _stopped[0] if _stopped else end.code
    return 0


def main():
    """Run the tests of the program that is started.

    They have a session of their own: signals come to them alone, through us, and not also to a commit, which has to end.
    """
    lock = socket.socket(socket.AF_UNIX)  # held by the tests, until they end
    try:
        lock.bind('\0zerotier-multi-smoketest')
    except OSError:
        sys.exit('these tests run on this router already; wait for their end')
    if found := obstacles():
        sys.exit('\n'.join(found))
    tests = os.fork()
    if tests == 0:
        os.setsid()
        sys.exit(_tests())
    for number in STOPPING:
        signal.signal(number, lambda number, _frame: os.kill(tests, number))
    code = os.waitstatus_to_exitcode(os.waitpid(tests, 0)[1])
    sys.exit(code if code >= 0 else 128 - code)
