"""HTTP of the gateway: requests, who may ask from where, and answers as JSON or as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from gateway import wire
from mcphub.api.errors import BodyTooLargeError, MalformedRequestError, NotAcceptableError
from mcphub.api.headers import DOCUMENT_POLICY
from mcphub.api.parsers import body_limit
from mcphub.core.errors import (
    HubError,
    LimitError,
    NotPermittedError,
    RpcError,
    UnavailableError,
)
from mcphub.core.offload import in_thread
from mcphub.core.types import JSONObject
from mcphub.lean import BODY_SECONDS, Message, Receive, Scope, Send
from mcphub.lean import read_body as read_parts
from tenants import credentials
from tenants.cors import allowed_origins

JSON, STREAM = "application/json", "text/event-stream"
KEEP_ALIVE_SECONDS = 10.0
MOST_FIELDS = 50
"""Parameters of a query."""
METHODS = "GET, POST, DELETE, OPTIONS"
ROUTING_HEADERS = frozenset({"mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"})
PARAM_PREFIX = "mcp-param-"
ALLOWED_HEADERS = (
    "authorization, content-type, accept, mcp-protocol-version, mcp-session-id, mcp-method, "
    "mcp-name, last-event-id, mcphub-end-user, traceparent"
)
EXPOSED_HEADERS = "mcp-session-id, www-authenticate, mcp-protocol-version, retry-after"
STREAM_HEADERS = {"content-type": STREAM, "x-accel-buffering": "no"}
SECURITY_HEADERS = {
    "cache-control": "no-store, no-transform",
    "content-security-policy": DOCUMENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Ends of lines to many a client's splitter, though not to the grammar of event streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """The head of a request. `repeated` names routing headers that came more than once."""

    method: str
    path: str
    query_string: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    repeated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, scope: Scope) -> HttpRequest:
        headers: dict[str, str] = {}
        repeated = set()
        for raw_name, raw_value in scope["headers"]:
            name = raw_name.decode("latin-1").lower()
            if name in headers and (name in ROUTING_HEADERS or name.startswith(PARAM_PREFIX)):
                repeated.add(name)
            headers.setdefault(name, raw_value.strip(b" \t").decode("latin-1"))  # RFC 9110 5.5
        return cls(
            method=scope["method"],
            path=scope["path"],
            query_string=scope["query_string"].decode("latin-1"),
            headers=headers,
            repeated=frozenset(repeated),
        )

    def query(self) -> Mapping[str, list[str]]:
        """Return the parameters, empty ones too. Raises MalformedRequestError for too many."""
        try:
            return parse_qs(self.query_string, keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError as exc:
            raise MalformedRequestError(f"A query has at most {MOST_FIELDS} parameters.") from exc

    @property
    def origin(self) -> str:
        return self.headers.get("origin", "")

    def accepts(self, media_type: str) -> bool:
        """Whether an answer of this type is welcome; without `Accept` anything is (RFC 9110)."""
        accepted = self.headers.get("accept", "*/*")
        ranges = {part.partition(";")[0].strip().lower() for part in accepted.split(",")}
        family = media_type.partition("/")[0]
        return bool(ranges & {"*/*", f"{family}/*", media_type})

    @property
    def has_json(self) -> bool:
        """Whether the body says that it is JSON."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON


async def read_body(receive: Receive) -> bytes:
    """Return the body. Raises BodyTooLargeError, UnavailableError, lean.ClientGoneError."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await read_parts(receive, body_limit())
    except TimeoutError as exc:
        raise UnavailableError("The body did not come in time.") from exc


async def check_origin(request: HttpRequest) -> None:
    """Refuse foreign Host and Origin headers, by which DNS rebinding arrives.

    Raises NotPermittedError (`host_not_allowed`, `origin_not_allowed`).
    """
    host = request.headers.get("host", "")
    domain, _ = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        raise NotPermittedError("The hub has not this name.", code="host_not_allowed")
    if request.origin and not await _is_known(request.origin, host):
        raise NotPermittedError("This web origin may not connect.", code="origin_not_allowed")


async def _is_known(origin: str, host: str) -> bool:
    if origin in {f"http://{host}", f"https://{host}"} or credentials.is_own_origin(origin):
        return True
    if origin in settings.CORS_ALLOWED_ORIGINS:
        return True
    if not allowed_origins.is_fresh:
        await in_thread(allowed_origins.refresh)
    return origin in allowed_origins


class Answer:
    """The one answer to a request: JSON, or a stream as soon as something is said before the end.

    Any task may write to it; after the end, and when the client has gone, writing does nothing.
    """

    def __init__(self, request: HttpRequest, send: Send) -> None:
        self._send = send
        self._headers = {**SECURITY_HEADERS, "vary": "Origin"}
        self._lock = asyncio.Lock()
        self._can_stream = request.accepts(STREAM)
        self._is_json_welcome = request.accepts(JSON)
        self.is_streaming = False
        self.is_over = False

    @property
    def can_stream(self) -> bool:
        return self._can_stream and not self.is_over

    def check_acceptable(self) -> None:
        """Raise NotAcceptableError when the client takes none of the two forms."""
        if not self._can_stream and not self._is_json_welcome:
            raise NotAcceptableError(f"Accept has to list {JSON} and {STREAM}.")

    def allow_origin(self, request: HttpRequest) -> None:
        """Let pages of the origin read the answer; it is one that may connect."""
        self.add_headers(_cors(request))

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add to the head, which must not have been sent."""
        self._headers.update(headers)

    async def open_stream(self) -> None:
        """Send the head of a stream now."""
        async with self._lock:
            await self._open()

    async def event(self, message: JSONObject) -> None:
        """Send one message; lost without a sound where no stream is possible."""
        await self._write(_event(b"message", _line(message)))

    async def text_event(self, name: str, text: str) -> None:
        await self._write(_event(name.encode(), text.encode()))

    async def keep_alive(self) -> None:
        """Send a comment, so that nobody on the way takes silence for the end."""
        await self._write(b": keep-alive\r\n\r\n")

    async def _write(self, chunk: bytes) -> None:
        async with self._lock:
            if self.can_stream:
                await self._open()
                await self._body(chunk, more=True)

    async def finish(self, status: int, message: JSONObject | list[JSONObject]) -> None:
        """End with the result or error: as the last event of a stream, else as JSON."""
        async with self._lock:
            if self.is_over:
                return
            many = message if isinstance(message, list) else [message]
            if self.is_streaming or (not self._is_json_welcome and status < 300):
                await self._open()
                for one in many:
                    await self._body(_event(b"message", _line(one)), more=True)
                await self._end(b"")
                return
            content = b"[%b]" % b",".join(map(wire.encode, many))
            await self._whole(status, content if isinstance(message, list) else content[1:-1], JSON)

    async def close(self) -> None:
        """End a stream without a last message."""
        async with self._lock:
            if not self.is_over:
                await self._open()
                await self._end(b"")

    async def empty(self, status: int) -> None:
        async with self._lock:
            if not self.is_over:
                await self._whole(status, b"", "")

    async def whole_json(self, content: bytes) -> None:
        async with self._lock:
            await self._whole(200, content, JSON)

    async def refuse(
        self,
        error: HubError,
        *,
        message_id: wire.RequestId | None = None,
        code: int | None = None,
    ) -> None:
        """Answer for an error of the transport: its status, and a JSON-RPC error as the body."""
        self._headers.update(headers_of(error))
        told = wire.rpc_error_of(error)
        if code is not None:
            told = RpcError(code=code, message=told.message, data=told.data)
        await self.finish(error.status, wire.failure(message_id, told))

    def leave(self) -> None:
        """Take note that the client has gone."""
        self.is_over = True

    async def _open(self) -> None:
        if not self.is_streaming and not self.is_over:
            self.is_streaming = True
            await self._head(200, STREAM_HEADERS)

    async def _whole(self, status: int, content: bytes, media_type: str) -> None:
        headers = {"content-length": str(len(content))}
        if media_type:
            headers["content-type"] = media_type
        await self._head(status, headers)
        await self._end(content)

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        pairs = _encoded({**self._headers, **headers}.items())
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _end(self, content: bytes) -> None:
        self.is_over = True
        await self._body(content, more=False)

    async def _body(self, content: bytes, *, more: bool) -> None:
        message: Message = {"type": "http.response.body", "body": content, "more_body": more}
        await self._send(message)


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: %b\r\ndata: %b\r\n\r\n" % (name, data)


def _line(message: JSONObject) -> bytes:
    """Return a message as one line by anybody's reading: in JSON these stand in strings only."""
    content = wire.encode(message)
    if b"\xc2\x85" not in content and b"\xe2\x80" not in content:
        return content
    return content.decode().translate(LINE_ENDS).encode()


def headers_of(error: HubError) -> dict[str, str]:
    """Return the HTTP headers that belong to an error of the transport."""
    headers = {}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    if isinstance(error, BodyTooLargeError | LimitError):
        headers["connection"] = "close"
    return headers


async def preflight(request: HttpRequest, send: Send) -> None:
    """Answer an OPTIONS request; whoever's origin is not allowed gets no CORS headers."""
    answer = Answer(request, send)
    if await _is_known(request.origin, request.headers.get("host", "")):
        answer.allow_origin(request)
    answer.add_headers({"allow": METHODS})
    await answer.empty(204)


def _cors(request: HttpRequest) -> dict[str, str]:
    """Return the CORS headers for an origin that may connect; none for who is no web page."""
    if not request.origin:
        return {}
    headers = {
        "access-control-allow-origin": request.origin,
        "access-control-expose-headers": EXPOSED_HEADERS,
    }
    if request.method == "OPTIONS":
        headers["access-control-allow-methods"] = METHODS
        headers["access-control-allow-headers"] = ALLOWED_HEADERS
        headers["access-control-max-age"] = "86400"
    return headers


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]


async def until_gone(receive: Receive) -> None:
    """Return when the client has closed its side."""
    while True:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            return
