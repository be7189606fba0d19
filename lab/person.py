"""A person at a machine's serial console: logs in, types at the prompts, reads what is printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lab.edition import Edition
from lab.process import LabError
from lab.smoketest import PROGRAMS
from lab.vm import Vm, emulated, patience

LOGIN = 120.0


class Person:
    """One who knows an edition's habits and the password of the moment."""

    def __init__(self, vm: Vm, edition: Edition, password: str = "") -> None:
        self.vm, self.edition = vm, edition
        self.password = password or edition.password

    def wait_login(self) -> float:
        """Wait for the login prompt; returns the seconds since the machine was switched on."""
        self.vm.console.expect(self.edition.login, timeout=self.edition.boot)
        return self.vm.seconds

    def login(self, new_password: str = "") -> None:
        """Log in at the prompt that stands there. ``new_password`` is given where one is asked for."""
        console, edition = self.vm.console, self.edition
        console.send(edition.user + "\r")
        console.expect(edition.asks_password, timeout=LOGIN)
        console.send(self.password + "\r")
        if console.expect(edition.op, edition.asks_current, edition.login, timeout=LOGIN) == 1:
            if not new_password:
                raise LabError(f"{self.vm.name}: a new password is asked for")
            console.send(self.password + "\r")
            for question in (edition.asks_new, edition.asks_again):
                console.expect(question, timeout=LOGIN)
                console.send(new_password + "\r")
            console.expect(edition.op, timeout=LOGIN)
            self.password = new_password
        elif console.match.endswith("login: "):
            raise LabError(f"{self.vm.name}: the login of {edition.user} was refused")
        if edition.greeting:
            self.op(edition.greeting)

    def line(self, text: str, prompt: str, timeout: float = 120.0) -> str:
        """One line typed at a prompt; what it prints until ``prompt`` stands there."""
        return self.vm.console.line(text, prompt, timeout, marks=self.edition.marks)

    def op(self, line: str, timeout: float = 120.0) -> str:
        """One line of op mode (or of the system shell); what it prints."""
        return self.line(line, self.edition.op, timeout)

    def root(self, line: str, timeout: float = 120.0) -> str:
        """One line of the system shell as root; what it prints."""
        return self.op(f"echo '{self.password}' | sudo -S -p '' sh -c '{line}'", timeout)

    def configure(self, lines: Iterable[str], *, save: bool = False) -> str:
        """Conf mode lines and a commit; what everything printed. Raises :class:`LabError` when something is refused."""
        edition = self.edition
        printed = [self.line("configure", edition.conf, edition.commit)]
        wanted = [*lines, "commit", *(["save"] if save else []), "exit"]
        for line in wanted:
            prompt = edition.op if line == "exit" else edition.conf
            printed.append(self.line(line, prompt, edition.commit))
            if "failed" in printed[-1] or "Invalid" in printed[-1] or "is not valid" in printed[-1]:
                self.line("exit discard", edition.op, edition.commit)
                raise LabError(f"{self.vm.name} refused {line!r}:\n{printed[-1]}")
        return "\n".join(printed)

    def smoketest(self, programs: Sequence[str] = PROGRAMS) -> str:
        """Run the smoketests that the image has, each after the one before it has passed; what they print."""
        stretch = patience() * (self.edition.patience if emulated() else 1.0)
        script = f"export PYTHONUNBUFFERED=1 ZTM_STOP_BUNDLES=yes ZTM_PATIENCE={stretch:g}; {' && '.join(programs)}"
        shell = "/bin/sh"  # VyOS's prompt takes "sh" for "show"
        run = f"echo '{self.password}' | sudo -S -p '' {shell}" if self.edition.root_tests else shell
        return self.vm.console.line(
            f"{run} -c '{script}' 2>&1", self.edition.op, self.edition.test, marks=self.edition.marks, each_line=True
        )

    def reboot(self) -> None:
        """Restart in order, from the system shell, and log in again."""
        self.vm.console.send("reboot now\r")
        self.wait_login()
        self.login()
