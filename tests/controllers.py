"""An HTTP(S) server that speaks the APIs of the four kinds of controllers as they are documented.

It is made from their documentation and sources; ZeroTier Central and ZTNET themselves are not asked by any test.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY = "Sesame-0123456789abcdef"
NETWORK = "8056c2e21c000001"
BASE = {"central": "/api/v2", "central-legacy": "/api/v1", "zerotier-one": "/controller", "ztnet": "/api/v1"}
HEADERS = {
    "central": ("Authorization", f"Bearer {KEY}"), "central-legacy": ("Authorization", f"token {KEY}"),
    "zerotier-one": ("X-ZT1-Auth", KEY), "ztnet": ("x-ztnet-auth", KEY),
}  # fmt: skip
# Of a network that is not the key's. ZTNET: src/utils/apiRouteAuth.ts; Central v1 documents 403.
ELSEWHERE = {"central": 404, "central-legacy": 403, "zerotier-one": 404, "ztnet": 401}
FRESH = {"name": "", "authorized": False, "addresses": [], "automatic": True}


class FakeController:
    """One network with members that have asked for it. ``members`` is what it has, ``asked`` what it was asked."""

    def __init__(self, kind: str, *nodes: str, certificate: Path | None = None) -> None:
        self.kind = kind
        self.members: dict[str, dict[str, Any]] = {node: dict(FRESH) for node in nodes}
        self.asked: list[str] = []
        self.answer: tuple[int, dict[str, str], bytes] | None = None  # in place of all others
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"controller": self}))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def __enter__(self) -> FakeController:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def handle(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, Any]:
        """Status and JSON for a request."""
        self.asked.append(f"{method} {path} {body.decode()}".strip())
        name, value = HEADERS[self.kind]
        if headers.get(name) != value:
            return 401, {"error": f"wrong key {headers.get(name)}"}
        found = re.fullmatch(rf"{BASE[self.kind]}/network/([0-9a-f]{{16}})/member(?:/([0-9a-f]{{10}}))?(/authorize)?", path)
        if not found:
            return 404, {}
        if found[1] != NETWORK:
            return ELSEWHERE[self.kind], {}
        return self._member(method, found[2], bool(found[3]), json.loads(body or b"{}"))

    def _member(self, method: str, node: str | None, authorize: bool, body: dict[str, Any]) -> tuple[int, Any]:
        if node is None:
            return (200, [self._shown(n) for n in self.members]) if method == "GET" and self.kind == "ztnet" else (405, {})
        if method == "GET" and self.kind == "ztnet":
            return 405, {"error": "Method Not Allowed"}
        if node not in self.members:
            if method == "GET" or self.kind in ("central", "ztnet"):
                return 404, {}
            self.members[node] = dict(FRESH)
        if method == "POST":
            if self.kind == "ztnet" and set(body) - {"name", "authorized", "description"}:
                return 400, {"error": "Invalid field"}
            self._write(self.members[node], authorize, body)
        return 200, self._shown(node)

    def _write(self, member: dict[str, Any], authorize: bool, body: dict[str, Any]) -> None:
        member["name"] = body.get("name", member["name"])
        inner = body.get("config", {}) if self.kind == "central-legacy" else body
        if self.kind == "central":
            assigned = [*body.get("ipv4Assignments", []), *body.get("ipv6Assignments", [])]
            member["addresses"] = assigned if "ipv4Assignments" in body else member["addresses"]
            member["authorized"] = member["authorized"] or authorize
        else:
            member["addresses"] = inner.get("ipAssignments", member["addresses"])
            member["authorized"] = inner.get("authorized", member["authorized"])
        member["automatic"] = not inner.get("noAutoAssignIps", not member["automatic"])

    def _shown(self, node: str) -> dict[str, Any]:
        has = self.members[node]
        inner = {"authorized": has["authorized"], "ipAssignments": has["addresses"], "noAutoAssignIps": not has["automatic"]}
        match self.kind:
            case "central":
                by_family = {v: [a for a in has["addresses"] if ipaddress.ip_address(a).version == v] for v in (4, 6)}
                return {
                    "deviceId": node, "name": has["name"], "status": "authorized" if has["authorized"] else "pending",
                    "ipv4Assignments": by_family[4], "ipv6Assignments": by_family[6], "noAutoAssignIps": not has["automatic"],
                }  # fmt: skip
            case "central-legacy":
                return {"nodeId": node, "networkId": NETWORK, "name": has["name"], "config": {**inner, "address": node}}
        return {"id": node, "address": node, "nwid": NETWORK, "name": has["name"], **inner}


class _Handler(BaseHTTPRequestHandler):
    controller: FakeController
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = self.controller.handle(self.command, self.path, self.headers, body)
        headers, content = {"Content-Type": "application/json"}, json.dumps(answer).encode()
        if self.controller.answer:
            status, headers, content = self.controller.answer
        try:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the client has had enough
            self.close_connection = True

    do_GET = do_POST = _do

    def log_message(self, *_arguments: object) -> None:
        """Nothing is printed."""


def certificate(path: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "controller of a test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
