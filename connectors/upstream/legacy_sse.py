"""HTTP with SSE, the transport of 2024-11-05: one GET stream for answers, a POST per message."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from urllib.parse import urljoin, urlsplit

from django.conf import settings

from connectors.server_spec import ServerSpec
from connectors.upstream import errors, http_answers
from connectors.upstream.contract import SessionListener
from connectors.upstream.duplex import DuplexSession
from connectors.upstream.eras import LegacyRules
from connectors.upstream.http_answers import EVENT_STREAM
from connectors.upstream.sse_parser import OVERSIZED, SseEvent, SseParser
from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient, EgressRequest, EgressResponse
from mcphub.core.errors import HubError
from mcphub.core.types import JSONObject

EVENT_MAX_BYTES = 16 << 20
UNBOUNDED = 1 << 62
POST_SECONDS = 30.0


class SseSession(DuplexSession):
    """A session over HTTP+SSE; its stream is its life, a failing POST fails one call only."""

    def __init__(self, spec: ServerSpec, http: EgressClient, listener: SessionListener) -> None:
        super().__init__(listener)
        self.rules = LegacyRules()
        self._url = spec.url
        self._http = http
        self._headers = {name.lower(): secret.value for name, secret in spec.headers.items()}
        self._endpoint: asyncio.Future[str] | None = None

    async def open(self, deadline: Deadline) -> None:
        """Open the stream and wait for the message endpoint. Raises HubError."""
        self._endpoint = asyncio.get_running_loop().create_future()
        self.spawn(self._hold_stream())
        async with asyncio.timeout(deadline.remaining):
            await self._endpoint

    async def _hold_stream(self) -> None:
        error: HubError = errors.session_lost("The server ended the event stream.")
        try:
            await self._read_stream()
        except HubError as exc:
            error = exc
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(error)
            self._endpoint.exception()
        lost = errors.session_lost("The event stream ended.")
        self.lose(errors.stream_broken(), lost)

    async def _read_stream(self) -> None:
        request = EgressRequest(
            method="GET",
            url=self._url,
            headers={**self._headers, "accept": EVENT_STREAM},
            max_bytes=UNBOUNDED,
        )
        async with self._http.stream(request) as response:
            if response.status != 200:
                raise errors.status_error(await http_answers.read_refusal(response))
            if response.content_type != EVENT_STREAM:
                raise errors.not_mcp_endpoint()
            await self._read_events(response)

    async def _read_events(self, response: EgressResponse) -> None:
        limit = max(EVENT_MAX_BYTES, settings.MAX_BODY_BYTES)
        parser = SseParser(limit, max_stream=None, may_skip=True)
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                for event in parser.feed(chunk):
                    self._take_event(event, response.url, limit)
                    await self.turns.pass_on()

    def _take_event(self, event: SseEvent, url: str, limit: int) -> None:
        if event.name == "endpoint":
            self._set_endpoint(event.data, url)
        elif event.name == OVERSIZED:
            self.fail_oversized(limit)
        elif event.name == "message" and event.data.strip():
            self.take(event.data)

    def _set_endpoint(self, raw: bytes, base: str) -> None:
        """Take the first endpoint; one on another origin would receive the credentials."""
        if self._endpoint is None or self._endpoint.done():
            return
        try:
            url = urljoin(base, raw.decode().strip())
            is_same = _origin(url) == _origin(base)
        except ValueError as exc:
            raise errors.protocol_fault("The message endpoint is no URL.") from exc
        if not is_same:
            raise errors.protocol_fault("The message endpoint is on another origin.")
        self._endpoint.set_result(url)

    async def send(self, message: JSONObject, body: bytes) -> None:
        if self._endpoint is None or not self._endpoint.done():
            raise errors.session_closed()
        method = str(message.get("method", ""))
        request = EgressRequest(
            method="POST",
            url=self._endpoint.result(),
            headers={
                **self._headers,
                "content-type": "application/json",
                "accept": "application/json",
                **self.rules.headers(method, {}),
            },
            content=body,
            deadline=Deadline.after(POST_SECONDS),
        )
        async with self._http.stream(request) as response:
            if response.status >= 300:
                raise await self._refused(response)
            await response.drain()

    async def _refused(self, response: EgressResponse) -> HubError:
        refusal = await http_answers.read_refusal(response)
        if refusal.status != 404:
            return errors.status_error(refusal)
        lost = errors.session_lost()
        self.lose(errors.stream_broken(), lost)
        return lost

    async def close(self) -> None:
        self.end(errors.session_closed(), is_announced=False)
        self.lose(errors.stream_broken(), errors.session_closed())
        await self._peer.stop()
        await self._stop_tasks()


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port
