"""An HTTPS server on this machine with a certificate that the hub trusts, for client documents."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcphub.core.egress.connections import tls_context

HOST = "localhost"


@dataclass(kw_only=True)
class DocumentServer:
    """Answers each path as it is told; `seen` and `connections` are what reached it."""

    port: int = 0
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    connections: int = 0

    def url(self, path: str) -> str:
        return f"https://{HOST}:{self.port}{path}"

    def publish(self, path: str, **changes: Any) -> str:
        """Put a client's document there; returns its address, which is the client's id."""
        document = {
            "client_id": self.url(path),
            "client_name": "Published",
            "redirect_uris": ["http://127.0.0.1:7777/callback"],
            **changes,
        }
        return self.answer(path, json.dumps(document).encode())

    def answer(
        self,
        path: str,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        to: str = "",
    ) -> str:
        headers = {"Content-Type": kind, "Content-Length": str(len(body))}
        self.answers[path] = (status, {**headers, **({"Location": to} if to else {})}, body)
        return self.url(path)


@contextmanager
def document_server(directory: Path) -> Iterator[DocumentServer]:
    found = DocumentServer()
    certificate = _certificate(directory)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    tls_context().load_verify_locations(cafile=certificate)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.seen.append(self.path)
            status, headers, body = found.answers.get(self.path, (404, {}, b""))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (http.server's name)
            """Say nothing."""

    class Listener(ThreadingHTTPServer):
        def get_request(self) -> Any:
            connection, address = super().get_request()
            found.connections += 1
            return context.wrap_socket(connection, server_side=True), address

    server = Listener(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _certificate(directory: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    moment = datetime.now(tz=UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - timedelta(days=1))
        .not_valid_after(moment + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = directory / "localhost.pem"
    file.write_bytes(secret + built.public_bytes(serialization.Encoding.PEM))
    return file
