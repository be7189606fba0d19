"""An unprivileged user of a router: what he floods, holds, reads and plants changes nothing for root."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from tests.attack.fuzz_targets import REQUESTS, a_request
from tests.attack.hostile import memory
from tests.attack.settings import Attack

from lab import Router
from lab.scenario import status

# The signal of :meth:`Router.popen` is forgotten by a process that becomes another user.
NOBODY = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--pdeathsig", "KILL", "--")
DESCRIPTION = "set interfaces zerotier zt0 description"

# Connects to everybody's socket without end: half of it says nothing, the other half asks and never reads the answer.
_FLOOD = """
import socket, sys
held = []
print("ready", flush=True)
while True:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try:
        client.connect("/run/zerotier-multi/pathd.sock")
        if len(held) % 2:
            client.send(b'{"op": "status"}\\n')
    except OSError:
        pass
    held.append(client)
    if len(held) > 400:
        held = held[200:]
"""

# Opens whatever it can below what is ours, and takes every lock of it.
_HOLD = """
import fcntl, os, time
held = []
for top in ("/run/ztsh", "/run/zerotier-multi", "/config", "/run/router-image.lock"):
    for path in [top, *(os.path.join(place, name) for place, _dirs, names in os.walk(top) for name in names)]:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append((path, file))
        except OSError:
            continue
print("held", *(path for path, _file in held), flush=True)
time.sleep(600)
"""

# Sends each line of standard input to everybody's socket, and tells what was never answered.
_ASK = """
import json, socket, sys, time
for line in sys.stdin:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(20)
    while True:
        try:
            client.connect("/run/zerotier-multi/pathd.sock")
            break
        except BlockingIOError:  # a crowd before him
            time.sleep(0.05)
    try:
        client.sendall(bytes.fromhex(line))
        client.shutdown(socket.SHUT_WR)
        told = b"".join(iter(lambda: client.recv(65536), b""))
        if told:
            answer = json.loads(told)
            assert "error" in answer or "bundles" in answer, told
            assert "ok" not in answer, told
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
print("done")
"""

# What may be read: the text of every file below these, of every process, and of what the journal gives him.
_READ = """
import os, re, subprocess, sys
wanted = [word.encode() for word in sys.argv[1:]]
seen = found = 0
def look(path):
    global seen, found
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    with open(descriptor, "rb") as file:
        try:
            text = file.read(1 << 22)
        except OSError:
            return
    seen += 1
    for word in wanted:
        if word in text:
            print("LEAK", path)
for top in ("/run", "/config", "/etc/systemd", "/var/log", "/var/lib", "/tmp", "/var/tmp", "/root", "/dev/shm"):
    for place, _dirs, names in os.walk(top):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path):
                look(path)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ", "maps", "stat", "status"):
        if int(pid) != os.getpid():
            look(f"/proc/{pid}/{name}")
text = subprocess.run(["journalctl", "--no-pager"], capture_output=True).stdout
if any(word in text for word in wanted):
    print("LEAK journal")
print("seen", seen)
"""


@pytest.fixture
def router(trio: list[Router]) -> Iterator[Router]:
    """R1, with all as it was behind the attack: the daemon and the instances are the same processes, all paths are up."""
    first = trio[0]
    before = _processes(first)
    yield first
    first.wait(lambda: not first.run(["pgrep", "-u", "nobody"], check=False).stdout, what="the end of the attack")
    assert _processes(first) == before
    assert {path["state"] for path in status(first)["bundles"]["zt0"]["paths"]} == {"up"}


def _processes(router: Router) -> str:
    units = ["zerotier-pathd.service", "zerotier-multi@zt0-1.service", "zerotier-multi@zt0-2.service"]
    return router.run(["systemctl", "show", "--property=Id,MainPID,NRestarts", *units]).stdout


def python(program: str, *arguments: str) -> list[str]:
    """The command by which nobody runs a program."""
    return [*NOBODY, "/usr/bin/python3", "-c", program, *arguments]


@contextmanager
def running(router: Router, command: Sequence[str], word: str) -> Iterator[str]:
    """A program of his until the end of the block; it begins when it has said so."""
    program = router.popen(command)
    assert program.stdout
    line = program.stdout.readline()
    assert line.startswith(word), line
    try:
        yield line
    finally:
        program.kill()
        program.wait()


def works(router: Router, rounds: int) -> None:
    """Root commits, shows, and asks the daemon, every time at once."""
    for number in range(rounds):
        router.must_configure(f"{DESCRIPTION} {number}")
        assert "zt0" in router.run(["/usr/libexec/vyos/op_mode/zerotier.py", "show_summary"]).stdout
        assert status(router)["bundles"]
    router.must_configure("delete interfaces zerotier zt0 description")


def test_a_flood_of_connects_to_the_daemon_holds_nobody_up(router: Router, attack: Attack) -> None:
    with running(router, python(_FLOOD), "ready"), running(router, python(_FLOOD), "ready"):
        works(router, attack.either(2, 30))


def test_every_lock_that_he_can_hold_is_nobodys(router: Router, attack: Attack) -> None:
    with running(router, python(_HOLD), "held"):
        works(router, attack.either(1, 10))
        router.must_configure(f"{DESCRIPTION} saved", save=True)
    router.must_configure("delete interfaces zerotier zt0 description", save=True)


def test_fuzzed_requests_are_answered_or_dropped(router: Router, attack: Attack) -> None:
    before, source = memory(router, "zerotier-pathd.service"), attack.random("requests")
    lines = "".join(f"{a_request(source, REQUESTS)[:4000].hex()}\n" for _ in range(attack.either(500, 20_000)))
    told = router.run(python(_ASK), text_input=lines, timeout=600).stdout
    assert told == "done\n" and memory(router, "zerotier-pathd.service") - before < 8 << 20


def test_he_reads_no_secret_anywhere(router: Router) -> None:
    """In files, in processes and in the journal; root looks for the same and finds it, or the test would see nothing."""
    listed = router.run(["sh", "-c", "for file in /config/zerotier-multi/zt0/*/*.secret; do cat $file; echo; done"]).stdout
    secrets = [word.rpartition(":")[2] for word in listed.split()]
    assert len(secrets) >= 2 and all(len(secret) >= 24 for secret in secrets)
    told = router.run(python(_READ, *secrets), timeout=120).stdout
    assert "LEAK" not in told and int(re.search(r"seen (\d+)", told)[1]) > 50, told
    assert "LEAK" in router.run(["/usr/bin/python3", "-c", _READ, *secrets], timeout=120).stdout


def test_he_plants_no_links_for_us(router: Router) -> None:
    """Links where anybody may write, at every name that we make a file of there: what they point to is not written."""
    router.run(["sh", "-c", "echo untouched >/root/target; chmod 600 /root/target"])
    names = ["config.boot", ".config.boot", "active.boot", "zt0.json", "pathd.sock", "router-image", "vyos-smoketest", "ztsh"]
    plant = "; ".join(f"ln -sfn /root/target {place}/{name}" for place in ("/tmp", "/var/tmp", "/dev/shm") for name in names)
    before = router.run(["find", "/tmp", "/var/tmp", "/dev/shm", "-type", "f", "-user", "root", "-newer", "/root/target"]).stdout
    router.run([*NOBODY, "sh", "-c", plant], check=False)
    works(router, 1)
    router.run(["/usr/libexec/vyos/op_mode/zerotier.py", "generate_identity"])
    made = router.run(["find", "/tmp", "/var/tmp", "/dev/shm", "-type", "f", "-user", "root", "-newer", "/root/target"]).stdout
    assert made == before and router.read("/root/target") == "untouched\n"
    router.run(["sh", "-c", "rm -f /root/target; find /tmp /var/tmp /dev/shm -type l -user nobody -delete"])


HOSTILE = [
    {"operation": "commit", "changes": {"gone": [], "added": [], "comments": []}, "details": {"via": "x\n0 forged"}},
    {"operation": "commit", "changes": {"gone": [], "added": [["interfaces", "zerotier", "zt0", "description", "a\x1b[2J"]], "comments": []}, "details": {}},
    {"operation": "commit", "changes": {"gone": [], "added": [["system", "login"]], "comments": []}, "details": {}},
    {"operation": "commit", "changes": {"gone": [], "added": [["interfaces", "zerotier", "../../etc"]], "comments": []}, "details": {}},
    {"operation": "revert", "changes": {"gone": [], "added": [], "comments": []}, "details": {}},
    *({"operation": "commit", "changes": {"gone": [], "added": [["interfaces", "zerotier", "zt0", "description", "x"]], "comments": []}, "details": {"confirm": odd}} for odd in (-1, 10**30, float("inf"), "1; reboot", None, [])),
    [], None, 7, "x", {},
]  # fmt: skip


def test_hostile_requests_to_the_authority_are_refused_in_a_sentence(router: Router) -> None:
    """From a member of the group, who may commit, and from anybody else, who gets nowhere."""
    router.run(["sh", "-c", "id operator1 >/dev/null 2>&1 || useradd --groups vyattacfg operator1"])
    before = router.run(["cat", "/run/ztsh/active.boot"]).stdout
    texts = [json.dumps(request) for request in HOSTILE] + ["", "{", "[" * 100_000, '{"a":' * 100_000, "\0" * 100]
    for text in texts:
        done = _authority(router, "operator1", text)
        told = done.stdout + done.stderr
        assert done.returncode in (2, 3), told
        assert "Traceback" not in told and "\x1b" not in told and "forged" not in told and len(told) < 1000, told
    assert "password" in _authority(router, "nobody", texts[0]).stderr
    assert router.run(["cat", "/run/ztsh/active.boot"]).stdout == before


def _authority(router: Router, user: str, text: str) -> subprocess.CompletedProcess[str]:
    group = router.run(["id", "-gn", user]).stdout.strip()
    command = [
        "setpriv",
        "--reuid",
        user,
        "--regid",
        group,
        "--init-groups",
        "--",
        "sudo",
        "--non-interactive",
        "/usr/libexec/ztsh/authority",
    ]
    return router.run(command, text_input=text, check=False)
