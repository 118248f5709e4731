"""An app that takes webhooks on a loopback port and keeps what it got."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Got:
    headers: dict[str, str]
    body: bytes


@dataclass
class WebhookReceiver:
    """`with WebhookReceiver() as app:`; `statuses` are answered in turn, then 204."""

    statuses: list[int] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    location: str = ""
    may_answer: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self.may_answer.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/hooks/mcphub"


def _handler_of(app: WebhookReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            app.got.append(Got({k.lower(): v for k, v in self.headers.items()}, body))
            app.may_answer.wait(10)
            self.send_response(app.statuses.pop(0) if app.statuses else 204)
            if app.location:
                self.send_header("Location", app.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name)
            """Say nothing."""

    return Handler
