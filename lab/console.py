"""A serial console as a stream of plain text: expect on it, and lines carried out at a prompt."""

from __future__ import annotations

import codecs
import queue
import re
import socket
import threading
from pathlib import Path

import pexpect
from pexpect.spawnbase import SpawnBase

from lab.process import LabError, wait

# A shell that edits lines asks for bracketed paste when it begins to read one, and gives it back when it has got it.
# So these two say, whatever it draws in between, where a command's output begins and where it ends.
READS, GOT = "\x01", "\x02"
_MARKS = {"\x1b[?2004h": READS, "\x1b[?2004l": GOT}
# CSI, OSC and two-letter sequences; what has only begun stays until the rest is there.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[ -/]*)?\Z")


class _Plain(SpawnBase):
    """A stream without escape sequences.

    A thread reads what comes, whether anybody expects something or not: a machine whose output is not taken stops.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(timeout=None, encoding="utf-8", codec_errors="replace", maxread=1)
        self._connection = connection
        self._came: queue.Queue[str | None] = queue.Queue()
        self._rest = ""
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := self._connection.recv(65536):
                self._came.put(decoder.decode(data))
        except OSError:
            pass  # hung up
        self._came.put(None)

    def read_nonblocking(self, size: int = 1, timeout: float | None = None) -> str:
        """What has come, without escape sequences; pexpect calls this."""
        try:
            text = self._came.get(timeout=max(timeout, 0.001) if timeout is not None else None)
        except queue.Empty:
            raise pexpect.TIMEOUT("nothing came") from None
        if text is None:
            self._came.put(None)  # and so it stays
            raise pexpect.EOF("the other end hung up")
        text = self._rest + text
        begun = _BEGUN.search(text)
        self._rest = text[begun.start() :] if begun else ""
        whole = text[: begun.start()] if begun else text
        return _ESCAPE.sub(lambda match: _MARKS.get(match[0], ""), whole).replace("\r", "")

    def send(self, text: str) -> None:
        """Type."""
        self._connection.sendall(text.encode())


class Console:
    """A connection to the socket behind a serial port. ``patience`` stretches every time limit."""

    def __init__(self, path: Path, patience: float = 1.0) -> None:
        self._patience = patience
        self._socket = socket.socket(socket.AF_UNIX)
        wait(lambda: self._connect(path), timeout=30, what=f"console {path}")
        self._stream = _Plain(self._socket)

    def _connect(self, path: Path) -> bool:
        try:
            self._socket.connect(str(path))
            return True
        except OSError as error:
            raise LabError(str(error)) from None

    def close(self) -> None:
        """Hang up."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end was faster
        self._socket.close()

    def send(self, text: str) -> None:
        """Type."""
        self._stream.send(text)

    def expect(self, *patterns: str, timeout: float = 60.0) -> int:
        """Wait for one of the patterns and say which. Raises :class:`LabError` with what came instead."""
        try:
            return int(self._stream.expect(list(patterns), timeout=timeout * self._patience))
        except (pexpect.TIMEOUT, pexpect.EOF) as error:
            what = "the console was closed" if isinstance(error, pexpect.EOF) else f"not within {timeout:g} s"
            seen = str(self._stream.before)[-1500:]
            raise LabError(f"console: waited for {' or '.join(patterns)}: {what}; last seen:\n{seen}") from None

    @property
    def before(self) -> str:
        """What stood before the last match."""
        return str(self._stream.before)

    @property
    def match(self) -> str:
        """The text of the last match."""
        return str(self._stream.after)

    def line(self, text: str, prompt: str, timeout: float = 60.0, *, marks: bool = True, each_line: bool = False) -> str:
        """Type a line at a prompt and return what it printed, once a prompt stands there again.

        ``marks`` False is for a shell that asks for no bracketed paste. With ``each_line`` the time limit begins
        again with every line that is printed.
        """
        self.send(text + "\r")
        if not marks:
            # The echo has no line break but its last. Only a prompt at the beginning of a line is one.
            self.expect("\n", timeout=timeout)
            return self._until(rf"(?:^|\n)(?:{prompt})", timeout, each_line).strip("\n")
        self.expect(GOT, timeout=timeout)
        printed = self._until(READS, timeout, each_line)
        self.expect(prompt, timeout=timeout)
        # What is drawn while a line is edited is not what it printed.
        return printed.rpartition(GOT)[2].strip("\n")

    def _until(self, pattern: str, timeout: float, each_line: bool) -> str:
        """What comes before a pattern."""
        printed = ""
        while each_line and self.expect(pattern, "\n", timeout=timeout) == 1:
            printed += self.before + "\n"
        if not each_line:
            self.expect(pattern, timeout=timeout)
        return printed + self.before
