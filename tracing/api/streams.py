"""Plain async views: the trace as a file, and the SSE twin of the event socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

from mcphub.api.asynchronous import answers_problems
from mcphub.api.errors import MethodNotAllowedError
from mcphub.api.schema import describe
from mcphub.core.clock import now
from mcphub.core.errors import HubError
from mcphub.core.offload import in_thread
from tenants import credentials, invalidation, tickets
from tenants.api.asynchronous import async_view
from tenants.api.authentication import principal_of
from tenants.invalidation import Change
from tenants.principal import Principal, Scope
from tracing import exports, selectors
from tracing.api import inputs
from tracing.live import LiveEvents, envelope, read_since
from tracing.rows import Row

MAX_ROWS = 10_000
CHUNK = 50
BEAT_SECONDS = 15.0
CHECK_SECONDS = 5.0
TRUST_SECONDS = 30.0
DEFAULT_TOPICS = "servers,calls"


@async_view("GET", scope=Scope.TRACES_READ)
async def export(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """Send the newest 10,000 messages that match, oldest first."""
    kind, wanted = inputs.export_query(request.GET)
    pieces = exports.file_of(kind, _chunks(principal, wanted))
    return StreamingHttpResponse(
        pieces,
        content_type=kind.content_type,
        headers={"Content-Disposition": f'attachment; filename="traces.{kind.value}"'},
    )


async def _chunks(principal: Principal, wanted: selectors.TraceFilter) -> AsyncIterator[list[Row]]:
    """Yield the rows in small groups: one may have 256 KiB."""
    chunk = await in_thread(_first_chunk, principal, wanted)
    count = 0
    while chunk and count < MAX_ROWS:
        yield chunk
        count += len(chunk)
        chunk = await in_thread(_chunk_after, principal, wanted, chunk[-1])


def _first_chunk(principal: Principal, wanted: selectors.TraceFilter) -> list[Row]:
    rows = selectors.events_for(principal, wanted)
    oldest = selectors.oldest_of_newest(rows, MAX_ROWS)
    return list((rows.filter(pk__gte=oldest) if oldest else rows).order_by("pk")[:CHUNK])


def _chunk_after(principal: Principal, wanted: selectors.TraceFilter, last: Row) -> list[Row]:
    rows = selectors.events_for(principal, wanted)
    return list(rows.filter(pk__gt=last.id).order_by("pk")[:CHUNK])


@answers_problems
async def events(request: HttpRequest) -> HttpResponseBase:
    """Stream events: `?topics=servers,calls`, `?since=` or `Last-Event-ID`, `?ticket=` once."""
    if request.method != "GET":
        raise MethodNotAllowedError
    principal = await _principal_of(request)
    topics = [topic for topic in request.GET.get("topics", DEFAULT_TOPICS).split(",") if topic]
    since = read_since(request.headers.get("Last-Event-ID") or request.GET.get("since"))
    live = await LiveEvents.open(principal)
    try:
        await live.subscribe(topics, since)
    except BaseException:
        await live.close()
        raise
    return StreamingHttpResponse(
        _frames(live, principal),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _principal_of(request: HttpRequest) -> Principal:
    ticket = request.GET.get("ticket")
    if ticket is None:
        return await principal_of(request)
    principal = await in_thread(tickets.redeem, ticket)
    credentials.check_origin(principal, request.headers.get("Origin", ""))
    return principal


async def _frames(live: LiveEvents, principal: Principal) -> AsyncIterator[str]:
    """Yield SSE frames until the client goes or the credential ends."""
    watch = _Watch(principal)
    beat_at = time.monotonic() + BEAT_SECONDS
    try:
        position = live.position  # an id before the replay: who is cut off here asks again for it
        yield f"retry: 2000\n{_frame(position, envelope('hello', position=position))}"
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    messages = await live.messages()
            except TimeoutError:
                messages = []
            yield "".join(_frame(seq, text) for seq, text in messages)
            if not await watch.is_valid(live):
                return
            if time.monotonic() >= beat_at:
                beat_at += BEAT_SECONDS
                yield ": beat\n\n"
    finally:
        watch.close()
        await live.close()


def _frame(seq: int, text: str) -> str:
    return f"id: {seq}\ndata: {text}\n\n"


class _Watch:
    """Whether the credential that opened a stream still holds; looked up again when in doubt."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self._looked_up = time.monotonic()
        self._is_changed = False
        self._has_ended = False
        self._unsubscribe = invalidation.subscribe(self._note)

    def close(self) -> None:
        self._unsubscribe()

    async def is_valid(self, live: LiveEvents) -> bool:
        if self._has_ended:
            return False
        if not self._is_in_doubt():
            return True
        self._is_changed = False
        self._looked_up = time.monotonic()
        before = self._principal
        try:
            self._principal = await in_thread(credentials.confirm, before)
            if self._principal.scopes != before.scopes:
                await live.principal_changed(self._principal)
        except HubError:
            return False
        return True

    def _note(self, change: Change) -> None:
        """Take an announcement, in whatever thread."""
        if change.concerns(self._principal):
            self._has_ended |= bool(change.credential)
            self._is_changed = True

    def _is_in_doubt(self) -> bool:
        trust = TRUST_SECONDS if invalidation.is_listening() else CHECK_SECONDS
        ends = self._principal.expires_at
        has_expired = ends is not None and ends <= now()
        return self._is_changed or has_expired or time.monotonic() - self._looked_up > trust


_FILTERS = ("server", "call", "direction", "type", "method", "status", "text", "since", "until")

describe(
    "/api/v1/traces/export",
    "get",
    {
        "operationId": "getTraceExport",
        "summary": "The newest 10,000 messages that match, oldest first, as a file.",
        "parameters": [
            {
                "name": "format",
                "in": "query",
                "schema": {"type": "string", "enum": [kind.value for kind in exports.Format]},
            },
            *({"name": n, "in": "query", "schema": {"type": "string"}} for n in _FILTERS),
        ],
        "responses": {
            "200": {
                "description": "The file.",
                "content": {"application/json": {}, "application/x-ndjson": {}},
            }
        },
    },
)
describe(
    "/api/v1/events",
    "get",
    {
        "operationId": "streamEvents",
        "summary": "The events of `/ws/v1/events` as Server-Sent Events, from `since` on.",
        "parameters": [
            {"name": "topics", "in": "query", "schema": {"type": "string"}},
            {"name": "since", "in": "query", "schema": {"type": "integer", "minimum": 0}},
            {"name": "ticket", "in": "query", "schema": {"type": "string"}},
        ],
        "responses": {
            "200": {"description": "A stream of events.", "content": {"text/event-stream": {}}}
        },
    },
)
