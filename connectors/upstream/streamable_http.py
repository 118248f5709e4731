"""Streamable HTTP: one request is one HTTP exchange, so one bad answer fails one call only."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing

from django.conf import settings
from mcp_types.jsonrpc import HEADER_MISMATCH

from connectors.server_spec import Era, ServerSpec
from connectors.upstream import errors, http_answers, jsonrpc
from connectors.upstream.base import CLOSE_SECONDS, BaseSession, depth_for
from connectors.upstream.calls import Call
from connectors.upstream.contract import SessionListener, StreamPosition, UpstreamRequest
from connectors.upstream.eras import EraRules, LegacyRules, ModernRules
from connectors.upstream.http_answers import EVENT_STREAM
from connectors.upstream.http_layer import HttpSeen
from connectors.upstream.listen import Listening, wanted_of
from connectors.upstream.reconnect import Pause
from connectors.upstream.server_stream import server_stream
from connectors.upstream.sse_parser import STREAM_MAX_BYTES, EventTooLargeError, SseParser
from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient, EgressRequest, EgressResponse
from mcphub.core.errors import BlockedUrlError, HubError, UpstreamError, UpstreamTimeoutError
from mcphub.core.types import JSONObject, JSONValue

ACCEPT = "application/json, text/event-stream"
MAX_RESUMES = 5
POST_SECONDS = 15.0
LINGER_SECONDS = 0.01
"""How long to wait for the end of a stream after its answer, so that the connection is kept."""


class HttpSession(BaseSession):
    """A session over Streamable HTTP in either era."""

    def __init__(
        self, spec: ServerSpec, http: EgressClient, listener: SessionListener, rules: EraRules
    ) -> None:
        super().__init__(listener)
        self.rules = rules
        self.is_adopted = False
        self._listening = Listening(self)
        self.url = spec.url
        self.http = http
        self._headers = {name.lower(): secret.value for name, secret in spec.headers.items()}

    @property
    def has_credentials(self) -> bool:
        return "authorization" in self._headers

    @property
    def session_id(self) -> str:
        return self.rules.session_id if isinstance(self.rules, LegacyRules) else ""

    def headers(self, extra: Mapping[str, str]) -> dict[str, str]:
        """Return the configured headers and over them the protocol's own."""
        return {**self._headers, **extra}

    def wish(self, resources: Collection[str], tasks: Collection[str]) -> None:
        self._listening.wish(resources, tasks)

    def learn_tools(self, tools: list[JSONObject]) -> None:
        self._learn(list(tools))

    def _learn(self, tools: list[JSONValue]) -> None:
        if isinstance(self.rules, ModernRules):
            self.rules.param_headers.learn(tools)

    async def request(self, request: UpstreamRequest) -> JSONObject:
        if request.resume_at is not None:
            return await self._resume_call(request, request.resume_at)
        try:
            result = await super().request(request)
        except errors.PeerError as exc:
            if not self._is_header_mismatch(request, exc):
                raise
            await self._list_tools_again(request)
            result = await super().request(request)
        if request.method == "tools/list" and isinstance(tools := result.get("tools"), list):
            self._learn(tools)
        return result

    def _is_header_mismatch(self, request: UpstreamRequest, exc: errors.PeerError) -> bool:
        return (
            request.method == "tools/call"
            and self.rules.era is Era.MODERN
            and exc.rpc.code == HEADER_MISMATCH
        )

    async def _list_tools_again(self, request: UpstreamRequest) -> None:
        """Learn which arguments travel as headers; the refused call was not processed."""
        params: JSONObject = {}
        for _ in range(settings.MAX_PAGES):
            page = await self.request(
                UpstreamRequest(method="tools/list", params=params, deadline=request.deadline)
            )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or params.get("cursor") == cursor:
                return
            params = {"cursor": cursor}

    # --- one exchange

    async def exchange(self, call: Call) -> JSONObject:
        body = jsonrpc.encode(call.message)
        params = call.message.get("params")
        era_headers = self.rules.headers(
            call.request.method, params if isinstance(params, dict) else {}
        )
        self.tap.sent(call.message, len(body), call)
        request = EgressRequest(
            method="POST",
            url=self.url,
            headers=self.headers(
                {"accept": ACCEPT, "content-type": "application/json", **era_headers}
            ),
            content=body,
            deadline=call.deadline,
            max_bytes=STREAM_MAX_BYTES,
        )
        parser: SseParser | None = None
        began = time.monotonic()
        async with self.http.stream(request) as response:
            call.http = _seen(request, response, began)
            if response.status >= 300:
                raise await self._refused(call, response)
            if call.request.method == "initialize" and isinstance(self.rules, LegacyRules):
                self.rules.session_id = http_answers.session_id_of(response)
            if response.content_type != EVENT_STREAM:
                return self._read_answer(call, response, await http_answers.read_body(response))
            parser = self.parser()
            result = await self._read_stream(call, response, parser)
        return result if result is not None else await self._resume(call, parser)

    def parser(self, previous: SseParser | None = None) -> SseParser:
        """Return a parser for a new stream; one that resumes knows the last event id."""
        parser = SseParser(settings.MAX_BODY_BYTES)
        if previous is not None:
            parser.resume_after(previous)
        return parser

    def _read_answer(self, call: Call, response: EgressResponse, body: bytes) -> JSONObject:
        is_json = response.content_type.endswith("json")
        if not is_json and body.lstrip()[:1] != b"{":
            if body:
                self.tap.unreadable(body, call)
                raise errors.not_mcp_endpoint()
            raise errors.protocol_fault("The answer is empty.")
        message = self.receive(body, call, max_depth=depth_for(call.request.method))
        if message is None:
            raise errors.protocol_fault("The answer is no answer to the request.")
        result = self._accept(call, message, len(body))
        if result is None:
            raise errors.foreign_answer()
        return result

    def _accept(self, call: Call, message: JSONObject, size: int) -> JSONObject | None:
        """Return the result when `message` answers `call`; None, told in the trace, when not."""
        got = message.get("id")
        match = jsonrpc.match_id(call.id, got)
        if match is jsonrpc.IdMatch.OTHER and not (got is None and "error" in message):
            call.has_foreign_answer = True
            self.drop_answer(message, size, call, "other_id")
            return None
        if call.is_answer_seen:
            self.drop_answer(message, size, call, "duplicate")
            return None
        self._note_loose_id(match)
        return self._settle(call, message, size)

    async def _refused(self, call: Call, response: EgressResponse) -> HubError:
        refusal = await http_answers.read_refusal(response)
        if self._is_lost(call, refusal):
            error = errors.session_lost()
            self.end(error)
            return error
        error_found, message = http_answers.error_for(refusal, call.id)
        if message is not None:
            self.tap.received(message, len(refusal.body), call, is_answer=True)
        return error_found

    def _is_lost(self, call: Call, refusal: errors.Refusal) -> bool:
        if not self.session_id or call.request.method == "initialize":
            return False
        if http_answers.is_session_lost(refusal, call.id):
            return True
        # A server without authorization that says 401 without a challenge has lost the session.
        return refusal.status == 401 and not refusal.challenge and not self.has_credentials

    # --- event streams

    async def _read_stream(
        self, call: Call, response: EgressResponse, parser: SseParser
    ) -> JSONObject | None:
        """Return the result of the call; None when the stream ended without one and may resume."""
        found: JSONObject | None = None
        try:
            async with aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    found = await self._read_events(call, parser, chunk)
                    if found is not None:
                        break
                if found is not None:
                    await self._linger(call, chunks, parser)
                    return found
        except EventTooLargeError as exc:
            raise errors.too_large(exc.limit) from exc
        except UpstreamError as exc:
            if exc.was_answered or exc.problem_code != "upstream_unreachable":
                raise
        if call.has_foreign_answer:
            raise errors.foreign_answer()
        if not parser.last_event_id or self.rules.era is Era.MODERN:
            raise errors.stream_broken()
        return None

    async def _read_events(self, call: Call, parser: SseParser, chunk: bytes) -> JSONObject | None:
        found: JSONObject | None = None
        for event in parser.feed(chunk):
            if event.name != "message" or not event.data.strip():
                continue
            message = self.receive(event.data, call, max_depth=depth_for(call.request.method))
            if message is not None:
                accepted = self._accept(call, message, len(event.data))
                found = found if accepted is None else accepted  # a result may be empty
            await self.turns.pass_on()
        if found is None:
            self._tell_position(call, parser)
        return found

    def _tell_position(self, call: Call, parser: SseParser) -> None:
        """Say from where the answer can be resumed, if that has moved."""
        tell, event = call.request.on_position, parser.last_event_id
        if tell is None or event in {"", call.last_event_id} or not self.session_id:
            return
        call.last_event_id = event
        tell(StreamPosition(session=self._session_digest, request=call.id, event=event))

    @property
    def _session_digest(self) -> str:
        return hashlib.sha256(self.session_id.encode()).hexdigest()

    async def _resume_call(self, request: UpstreamRequest, position: StreamPosition) -> JSONObject:
        """Wait for the answer to a request that an earlier holder of the session has sent."""
        if self._ending is not None or position.session != self._session_digest:
            raise errors.stream_broken()
        message = jsonrpc.request(position.request, request.method, None)
        call = Call(id=position.request, request=request, message=message)
        call.last_event_id = position.event
        self.calls.add(call)
        parser = self.parser()
        parser.last_event_id = position.event
        return await self.ended(call, self._resume(call, parser))

    async def _linger(self, call: Call, chunks: AsyncIterator[bytes], parser: SseParser) -> None:
        """See the stream's end, if it comes at once; what comes instead is traced and dropped."""
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                async for chunk in chunks:
                    await self._read_events(call, parser, chunk)
        except (TimeoutError, HubError, EventTooLargeError):
            return

    async def _resume(self, call: Call, parser: SseParser) -> JSONObject:
        """Ask for the rest of a broken stream; ends with the call, at most MAX_RESUMES times."""
        pause, known = Pause(), ""
        for _ in range(MAX_RESUMES):
            if parser.last_event_id != known:
                pause.reset()
            known = parser.last_event_id
            await asyncio.sleep(pause.next_seconds(parser.retry_ms))
            self.listener.on_step("stream_resumed", {"request": call.id})
            try:
                async with self.http.stream(
                    self.stream_request(parser.last_event_id, call.deadline)
                ) as response:
                    if response.status != 200 or response.content_type != EVENT_STREAM:
                        raise errors.stream_broken()
                    parser = self.parser(parser)
                    result = await self._read_stream(call, response, parser)
            except UpstreamTimeoutError:
                raise
            except (UpstreamError, BlockedUrlError) as exc:
                if isinstance(exc, UpstreamError) and exc.was_answered:
                    raise
                raise errors.stream_broken() from exc
            if result is not None:
                return result
        raise errors.stream_broken()

    def stream_request(self, last_event_id: str, deadline: Deadline | None) -> EgressRequest:
        """Return the GET that opens or resumes a stream of the server."""
        headers = {"accept": EVENT_STREAM, **self.rules.headers("", {})}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        return EgressRequest(
            method="GET",
            url=self.url,
            headers=self.headers(headers),
            deadline=deadline,
            max_bytes=STREAM_MAX_BYTES,
        )

    # --- messages without an answer

    async def _post(self, message: JSONObject) -> None:
        body = jsonrpc.encode(message)
        self.tap.sent(message, len(body))
        method, params = str(message.get("method", "")), jsonrpc.params_of(message)
        headers = {
            "accept": ACCEPT,
            "content-type": "application/json",
            **self.rules.headers(method, params),
        }
        request = EgressRequest(
            method="POST",
            url=self.url,
            headers=self.headers(headers),
            content=body,
            deadline=Deadline.after(POST_SECONDS),
        )
        async with self.http.stream(request) as response:
            if response.status >= 300:
                refusal = await http_answers.read_refusal(response)
                raise errors.status_error(refusal)
            await response.drain()

    def _cancel_upstream(self, call: Call, reason: str) -> None:
        if self.rules.era is Era.LEGACY:
            super()._cancel_upstream(call, reason)

    def _on_peer_request(self, message: JSONObject, call: Call | None) -> None:
        if self.rules.era is Era.LEGACY:
            super()._on_peer_request(message, call)
        else:
            self.listener.on_step("peer_request_dropped", {"why": "era"})

    def start(self) -> None:
        """Begin to listen to what the server sends on its own; the handshake is done."""
        if self.rules.era is Era.MODERN:
            self.spawn(self._listening.run())
        elif self.session_id or wanted_of(self.opened.capabilities):
            self.spawn(server_stream(self))

    async def close(self) -> None:
        was_lost = self._ending is not None
        self.end(errors.session_closed(), is_announced=False)
        await self._peer.stop()
        await self._stop_tasks()
        if was_lost or self.is_handed_over or not self.session_id:
            return
        request = EgressRequest(
            method="DELETE",
            url=self.url,
            headers=self.headers(self.rules.headers("", {})),
            deadline=Deadline.after(CLOSE_SECONDS),
        )
        try:
            async with self.http.stream(request) as response:
                await response.drain()
        except HubError as exc:
            self.listener.on_step("close_failed", {"code": exc.problem_code})


def _seen(request: EgressRequest, response: EgressResponse, began: float) -> HttpSeen:
    return HttpSeen(
        method=request.method,
        status=response.status,
        duration_ms=(time.monotonic() - began) * 1000.0,
        request_headers=request.headers,
        response_headers=response.headers,
    )
