"""One router: a container, its life, and ways to do things inside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lab import cgroups
from lab.generation import run_ahead
from lab.process import LabError, children, run, wait
from lab.underlay import PREFIX4, PREFIX6, Underlay

T = TypeVar("T")
BOOT_TIMEOUT = 90.0
# Nothing of the environment out here reaches a program inside.
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8")


@dataclass(frozen=True)
class CommitResult:
    """What a configuration script came to; ``seconds`` is the whole run of ztsh."""

    ok: bool
    output: str
    seconds: float


class Router:
    """A container that boots a whole system. Its files live until the lab ends, also over reboots."""

    def __init__(self, name: str, number: int, layers: Sequence[Path], directory: Path, namespace: str, underlay: Underlay):
        self.name, self.number, self.namespace = name, number, namespace
        self.underlay4, self.underlay6 = f"{PREFIX4}.{number}", f"{PREFIX6}{number:x}"
        self._layers, self._directory, self._underlay = list(layers), directory, underlay
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0

    # -- life

    @property
    def root(self) -> Path:
        """Its file system as seen from outside."""
        return self._directory / "root"

    def start(self) -> None:
        """Begin to boot; :meth:`wait_boot` waits for it."""
        upper, work = self._directory / "upper", self._directory / "work"
        for path in (upper, work, self.root):
            path.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(self.root):
            lower = ":".join(str(path) for path in self._layers)
            run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", str(self.root)])
        (self.root / "etc/hostname").write_text(self.name + "\n")
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n::1 localhost\n")
        (self.root / "config").mkdir(exist_ok=True)
        run(["ip", "netns", "del", self.namespace], check=False)
        run(["ip", "netns", "add", self.namespace])
        run_ahead(self.namespace)
        self._underlay.attach(self.name, self.number, self.namespace)
        log = (self._directory / "console.log").open("ab")
        self._nspawn = subprocess.Popen(
            [
                *cgroups.enter(self.namespace), "systemd-nspawn", "--quiet", "--boot", "--register=no",
                *([] if cgroups.host_has_systemd() else ["--keep-unit"]), f"--directory={self.root}",
                f"--network-namespace-path=/run/netns/{self.namespace}", "--bind=/dev/net/tun", f"--machine={self.name}",
                "--link-journal=no", "--resolv-conf=off", "--timezone=off", "--console=pipe",
                "--capability=CAP_NET_ADMIN,CAP_NET_RAW,CAP_SYS_NICE", "--",
            ],
            env={**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network", "SYSTEMD_LOG_TARGET": "console"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )  # fmt: skip
        log.close()
        (self._directory / "pid").write_text(str(self._nspawn.pid))

    def wait_boot(self) -> None:
        """Wait until the system inside has started. Raises :class:`LabError` with the units that failed."""
        self._leader = wait(self._find_leader, timeout=30, what=f"{self.name}: init of the container")
        state = wait(self._booted, timeout=BOOT_TIMEOUT, what=f"{self.name}: boot")
        if state == "degraded":
            failed = self.run(["systemctl", "--failed", "--plain", "--no-legend"]).stdout.split("\n")
            units = [line.split()[0] for line in failed if line.strip()]
            why = self.run(["systemctl", "status", "--no-pager", "--lines=20", *units], check=False).stdout
            raise LabError(f"{self.name} has booted with failed units:\n{why}")

    @property
    def running(self) -> bool:
        """Whether its power is on."""
        return self._leader != 0

    def _find_leader(self) -> int:
        assert self._nspawn
        if self._nspawn.poll() is not None:
            raise LabError(f"{self.name}: systemd-nspawn ended with {self._nspawn.returncode}\n{self.console()}")
        for pid in children(self._nspawn.pid):
            try:
                # The child of nspawn becomes init when it has executed it inside its own namespaces.
                if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                    return pid
            except OSError:
                continue
        return 0

    def _booted(self) -> str:
        answer = self.run(["systemctl", "is-system-running"], check=False).stdout.strip()
        return answer if answer in ("running", "degraded") else ""

    def console(self) -> str:
        """The end of what it printed to its console."""
        try:
            return (self._directory / "console.log").read_text(errors="replace")[-3000:]
        except OSError:
            return ""

    def _ended(self) -> None:
        assert self._nspawn
        try:
            self._nspawn.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
        self._nspawn, self._leader = None, 0
        cgroups.remove(self.namespace)

    def poweroff(self) -> None:
        """Shut down in order and wait for the end."""
        if self._nspawn:
            os.kill(self._leader, signal.SIGRTMIN + 4)
            self._ended()

    def kill(self) -> None:
        """Cut the power: every process of the container is killed at once."""
        if not self._nspawn:
            return
        # A child of nspawn is init of the container's PID namespace: with it the kernel kills all the others. It
        # goes first, because it would outlive nspawn.
        for pid in [*children(self._nspawn.pid), self._nspawn.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._nspawn.wait(timeout=60)
        self._nspawn, self._leader = None, 0
        cgroups.remove(self.namespace)

    def reboot(self) -> None:
        """Shut down in order, start again and wait; the network namespace is a new one, as on a real reboot."""
        self.poweroff()
        self.start()
        self.wait_boot()

    def close(self) -> None:
        """Take everything away."""
        self.kill()
        run(["umount", "--lazy", str(self.root)], check=False)
        run(["ip", "netns", "del", self.namespace], check=False)
        self._underlay.detach(self.name)
        shutil.rmtree(self._directory, ignore_errors=True)

    # -- inside

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that runs ``command`` inside."""
        if not self._leader:
            raise LabError(f"{self.name} is not running")
        enter = ["nsenter", "--target", str(self._leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        return [*enter, "env", "--ignore-environment", *ENVIRONMENT, *command]

    def run(
        self, command: Sequence[str], *, check: bool = True, timeout: float = 60.0, text_input: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside to its end. Raises :class:`LabError` when it fails."""
        return run(self.command(command), check=check, timeout=timeout, text_input=text_input)

    def popen(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program inside; its output is piped, and it dies with the process that is returned."""
        bound = self.command(["setpriv", "--pdeathsig", "KILL", *command])
        return subprocess.Popen(bound, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def json(self, command: Sequence[str], **options: Any) -> Any:
        """What a program inside prints as JSON; None for nothing."""
        answer = self.run(command, **options).stdout
        return json.loads(answer) if answer.strip() else None

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file inside."""
        self.run(["sh", "-c", f'cat >"$1" && chmod {mode:o} "$1"', "sh", path], text_input=text)

    def read(self, path: str) -> str:
        """Text of a file inside."""
        return self.run(["cat", path]).stdout

    def configure(self, lines: str, *, commit: bool = True, save: bool = False, timeout: float = 60.0) -> CommitResult:
        """Carry out conf mode lines, with a commit (and a save) behind them."""
        script = lines.rstrip("\n") + ("\ncommit\n" if commit else "\n") + ("save\n" if save else "")
        begin = time.monotonic()
        done = self.run(["ztsh", "script", "-"], check=False, timeout=timeout, text_input=script)
        return CommitResult(done.returncode == 0, (done.stdout + done.stderr).strip(), time.monotonic() - begin)

    def must_configure(self, lines: str, **options: Any) -> CommitResult:
        """As :meth:`configure`, but a refusal raises :class:`LabError`."""
        result = self.configure(lines, **options)
        if not result.ok:
            raise LabError(f"{self.name} refused:\n{lines}\n{result.output}")
        return result

    def wait(self, look: Callable[[], T], *, timeout: float = 20.0, what: str) -> T:
        """Wait for a state of this router."""
        return wait(look, timeout=timeout, what=f"{self.name}: {what}")

    def journal(self, unit: str | None = None) -> str:
        """Its journal, or that of a unit."""
        return self.run(["journalctl", "--no-pager", "-o", "short-monotonic", *(["-u", unit] if unit else [])]).stdout
