"""The optional GET stream of the handshake era: kept open, bounded, never fatal to a session."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from enum import Enum
from typing import TYPE_CHECKING

from connectors.upstream import errors, jsonrpc
from connectors.upstream.http_answers import EVENT_STREAM
from connectors.upstream.reconnect import Pause
from connectors.upstream.sse_parser import EventTooLargeError, SseParser
from mcphub.core.egress import EgressResponse
from mcphub.core.errors import HubError, UpstreamError

if TYPE_CHECKING:
    from connectors.upstream.streamable_http import HttpSession

USEFUL_SECONDS = 30.0
"""A stream that lived as long as this starts the waits from the beginning."""


class Outcome(Enum):
    """What came of one attempt to keep the stream open."""

    REFUSED = "refused"
    FAILED = "failed"
    ENDED = "ended"
    LOST = "lost"


async def server_stream(session: HttpSession) -> None:
    """Read what the server sends on its own until it refuses the stream or the session ends."""
    pause, parser, was_open = Pause(), session.parser(), session.is_adopted
    clock = asyncio.get_running_loop()
    while True:
        parser, began = session.parser(parser), clock.time()
        outcome = await _attempt(session, parser, was_open=was_open)
        was_open = was_open or outcome is Outcome.ENDED
        if outcome is Outcome.LOST:
            session.end(errors.session_lost())
        if outcome in {Outcome.REFUSED, Outcome.LOST}:
            return
        if clock.time() - began > USEFUL_SECONDS:
            pause.reset()
        await asyncio.sleep(pause.next_seconds(parser.retry_ms))


async def _attempt(session: HttpSession, parser: SseParser, *, was_open: bool) -> Outcome:
    try:
        async with session.http.stream(
            session.stream_request(parser.last_event_id, None)
        ) as response:
            if response.status != 200 or response.content_type != EVENT_STREAM:
                return _refusal(session, response, was_open=was_open)
            session.listener.on_step("stream_open", {})
            await _read(session, response, parser)
    except (UpstreamError, EventTooLargeError) as exc:
        is_open = isinstance(exc, EventTooLargeError) or exc.was_answered
        session.listener.on_step("stream_lost", {"error": type(exc).__name__})
        return Outcome.ENDED if is_open else Outcome.FAILED
    except HubError as exc:
        session.listener.on_step("stream_refused", {"code": exc.problem_code})
        return Outcome.REFUSED
    session.listener.on_step("stream_lost", {})
    return Outcome.ENDED


def _refusal(session: HttpSession, response: EgressResponse, *, was_open: bool) -> Outcome:
    """Judge a GET that opened no stream; 404 means a lost session only where one was open.

    409: the server has not yet noticed that the earlier stream is gone.
    """
    status = response.status
    if status == 404 and was_open and session.session_id:
        return Outcome.LOST
    if was_open and (status >= 500 or status in {409, *errors.TRANSIENT_STATUS}):
        return Outcome.FAILED
    session.listener.on_step("stream_refused", {"status": status})
    return Outcome.REFUSED


async def _read(session: HttpSession, response: EgressResponse, parser: SseParser) -> None:
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            for event in parser.feed(chunk):
                if event.name == "message" and event.data.strip():
                    take_event(session, event.data)
                    await session.turns.pass_on()


def take_event(session: HttpSession, raw: bytes) -> None:
    """Take in one message of the stream; what cannot be read is in the trace and skipped."""
    try:
        message = session.receive(raw, None, max_depth=jsonrpc.MAX_DEPTH)
    except UpstreamError:
        return
    if message is not None:
        session.drop_answer(message, len(raw), None, "unexpected")
