"""Answers that are asked for again, by the holder that sent the request or by the next one."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

import pytest

from connectors.server_spec import Era
from connectors.upstream.session import StreamPosition, UpstreamRequest
from mcphub.core.clock import MovableDeadline
from mcphub.core.errors import UpstreamError
from mcphub.core.types import JSONValue
from tests.connectors.upstream.support import call_of, talking_to
from tests.fakes.raw_server import RawServer, Request, Wire, result, text_result

DIGEST = hashlib.sha256(b"session-1").hexdigest()
OK = text_result()


class Resumable(RawServer):
    """Begins an answer and ends the connection; the rest is there for who asks again."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        self.asked_id = request.id
        await wire.open_stream()
        await wire.event(b"", id="e1", retry=1)

    async def on_get(self, request: Request, wire: Wire) -> None:
        if request.headers.get("last-event-id") is None:
            await wire.answer(status=405, content_type=None)
            return
        await wire.open_stream()
        await wire.event(result(self.asked_id, OK), id="e2")

    asked_id: JSONValue = 77


class Empty(RawServer):
    """Answers with an event whose result has no members."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event(result(request.id, {}))


def resumed(position: StreamPosition) -> UpstreamRequest:
    return replace(call_of("echo"), resume_at=position)


async def test_where_an_answer_can_be_resumed_is_told_without_the_session_id() -> None:
    server, told = Resumable(), list[StreamPosition]()
    async with talking_to(server, era_hint=Era.LEGACY) as session:
        assert await session.request(replace(call_of("echo"), on_position=told.append)) == OK
    assert [(each.session, each.event) for each in told] == [(DIGEST, "e1")]
    assert told[0].request == server.asked_id


async def test_the_next_holder_gets_the_answer_without_sending_anything() -> None:
    server = Resumable()
    position = StreamPosition(session=DIGEST, request=77, event="e1")
    async with talking_to(server, era_hint=Era.LEGACY) as session:
        assert await session.request(resumed(position)) == OK
    assert server.counts["POST tools/call"] == 0
    assert server.requests[-2].headers["last-event-id"] == "e1"


@pytest.mark.parametrize("session_id", ["session-2", ""])
async def test_an_answer_of_another_session_is_lost_and_nothing_is_sent(session_id: str) -> None:
    server = Resumable()
    digest = hashlib.sha256(session_id.encode()).hexdigest()
    position = StreamPosition(session=digest, request=77, event="e1")
    async with talking_to(server, era_hint=Era.LEGACY) as session:
        with pytest.raises(UpstreamError) as caught:
            await session.request(resumed(position))
    assert caught.value.was_sent
    assert not caught.value.was_answered
    assert server.counts["POST tools/call"] == 0


async def test_a_result_without_members_is_a_result() -> None:
    async with talking_to(Empty(), era_hint=Era.LEGACY) as session:
        assert await session.request(call_of("echo")) == {}


async def test_a_deadline_moves_while_somebody_is_asked() -> None:
    deadline = MovableDeadline(asyncio.get_running_loop().time() - 1e9)
    assert deadline.is_over
    deadline.move(2e9)
    assert not deadline.is_over
    assert deadline.remaining > 1e8
