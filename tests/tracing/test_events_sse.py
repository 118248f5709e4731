"""The SSE twin of the event socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient
from redis import Redis

from mcphub.core import broadcast
from mcphub.core.broadcast import EventGroup
from tenants import api_keys, credentials, invalidation, tickets
from tenants.models import ApiKey
from tests.waiting import eventually
from tests.world import Person, World
from tracing.api import streams

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 5.0
PATH = "/api/v1/events"


@pytest.fixture(autouse=True)
def _listening(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    eventually(invalidation.is_listening)
    monkeypatch.setattr(streams, "CHECK_SECONDS", 0.1)


class Stream:
    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames
        self._waiting: list[str] = []

    async def frame(self) -> str:
        """Return the next frame; bounded."""
        async with asyncio.timeout(SECONDS):
            while not self._waiting:
                text = (await anext(self._frames)).decode()
                self._waiting = [frame for frame in text.split("\n\n") if frame]
        return self._waiting.pop(0)

    async def message(self) -> tuple[int, Any]:
        """Return the id and the envelope of the next frame."""
        fields = dict(line.split(": ", 1) for line in (await self.frame()).splitlines())
        return int(fields["id"]), json.loads(fields["data"])

    async def has_ended(self) -> bool:
        async with asyncio.timeout(SECONDS):
            return [frame async for frame in self._frames if frame] == []


@asynccontextmanager
async def streaming(headers: Mapping[str, str], **query: Any) -> AsyncIterator[tuple[Stream, int]]:
    response: Any = await AsyncClient().get(PATH, query, headers=dict(headers))
    assert response.status_code == 200
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    frames = response.streaming_content
    stream = Stream(frames)
    number, hello = await stream.message()
    assert hello == {"v": 1, "type": "hello", "position": number}
    yield stream, number
    await frames.aclose()


async def refused(headers: Mapping[str, str], **query: Any) -> tuple[int, str]:
    response = await AsyncClient().get(PATH, query, headers=dict(headers))
    return response.status_code, response.json()["code"]


async def publish(person: Person, *ids: str) -> None:
    for one in ids:
        broadcast.publish(EventGroup.of(person.principal), {"type": "server.removed", "id": one})
    assert await sync_to_async(broadcast.flush)(SECONDS)


async def ticket_of(person: Person) -> str:
    shown = credentials.Shown(authorization=f"Bearer {person.key}")
    principal = await sync_to_async(credentials.resolve)(shown)
    return (await sync_to_async(tickets.issue)(principal)).ticket


async def test_stream_has_the_envelopes_of_the_socket_with_seq_as_id(world: World) -> None:
    async with streaming(world.bob.headers) as (stream, seq):
        await publish(world.alice, "alices")
        await publish(world.bob, "a")
        number, event = await stream.message()
    assert number == event["seq"] == seq + 1
    assert (event["v"], event["type"], event["id"]) == (1, "server.removed", "a")


async def test_last_event_id_resumes_without_loss(world: World) -> None:
    async with streaming(world.bob.headers) as (_, seq):
        pass
    await publish(world.bob, "missed", "too")
    headers = {**world.bob.headers, "Last-Event-ID": str(seq + 1)}
    async with streaming(headers) as (stream, _):
        assert (await stream.message())[1]["id"] == "too"
    async with streaming(world.bob.headers, since=seq) as (stream, _):
        assert (await stream.message())[1]["id"] == "missed"


async def test_a_drop_right_after_hello_loses_nothing(world: World) -> None:
    async with streaming(world.bob.headers) as (_, seq):
        pass
    await publish(world.bob, "missed")
    async with streaming(world.bob.headers, since=seq) as (_, last_event_id):
        assert last_event_id == seq
    headers = {**world.bob.headers, "Last-Event-ID": str(last_event_id)}
    async with streaming(headers) as (stream, _):
        assert (await stream.message())[1]["id"] == "missed"


async def test_position_that_is_gone_is_answered_by_resync(world: World) -> None:
    async with streaming(world.bob.headers) as (_, newest):
        pass
    async with streaming(world.bob.headers, since=3) as (stream, _):
        assert await stream.message() == (newest, {"v": 1, "type": "resync", "seq": newest})


async def test_quiet_stream_beats(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.1)
    async with streaming(world.bob.headers) as (stream, _):
        assert await stream.frame() == ": beat"


async def test_ticket_opens_one_stream(world: World) -> None:
    ticket = await ticket_of(world.bob)
    async with streaming({}, ticket=ticket) as (stream, _):
        await publish(world.bob, "a")
        assert (await stream.message())[1]["id"] == "a"
    assert await refused({}, ticket=ticket) == (401, "invalid_credential")


async def test_revoked_key_ends_the_stream(world: World) -> None:
    async with streaming(world.bob.headers) as (stream, _):
        key = await sync_to_async(ApiKey.unscoped.get)(member=world.bob.member)
        await sync_to_async(api_keys.revoke)(world.alice.principal, api_key_id=str(key.id))
        assert await stream.has_ended()


async def test_stream_is_refused_as_a_problem(world: World) -> None:
    assert await refused({}) == (401, "not_authenticated")
    assert await refused(world.bob.headers, topics="server:alices") == (404, "not_found")
    assert await refused(world.bob.headers, topics="nonsense") == (422, "invalid_input")
    assert await refused(world.bob.headers, since="x") == (422, "invalid_input")
    assert await refused(world.bob.headers, since=-1) == (422, "invalid_input")
    response = await AsyncClient().post(PATH, headers=dict(world.bob.headers))
    assert response.status_code in {403, 405}
