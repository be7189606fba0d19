#!/usr/bin/env python3
"""Smoketest of the op mode of ``interfaces zerotier``, and of its example as a person types it.

Every command that the installed definitions have is run, from the prompt and as data; which these are is read from the
templates, so that none can be forgotten. One router alone, as in test_interfaces_zerotier.py.
"""

import contextlib
import hashlib
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from base_zerotier_test import ZeroTierSmoketest, base_path, main, root

from vyos.configsession import ConfigSession

plan = '/run/zerotier-multi/zt254.json'
# VyOS's own, where the nodes are known to it; the package's, which they are copies of, on Debian
templates = ['/opt/vyatta/share/vyatta-op/templates', '/usr/share/zerotier-multi/templates/op']
op_scripts = '/usr/libexec/vyos/op_mode'
# What is typed where a command wants a value; setUpClass adds 'import', the home of a zerotier-one, and files beside it
values = {
    'zerotier': 'zt254', 'instance': '1', 'name': 'R1', 'benchmark': 'zt254', 'remote': 'R2', 'duration': '10', 'interface': 'zt254',
}  # fmt: skip
# What README.md configures (a unit test compares)
example = [
    'set interfaces zerotier zt0 instances 4',
    'set interfaces zerotier zt0 network-id 8056c2e21c000001',
    'set interfaces zerotier zt0 transit prefix 10.14.0.0/28',
    'set interfaces zerotier zt0 transit site 1',
    'set interfaces zerotier zt0 address 10.0.55.1/32',
    'set interfaces zerotier zt0 remote R2 prefix 10.0.55.2/32',
]
# Seconds that a state may take to come about; ZTM_PATIENCE stretches it on a slow machine
PATIENCE = 60.0 * float(os.environ.get('ZTM_PATIENCE', '1'))


def commands():
    """(words, program) of every op mode command of ours: words as typed, the program as the templates have it."""
    root = next(d for d in templates if os.path.isdir(f'{d}/show/zerotier'))
    found = []
    for directory, _, files in os.walk(root):
        path = os.path.relpath(directory, root).split('/')
        if 'zerotier' not in path or 'node.def' not in files:
            continue
        with open(f'{directory}/node.def') as file:
            run = re.search(r'^run:\s*(.+)', file.read(), re.MULTILINE)
        if run and 'zerotier' in run[1]:
            words = [values[path[place - 1]] if word == 'node.tag' else word for place, word in enumerate(path)]
            found.append((words, run[1]))
    return sorted(found)


def start(words, program, *arguments):
    """Start the program of a command as op mode does; its errors come with its output."""
    return subprocess.Popen(
        ['/bin/bash', '-c', f'{program} {" ".join(arguments)}', 'op', *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, 'vyos_op_scripts_dir': op_scripts, 'PYTHONUNBUFFERED': '1'},
    )


def call(words, program, *arguments, answer=''):
    """Run the program of a command as op mode does; (exit status, output)."""
    with start(words, program, *arguments) as running:
        text, _ = running.communicate(answer)
    return running.returncode, text


class Prompt:
    """A login at a terminal: lines go in, what they print comes out."""

    READY = re.compile(r'[\w.-]+@[\w.-]+[^\n]*[$#] *$')
    # A pager on a terminal that cannot do much waits for a key, before and after
    PAGER = re.compile(r'(Press RETURN to continue|\(END\)|\n:|--More--) *$')

    def __init__(self):
        shell = next(s for s in (['/bin/vbash', '--login'], ['/usr/bin/ztsh']) if os.path.exists(s[0]))
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(shell[0], shell, {**os.environ, 'TERM': 'dumb', 'PAGER': 'cat', 'VYATTA_PAGER': 'cat'})
        self.wait()

    def wait(self):
        """Everything up to the next prompt."""
        text, end = '', time.monotonic() + PATIENCE
        while not self.READY.search(text):
            if not select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f'no prompt after {PATIENCE:.0f} s: {text[-2000:]!r}')
            text += os.read(self.terminal, 65536).decode(errors='replace')
            text = re.sub(r'\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r', '', text)
            pager = self.PAGER.search(text)
            if pager:
                os.write(self.terminal, b'\n' if pager[1].startswith('Press') else b'q')
                text = text[: pager.start()] + '\n'
        return text

    def type(self, line):
        """Type a line; what comes until the next prompt."""
        os.write(self.terminal, f'{line}\n'.encode())
        return self.wait()

    def close(self):
        """Hang up."""
        os.close(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class ZeroTierOpModeTest(ZeroTierSmoketest):
    @classmethod
    def prepare(cls):
        # VyOS runs its tests as a user
        values['import'] = tempfile.mkdtemp(prefix='zerotier-')
        cls.addClassCleanup(shutil.rmtree, values['import'])
        values.update({name: f'{values["import"]}/{name}' for name in ('archive', 'passphrase-file')})
        os.mkdir(f'{values["import"]}/networks.d')
        with open(f'{values["import"]}/networks.d/8056c2e21c000001.conf', 'w'):
            pass

    def tearDown(self):
        super().tearDown()
        self.cli_delete(base_path)
        self.cli_commit()
        self.assertFalse(os.path.exists(plan))

    def configure(self):
        """A bundle of two instances whose other end never answers."""
        for line in (
            'instances 2', 'network-id 8056c2e21c000001', 'controller-free', 'health-check disable',
            'transit prefix 198.18.14.0/28', 'transit site 1', 'address 198.18.55.1/32', 'remote R2 prefix 198.18.55.2/32',
        ):  # fmt: skip
            self.cli_set(base_path + ['zt254', *line.split()])
        for number in (1, 2):
            identity = f'9e57{number:06x}:0:{hashlib.sha512(str(number).encode()).hexdigest()}'
            self.cli_set(base_path + ['zt254', 'remote', 'R2', 'instance', str(number), 'identity', identity])
        self.cli_commit()

    def sound(self, words, text):
        """What no command may print."""
        self.assertNotIn('Traceback', text, ' '.join(words))
        self.assertNotIn('AttributeError', text, ' '.join(words))

    def test_01_there_are_all_kinds_of_commands(self):
        verbs = {words[0] for words, _ in commands()}
        self.assertEqual(verbs, {'show', 'generate', 'import', 'monitor', 'reset', 'restart', 'zerotier'})
        self.assertGreater(len(commands()), 15)

    def test_02_every_command_at_the_prompt(self):
        self.configure()
        for words, program in commands():
            if words[0] in ('show', 'generate', 'restart') and 'archive' not in words:
                with self.subTest(words=words):
                    text = self.op_mode(words)
                    self.sound(words, text or '')
                    if words[0] != 'restart':
                        self.assertNotEqual((text or '').strip(), '')

    def test_03_every_command_as_data(self):
        self.configure()
        for words, program in commands():
            if words[0] in ('show', 'generate') and 'archive' not in words:
                with self.subTest(words=words):
                    status, text = call(words, program, '--raw')
                    self.sound(words, text)
                    self.assertEqual(status, 0, text)
                    self.check_fields(json.loads(text))

    def check_fields(self, data):
        """Names of fields are words, and none comes from the configuration: VyOS would change those."""
        if isinstance(data, dict):
            for name, below in data.items():
                self.assertRegex(name, r'^[a-z][a-z0-9_]*$')
                self.check_fields(below)
        elif isinstance(data, list):
            for below in data:
                self.check_fields(below)

    def test_04_what_asks_first(self):
        self.configure()
        for words, program in commands():
            if words[0] == 'reset':
                with self.subTest(words=words):
                    status, text = call(words, program, answer='n\n')
                    self.sound(words, text)
                    self.assertIn('zt254', text)
                    status, text = call(words, program, answer='y\n')
                    self.sound(words, text)
                    self.assertEqual(status, 0, text)

    def test_05_what_goes_on_until_it_is_stopped(self):
        self.configure()
        for words, program in commands():
            if words[0] == 'monitor':
                # It ends when nobody reads any more; a signal would not reach it through sudo
                status, text = call(words, f'set -o pipefail; {program} 2>&1 | sed /zt254/q')
                self.sound(words, text)
                self.assertIn('zt254', text)
                self.assertEqual(status, 0, text)

    def test_06_one_sentence_where_there_is_no_such_bundle(self):
        for words, program in commands():
            named = ['zt255' if word == 'zt254' else word for word in words]
            if 'zt255' in named:
                if words[0] == 'import':
                    continue  # it reads the file first: test_11
                for arguments in ([], ['--raw']) if words[0] == 'show' else ([],):
                    with self.subTest(words=named, arguments=arguments):
                        status, text = call(named, program, *arguments)
                        self.sound(named, text)
                        self.assertEqual(status, 1, text)
                        self.assertIn('zt255', text)
                        self.assertEqual(len(text.strip().splitlines()), 1, text)

    def test_07_nothing_is_configured(self):
        for words, program in commands():
            if words[0] in ('show', 'generate') and not {'zt254', 'archive'} & set(words):
                with self.subTest(words=words):
                    self.sound(words, self.op_mode(words) or '')
                    status, text = call(words, program, '--raw')
                    self.assertEqual(status, 0, text)
                    self.check_fields(json.loads(text))

    def test_08_a_benchmark_without_the_other_end(self):
        self.configure()
        for words, program in commands():
            if words[0] == 'zerotier' and 'remote' in words:
                with self.subTest(words=words):
                    status, text = call(words, program)
                    self.sound(words, text)
                    self.assertEqual(status, 1, text)
                    self.assertRegex(text.strip(), r'^.*\bR2\b.*$')

    def test_09_a_benchmark_waits_until_it_is_stopped(self):
        self.configure()
        ((words, program),) = [found for found in commands() if found[0][-1] == 'server']
        waiting = start(words, program)
        try:
            text = waiting.stdout.readline()
            self.assertIn('zt254 waits on TCP port', text)
        finally:
            # The program alone: sudo would pass the signal on to it a second time
            pattern = '^[^ ]*python3 .*zerotier_benchmark.py --bundle=zt254 --server'
            root('pkill', '--signal', 'INT', '--full', pattern, check=False)
            text += waiting.communicate(timeout=PATIENCE)[0]
        self.sound(words, text)
        self.assertEqual(waiting.returncode, 130, text)

    def test_10_the_example_typed_at_the_prompt(self):
        prompt = Prompt()
        try:
            self.assertIn('edit', prompt.type('configure'))
            for line in [*example, 'set interfaces zerotier zt0 controller-free']:
                # With the names and addresses that the tests have to themselves
                text = prompt.type(line.replace('zt0', 'zt254').replace('10.14.0.', '198.18.14.').replace('10.0.55.', '198.18.55.'))
                self.assertNotRegex(text, r'(?i)invalid|failed|error|not valid')
            text = prompt.type('compare')
            self.assertIn('network-id', text)
            self.assertIn('8056c2e21c000001', text)
            text = prompt.type('commit')
            self.assertNotRegex(text, r'(?i)failed|Traceback')
            self.assertTrue(os.path.exists(plan), text)
            self.assertIn('zt254', prompt.type('run show zerotier'))
            prompt.type('exit')
            text = prompt.type('show zerotier zt254')
            self.sound(['show', 'zerotier', 'zt254'], text)
            self.assertIn('zt254', text)
            text = prompt.type('show zerotier zt254 identity')
            for number in range(1, 5):
                self.assertRegex(re.sub(r'\s+', ' ', text), rf'instance {number} identity \'?[0-9a-f]{{10}}:0:')
        finally:
            prompt.close()
            # 'configure' of VyOS ends every session that has no shell, so the test's own too
            cls = type(self)
            with contextlib.redirect_stderr(io.StringIO()):  # where the old one says so
                cls._session = None
            cls._session = ConfigSession(os.getpid())

    def test_11_an_archive_is_written_and_read(self):
        self.configure()
        passphrase, archive = 'correct horse battery', values['archive']
        with open(values['passphrase-file'], 'w') as file:
            file.write(passphrase + '\n')
        found = [(words, program) for words, program in commands() if 'archive' in words]
        for words, program in (f for f in found if f[0][0] == 'generate'):
            with self.subTest(words=words):
                status, text = call(words, program, '--raw', answer=passphrase + '\n')
                self.sound(words, text)
                self.assertEqual(status, 0, text)
                self.check_fields(json.loads(text))
                self.assertEqual(len(json.loads(text)['identities']) >= 2, True, text)
                self.assertEqual(os.stat(archive).st_mode & 0o777, 0o600)
                status, text = call(words, program, answer=passphrase + '\n')
                self.assertEqual(status, 1, text)
                self.assertIn('is not overwritten', text)
                os.remove(archive)
        words, program = found[0]
        call(words, program, answer=passphrase + '\n')
        for words, program in (f for f in found if f[0][0] == 'import'):
            with self.subTest(words=words):
                status, text = call(words, program, answer=passphrase + '\n')
                self.sound(words, text)
                self.assertEqual(status, 0, text)
                self.assertIn('zt254/1 was already node', text)
                named = ['zt255' if word == 'zt254' else word for word in words]
                if named != words:
                    status, text = call(named, program, answer=passphrase + '\n')
                    self.assertEqual((status, len(text.splitlines())), (1, 1), text)
                    self.assertIn('zt255', text)


if __name__ == '__main__':
    main()
