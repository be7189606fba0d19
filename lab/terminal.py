"""A terminal on a router, as a person has it: keys go in, and what stands on the screen can be read (tmux)."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from types import TracebackType

from lab.process import LabError, wait
from lab.router import Router

# Names of keys that tmux knows; everything else is typed as it is.
KEYS = {"<TAB>": "Tab", "<CR>": "Enter", "<UP>": "Up", "<C-C>": "C-c", "<C-D>": "C-d"}
HEIGHT = 300  # lines: everything that was printed stays on the screen


class Terminal:
    """One login of a user on a router. Use as a context manager."""

    def __init__(self, router: Router, user: str, width: int = 100) -> None:
        self._router, self._user, self._width = router, user, width
        self._socket = f"lab-{router.namespace}-{user}"

    def __enter__(self) -> Terminal:
        login = self._router.command(["env", "TERM=screen", "login", "-p", "-f", self._user])
        self._tmux("new-session", "-d", "-x", str(self._width), "-y", str(HEIGHT), shlex.join(login))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._tmux("kill-server", check=False)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-f", "/dev/null", "-L", self._socket, *arguments], capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise LabError(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def screen(self) -> str:
        """What stands on the screen, without the empty lines at its end."""
        return self._tmux("capture-pane", "-p").rstrip()

    def press(self, *keys: str) -> None:
        """Press keys: texts, or the names of :data:`KEYS`."""
        for key in keys:
            if key in KEYS:
                self._tmux("send-keys", KEYS[key])
            else:
                self._tmux("send-keys", "-l", "--", key)

    def wait(self, text: str, timeout: float = 20.0) -> str:
        """Wait until the screen ends with a text, and return the screen."""
        return self._wait(lambda: self.screen().endswith(text.rstrip()), timeout, f"a screen that ends with {text!r}")

    def wait_for(self, text: str, timeout: float = 20.0) -> str:
        """Wait until a text stands anywhere on the screen, and return the screen: for a key that leaves the line as it was."""
        return self._wait(lambda: text in self.screen(), timeout, f"{text!r} on the screen")

    def _wait(self, look: Callable[[], bool], timeout: float, what: str) -> str:
        try:
            wait(look, timeout=timeout, what=what)
        except LabError as error:
            raise LabError(f"{error}\n{self.screen()[-3000:]}") from None
        return self.screen()

    def line(self, text: str, prompt: str, timeout: float = 20.0) -> str:
        """Type a line and return what it printed, once the prompt stands there again."""
        self.wait(prompt)
        before = self.screen()
        self.press(text)
        self.wait(f"{prompt.rstrip()} {text}")
        self.press("<CR>")
        wait(
            lambda: self.screen() != before and len(self.screen()) > len(before) + len(text),
            timeout=timeout,
            what=f"{text}: an answer",
        )
        return self.wait(prompt, timeout)[len(before) + len(text) + 1 :].lstrip("\n")
