"""Two ztnodes with sanitizers in network namespaces of their own, linked without a controller."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.engine.test_contract import Host, Node, link, mac

from lab.process import LabError, run, wait

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "packages/ztnode"
SANITIZERS = ("address", "thread")
PATIENCE = 5  # times as long as a limit says, at most, where the process waits for a CPU
GAP = 5.0  # seconds between two looks at the threads of a process that does not answer
SLOW = 30.0  # seconds: an answer that takes longer counts as none; the machine is shared, the program some 10 times slower

_CLONE_NEWNET = 0x40000000
_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=0:exitcode=99:detect_stack_use_after_return=1:max_allocation_size_mb=1024",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
    "TSAN_OPTIONS": f"exitcode=99:halt_on_error=0:second_deadlock_stack=1:suppressions={SOURCE}/test/tsan.supp",
    "LSAN_OPTIONS": f"exitcode=99:suppressions={SOURCE}/test/lsan.supp",
}
_REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|ThreadSanitizer:DEADLYSIGNAL")


def build(sanitizer: str) -> str:
    """The program with a sanitizer. Raises :class:`lab.process.LabError` with what the compiler says.

    All are built at once, each by one compiler.
    """
    run(["make", "-s", "-j", "-C", str(SOURCE), *(f"build/{s}/ztnode" for s in SANITIZERS)], timeout=300)
    return str(SOURCE / "build" / sanitizer / "ztnode")


def enter(name: str) -> None:
    """Have this thread's sockets and children in a network namespace from now on."""
    with open(f"/run/netns/{name}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {name} cannot be entered")


class Sanitized(Node):
    """A home and the process with sanitizers that runs in it; its log is beside the home."""

    def __init__(self, engine: str, host: Host, home: Path, address: str) -> None:
        super().__init__(engine, host, home)
        self.address = address
        self.path = home.parent / f"{home.name}.log"

    def start(self, answer: bool = True) -> None:
        wrapper = ["setarch", "-R"] if self.engine.split("/")[-2] == "thread" else []  # TSan wants its addresses free
        with self.path.open("a") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.host.name, *wrapper, self.engine, "-U", f"-p{self.port}", str(self.home)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **_OPTIONS}, text=True,
            )  # fmt: skip
        if answer:
            self.wait_for_answer(SLOW)

    def wait_for_answer(self, timeout: float) -> None:
        """Raises :class:`lab.process.LabError` with two looks at all threads: a hang has the same stacks in both."""
        patience = self._patience(timeout)
        while True:
            try:
                wait(self.answers, timeout=timeout, what=f"API of {self.home.name}; log: {self.path}")
                return
            except LabError as error:
                if patience():
                    continue
                looks = [self.threads()]
                time.sleep(GAP)
                looks.append(self.threads())
                raise LabError("\n".join([str(error), *looks])) from None

    def _patience(self, timeout: float) -> Callable[[], bool]:
        """Whether the process was kept from running for so much of the time since now that its limit has not passed for it."""
        begin, before = time.monotonic(), self._delays()

        def more() -> bool:
            elapsed = time.monotonic() - begin
            kept = max((delay - before.get(thread, 0.0) for thread, delay in self._delays().items()), default=0.0)
            return elapsed - kept < timeout and elapsed < PATIENCE * timeout

        return more

    def _delays(self) -> dict[str, float]:
        """Seconds that each thread has waited for a CPU; empty where the kernel does not tell, or the process is gone."""
        assert self.process
        found = {}
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                found[path.parent.name] = int(path.read_text().split()[1]) / 1e9
        return found

    def threads(self) -> str:
        """What each thread does now, the CPU time of the process and the load of the machine; without gdb, the last two."""
        assert self.process
        pid = self.process.pid  # of the program: ip netns exec and setarch become what they start
        found = [f"load {Path('/proc/loadavg').read_text().strip()}, stat {Path(f'/proc/{pid}/stat').read_text().strip()}"]
        if shutil.which("gdb"):
            found.append(
                run(
                    ["gdb", "-p", str(pid), "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 12"],
                    check=False,
                    timeout=120,
                ).stdout
            )
        return "\n".join(found)

    def answers(self) -> bool:
        """Whether the API says its status."""
        assert self.process
        if self.process.poll() is not None:
            raise AssertionError(
                f"{self.home.name} has ended with {self.process.returncode}: {self.reports() or self.path.read_text()[-2000:]}"
            )
        code = f"import http.client as h; c = h.HTTPConnection('127.0.0.1', {self.port}, timeout={SLOW:g})\n"
        code += f"c.request('GET', '/status', headers={{'X-ZT1-Auth': {self.token()!r}}}); print(c.getresponse().status)"
        return self.host.run("/usr/bin/python3", "-c", code, check=False, timeout=SLOW + 5).strip() == "200"

    def end(self) -> int:
        """TERM, and the exit code; 99 is the sanitizers'."""
        assert self.process
        self.process.terminate()
        patience = self._patience(SLOW)
        while True:
            try:
                return self.process.wait(timeout=SLOW)
            except subprocess.TimeoutExpired:
                if not patience():
                    raise LabError(f"{self.home.name} has not ended {SLOW:g} s after TERM\n{self.threads()}") from None

    def reports(self) -> list[str]:
        """What the sanitizers have said, each with its stack."""
        text = self.path.read_text(errors="replace") if self.path.exists() else ""
        found = [match.start() for match in _REPORT.finditer(text)]
        return [text[start : start + 4000].split("\n==================\n")[0] for start in found]


class Pair:
    """Node ``a`` is attacked; ``b`` is its only peer, and where the attacker sits."""

    def __init__(self, sanitizer: str, where: Path) -> None:
        program = build(sanitizer)
        self.names = (f"ztsa-{os.getpid()}", f"ztsb-{os.getpid()}")
        self.hosts: list[Host] = []
        self.where = where
        try:
            self._wire()
            self.a = Sanitized(program, self.hosts[0], where / "a", "198.51.100.1")
            self.b = Sanitized(program, self.hosts[1], where / "b", "198.51.100.2")
            link(self.a, self.b, ([self.a.address], [self.b.address]))
        except BaseException:
            self.close()
            raise
        self.good = where / "good"  # of the attacked home
        shutil.copytree(self.a.home, self.good)

    def _wire(self) -> None:
        self.hosts = [Host(name) for name in self.names]
        run(["ip", "-n", self.names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.names[1]])
        for number, host in enumerate(self.hosts, start=1):
            host.run("ip", "addr", "add", f"198.51.100.{number}/24", "dev", "eth0")
            host.run("ip", "link", "set", "eth0", "up")

    def start(self) -> None:
        self.a.start()
        self.b.start()

    def restore(self) -> None:
        """The attacked home as it was, but for its token."""
        for path in sorted(self.good.rglob("*")):
            if path.is_file():
                target = self.a.home / path.relative_to(self.good)
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(path.read_bytes())
        self.hosts[0].run("ip", "addr", "replace", "198.51.100.1/24", "dev", "eth0")
        self.hosts[0].run("ip", "link", "set", "eth0", "up")

    def addresses(self) -> None:
        """The transit addresses on both TAPs, where there are any."""
        for number, node, other in ((1, self.a, self.b), (2, self.b, self.a)):
            lladdr = mac((other.home / "identity.public").read_text())
            node.host.run("ip", "addr", "replace", f"10.14.0.{number}/30", "dev", "zt0p1", check=False)
            node.host.run("ip", "neigh", "replace", f"10.14.0.{3 - number}", "lladdr", lladdr, "dev", "zt0p1", check=False)

    def reaches(self) -> bool:
        """Whether the link carries."""
        self.addresses()
        return run(["ip", "netns", "exec", self.names[0], "ping", "-c1", "-W1", "10.14.0.2"], check=False).returncode == 0

    def close(self) -> None:
        for host in self.hosts:
            host.close()


@contextlib.contextmanager
def pair(sanitizer: str, where: Path) -> Iterator[Pair]:
    """Both nodes, started, with traffic possible."""
    made = Pair(sanitizer, where)
    try:
        made.start()
        wait(made.reaches, timeout=2 * SLOW, what="echo over the link")
        yield made
    finally:
        made.close()
