"""The HTTP client for every outbound byte: guarded, bounded in time and size, without memory.

No proxy of the environment, no cookies, no decompression, no redirect to another origin. Bodies are
streamed as they arrive.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urljoin

import httpcore2

from mcphub.core.clock import Deadline, MovableDeadline
from mcphub.core.egress.connections import HEADERS_MAX, Connection, Connections, Resolve
from mcphub.core.egress.errors import (
    EncodingRefusedError,
    RedirectRefusedError,
    ResponseTooLargeError,
)
from mcphub.core.egress.policy import EgressPolicy
from mcphub.core.egress.targets import Target, read_url
from mcphub.core.errors import (
    BlockedUrlError,
    InvalidInputError,
    UpstreamError,
    UpstreamTimeoutError,
)

REDIRECTS_MAX = 5
REDIRECT_BODY_MAX = 16 << 10
DEFAULT_MAX_BYTES = 8 << 20
USER_AGENT = "mcphub"
MOVED = frozenset({301, 302, 303, 307, 308})
KEEPS_METHOD = frozenset({307, 308})
# Set by the client itself, or about one connection only (RFC 9110 §7.6.1).
OWN_HEADERS = frozenset(
    {
        "accept-encoding", "connection", "content-length", "cookie", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
BROKEN = "The connection ended before the answer was complete."
GARBLED = "The answer is not valid HTTP."


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRequest:
    """One request; `deadline` None is for streams that stay open, `max_bytes` bounds the body."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | None = field(default=None, repr=False)
    deadline: Deadline | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    may_redirect: bool = True


class ResponseHeaders(Mapping[str, str]):
    """Header fields by name in any case; several fields of one name are joined by comma."""

    def __init__(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        self._fields: dict[str, list[str]] = {}
        for name, value in items:
            self._fields.setdefault(name.decode("latin-1").lower(), []).append(
                value.decode("latin-1")
            )

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._fields[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def get_list(self, name: str) -> list[str]:
        return list(self._fields.get(name.lower(), ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedResponse:
    """An answer that was read to its end."""

    status: int
    headers: ResponseHeaders
    url: str
    body: bytes

    @property
    def content_type(self) -> str:
        return media_type(self.headers)


class EgressResponse:
    """An answer whose body still arrives; only valid inside `EgressClient.stream`."""

    def __init__(self, answer: httpcore2.Response, exchange: _Exchange) -> None:
        self.status = answer.status
        self.headers = ResponseHeaders(answer.headers)
        self.url = exchange.target.url
        self._answer = answer
        self._exchange = exchange

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; "" when there is none."""
        return media_type(self.headers)

    async def aiter_bytes(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives. Raises ResponseTooLargeError past `max_bytes`."""
        left = self._exchange.max_bytes
        with self._exchange.translated():
            async with aclosing(self._answer.aiter_stream()) as chunks:
                async for chunk in chunks:
                    left -= len(chunk)
                    if left < 0:
                        raise ResponseTooLargeError(was_answered=True)
                    yield chunk

    async def read(self) -> bytes:
        """Return the whole body. Raises ResponseTooLargeError, early when a length is declared."""
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._exchange.max_bytes:
            raise ResponseTooLargeError(was_answered=True)
        async with aclosing(self.aiter_bytes()) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def drain(self) -> None:
        """Read a small body to its end, so that the connection can be used again."""
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) <= REDIRECT_BODY_MAX:
            await self.read()


class EgressClient:
    """Sends requests under one policy; belongs to the event loop that uses it first.

    `resolve` replaces the system's name resolution and `tls` its trusted roots, for tests.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._connections = Connections(policy, resolve=resolve, tls=tls)

    @asynccontextmanager
    async def stream(self, request: EgressRequest) -> AsyncIterator[EgressResponse]:
        """Send the request and give the answer as soon as its headers are here.

        Redirects are followed to the same origin only, at most 5, and only when the method stays
        the same. Raises BlockedUrlError, InvalidInputError (a header that cannot be sent),
        UpstreamTimeoutError at the deadline, and UpstreamError with its subclasses; `was_sent` of
        each says whether any byte of the request left, `was_answered` whether a whole head of an
        answer came that cannot be used.
        """
        target = read_url(request.url)
        for _ in range(REDIRECTS_MAX + 1):
            exchange = await self._open(request, target)
            try:
                response = EgressResponse(await exchange.send(request), exchange)
                moved = _moved_to(request, target, response)
                if moved is None:
                    _check(response)
                    yield response
                    return
                target = moved
                await response.drain()
            finally:
                await exchange.close()
        raise RedirectRefusedError(was_answered=True)

    async def fetch(self, request: EgressRequest) -> BufferedResponse:
        """Send the request and return the whole answer. Raises as `stream`."""
        async with self.stream(request) as response:
            return BufferedResponse(
                status=response.status,
                headers=response.headers,
                url=response.url,
                body=await response.read(),
            )

    async def check(self, url: str) -> None:
        """Refuse a URL that a request would refuse, names resolved; connects to nothing.

        Raises BlockedUrlError. A name that does not resolve passes.
        """
        await self._connections.check(read_url(url))

    async def aclose(self) -> None:
        """End every connection, the ones in use as well."""
        self._connections.close()

    async def _open(self, request: EgressRequest, target: Target) -> _Exchange:
        self._policy.check_target(target)
        connection = await self._connections.take(target, request.deadline)
        return _Exchange(self._connections, connection, target, request)


class _Exchange:
    """One request and its answer on one connection, ended at the deadline from outside."""

    def __init__(
        self,
        connections: Connections,
        connection: Connection,
        target: Target,
        request: EgressRequest,
    ) -> None:
        self.target = target
        self.max_bytes = request.max_bytes
        self._connections = connections
        self._connection = connection
        self._answer: httpcore2.Response | None = None
        self._timer: asyncio.TimerHandle | None = None
        if request.deadline is not None:
            self._expire_at(request.deadline)

    def _expire_at(self, deadline: Deadline) -> None:
        """End the exchange at its deadline, which may have moved by the time it is looked at."""
        self._timer = asyncio.get_running_loop().call_later(
            deadline.remaining, self._check_deadline, deadline
        )

    def _check_deadline(self, deadline: Deadline) -> None:
        if isinstance(deadline, MovableDeadline) and not deadline.is_over:
            self._expire_at(deadline)
        else:
            self._connection.stream.expire()

    async def send(self, request: EgressRequest) -> httpcore2.Response:
        """Send the request; return the answer's head."""
        target = self.target
        with self.translated():
            message = httpcore2.Request(
                request.method,
                httpcore2.URL(
                    scheme=target.scheme, host=target.host, port=target.port, target=target.path
                ),
                headers=_headers(request, target),
                content=request.content,
            )
            self._answer = await self._connection.http.handle_async_request(message)
        size = sum(len(name) + len(value) + 4 for name, value in self._answer.headers)
        if size > HEADERS_MAX:
            raise ResponseTooLargeError(was_answered=True)
        return self._answer

    async def close(self) -> None:
        """Return the connection when the answer was read to its end, else drop it."""
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._answer is not None:
                await self._answer.aclose()
        finally:
            self._connections.give_back(self._connection)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what the HTTP library raises into the error tree."""
        stream = self._connection.stream
        try:
            yield
        except httpcore2.LocalProtocolError as exc:
            raise _bad_header() from exc
        except httpcore2.RemoteProtocolError as exc:
            text = BROKEN if stream.is_ended else GARBLED
            raise self._failure(text) from exc
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as exc:
            raise self._failure(BROKEN) from exc

    def _failure(self, text: str) -> UpstreamError:
        stream = self._connection.stream
        if stream.is_late:
            return UpstreamTimeoutError(was_sent=stream.has_sent)
        return UpstreamError(text, was_sent=stream.has_sent)


def media_type(headers: ResponseHeaders) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _headers(request: EgressRequest, target: Target) -> list[tuple[bytes, bytes]]:
    fields = [
        (b"Host", target.authority.encode()),
        (b"Accept-Encoding", b"identity"),
    ]
    has_agent = False
    try:
        for name, value in request.headers.items():
            lower = name.lower()
            has_agent = has_agent or lower == "user-agent"
            if lower not in OWN_HEADERS:
                fields.append((name.encode("ascii"), value.encode("latin-1")))
    except UnicodeEncodeError as exc:
        raise _bad_header() from exc
    if not has_agent:
        fields.append((b"User-Agent", USER_AGENT.encode()))
    if request.content is not None or request.method in {"POST", "PUT", "PATCH"}:
        fields.append((b"Content-Length", str(len(request.content or b"")).encode()))
    return fields


def _bad_header() -> InvalidInputError:
    return InvalidInputError(
        "A header for this server has a name or value that cannot be sent.", code="bad_header"
    )


def _check(response: EgressResponse) -> None:
    encodings = response.headers.get("content-encoding", "").lower().split(",")
    if any(coding.strip() not in {"", "identity"} for coding in encodings):
        raise EncodingRefusedError(was_answered=True)


def _moved_to(request: EgressRequest, target: Target, response: EgressResponse) -> Target | None:
    """Return where a redirect leads, None when it is none. Raises RedirectRefusedError."""
    location = response.headers.get("location")
    if response.status not in MOVED or not location:
        return None
    keeps_method = request.method in {"GET", "HEAD"} or response.status in KEEPS_METHOD
    if not request.may_redirect or not keeps_method:
        raise RedirectRefusedError(was_answered=True)
    try:
        moved = read_url(urljoin(target.url, location.partition("#")[0]))
    except (BlockedUrlError, ValueError) as exc:
        raise RedirectRefusedError(was_answered=True) from exc
    if moved.origin != target.origin:
        raise RedirectRefusedError(was_answered=True)
    return moved
