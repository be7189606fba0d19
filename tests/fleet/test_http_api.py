"""VyOS's HTTP API, as docs/fleet.md asks it from a shell."""

from __future__ import annotations

import email
import re
import subprocess
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs/fleet.md").read_text()


class Api(ThreadingHTTPServer):
    """It takes down the fields of each form, and which programs had a word among their arguments meanwhile."""

    def __init__(self, word: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.word = word
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.showing: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Api

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = email.message_from_string(f"Content-Type: {self.headers['Content-Type']}\n\n{body}")
        fields = {str(part.get_param("name", header="content-disposition")): part.get_payload() for part in form.get_payload()}
        self.server.forms.append((self.path, fields))
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = process.read_text(errors="replace")
            except OSError:  # it has ended
                continue
            if self.server.word in arguments:
                self.server.showing.append(arguments)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nothing: the test says what came."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api(uuid.uuid4().hex) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_the_key_of_a_file_arrives_as_it_is_and_no_arguments_show_it(api: Api, tmp_path: Path, shell: str, end: str) -> None:
    (function,) = re.findall(r"^vyos\(\) \{.*\}$", PAGE, re.MULTILINE)
    function = function.replace("https://r1.example.net", f"http://127.0.0.1:{api.server_address[1]}")
    (tmp_path / "api.key").write_text(f"{api.word}{end}")
    (tmp_path / "lines").write_text(f"""{function}\nvyos config-file '{{"op": "save"}}'\n""")
    done = subprocess.run([shell, "lines"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert api.forms == [("/config-file", {"key": api.word, "data": '{"op": "save"}'})]
    assert api.showing == []
