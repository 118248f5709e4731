"""Reading event streams: in order, once per process, replay, and a resync for every hole."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from redis import Redis

from mcphub.core import broadcast, event_feed
from mcphub.core.broadcast import EventGroup
from mcphub.core.errors import UnavailableError
from mcphub.core.event_feed import Batch, EventFeed, Listener
from mcphub.core.event_stream import Route
from mcphub.core.types import JSONObject
from tests.waiting import eventually

SECONDS = 5.0


@pytest.fixture
def group() -> EventGroup:
    return EventGroup(uuid.uuid4(), uuid.uuid4())


@pytest.fixture(autouse=True)
def _with_redis(redis: Redis) -> None:
    """Start each test with an empty Redis."""


def everything(route: Route) -> bool:
    return True


@asynccontextmanager
async def listening(group: EventGroup, feed: EventFeed | None = None) -> AsyncIterator[Listener]:
    feed = feed or event_feed.feed()
    listener = await feed.listen(group)
    listener.accepts = everything
    yield listener
    await feed.leave(listener)


async def send(group: EventGroup, *ids: str, kind: str = "server.removed") -> None:
    for one in ids:
        broadcast.publish(group, {"type": kind, "id": one})
    assert await sync_to_async(broadcast.flush)(SECONDS)


async def taken(listener: Listener) -> Batch:
    async with asyncio.timeout(SECONDS):
        return await listener.take()


async def events_of(listener: Listener, count: int) -> list[JSONObject]:
    """Return the next `count` events; a resync is a failure."""
    events: list[JSONObject] = []
    while len(events) < count:
        batch = await taken(listener)
        assert batch.resync_at is None
        events += [json.loads(event.text) for event in batch.events]
    return events


async def test_listener_gets_what_is_published_after_it_with_the_whole_envelope(
    group: EventGroup,
) -> None:
    await send(group, "before")
    async with listening(group) as listener:
        start = listener.seq
        await send(group, "a", "b")
        events = await events_of(listener, 2)
    assert [event["id"] for event in events] == ["a", "b"]
    assert [event["seq"] for event in events] == [start + 1, start + 2]
    assert set(events[0]) == {"v", "seq", "ts", "type", "id"}
    assert events[0]["v"] == 1


async def test_events_reach_every_listener_of_the_member_and_nobody_else(group: EventGroup) -> None:
    stranger = EventGroup(group.tenant_id, uuid.uuid4())
    async with listening(group) as one, listening(group) as two, listening(stranger) as other:
        await send(group, "a")
        assert [e["id"] for e in await events_of(one, 1)] == ["a"]
        assert [e["id"] for e in await events_of(two, 1)] == ["a"]
        await send(stranger, "b")
        assert [e["id"] for e in await events_of(other, 1)] == ["b"]


async def test_listener_keeps_only_what_it_accepts(group: EventGroup) -> None:
    async with listening(group) as listener:
        listener.accepts = lambda route: route.server == "b"
        await send(group, "a", "b", "c")
        assert [e["id"] for e in await events_of(listener, 1)] == ["b"]


async def test_replay_hands_out_the_past_before_the_present(group: EventGroup) -> None:
    start = await sync_to_async(broadcast.current_seq)(group)
    await send(group, *(str(number) for number in range(450)))
    async with listening(group) as listener:
        listener.replay(start)
        await send(group, "new")
        events = await events_of(listener, 451)
    assert [e["id"] for e in events] == [*(str(number) for number in range(450)), "new"]


async def test_replay_from_the_newest_event_hands_out_nothing_old(group: EventGroup) -> None:
    await send(group, "old")
    async with listening(group) as listener:
        listener.replay(listener.seq)
        await send(group, "new")
        assert [e["id"] for e in await events_of(listener, 1)] == ["new"]


@pytest.mark.parametrize("since", [0, 1, 1 << 53])
async def test_replay_from_a_position_nobody_knows_is_a_resync(
    group: EventGroup, since: int
) -> None:
    await send(group, "a")
    async with listening(group) as listener:
        listener.replay(since)
        assert await taken(listener) == Batch(resync_at=listener.seq)
        await send(group, "b")
        assert [e["id"] for e in await events_of(listener, 1)] == ["b"]


async def test_event_that_was_lost_before_the_stream_is_a_resync(group: EventGroup) -> None:
    async with listening(group) as listener:
        broadcast.publish(group, {"type": "server.state", "server": "x" * (1 << 20)})
        await send(group, "after")
        assert (await taken(listener)).resync_at is not None
        await send(group, "then")
        assert [e["id"] for e in await events_of(listener, 1)] == ["then"]


async def test_emptied_redis_is_a_resync_even_when_nothing_is_published_after(
    group: EventGroup, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "POLL_SECONDS", 0.1)
    await send(group, "a")
    async with listening(group) as listener:
        await sync_to_async(redis.delete)(group.stream, group.counter)
        assert (await taken(listener)).resync_at is not None


async def test_emptied_redis_is_a_resync_at_the_next_event(group: EventGroup, redis: Redis) -> None:
    await send(group, "a")
    async with listening(group) as listener:
        await sync_to_async(redis.delete)(group.stream, group.counter)
        await send(group, "b")
        assert (await taken(listener)).resync_at is not None


async def test_connections_that_redis_ends_are_made_again_and_everybody_resyncs(
    group: EventGroup, redis: Redis
) -> None:
    async with listening(group) as one, listening(group) as two:
        await sync_to_async(redis.client_kill_filter)(_type="pubsub", skipme=True)
        assert (await taken(one)).resync_at is not None
        assert (await taken(two)).resync_at is not None
        await send(group, "after")
        assert [e["id"] for e in await events_of(one, 1)] == ["after"]


async def test_listener_that_does_not_read_costs_bounded_memory_and_resyncs(
    group: EventGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "BUFFER_BYTES", 2000)
    async with listening(group) as slow, listening(group) as quick:
        numbers = [str(number) for number in range(300)]
        events, _ = await asyncio.gather(events_of(quick, 300), send(group, *numbers))
        assert [e["id"] for e in events] == numbers
        assert await taken(slow) == Batch(resync_at=slow.seq)


async def test_listener_for_traces_is_counted_while_it_wants_them(group: EventGroup) -> None:
    asked = sync_to_async(broadcast.traced_among)
    async with listening(group) as one, listening(group) as two:
        assert await asked([group]) == frozenset()
        await one.trace(is_wanted=True)
        await two.trace(is_wanted=True)
        assert await asked([group]) == {group}
        await one.trace(is_wanted=False)
        assert await asked([group]) == {group}
        await two.trace(is_wanted=False)
    async with listening(group) as three:
        await three.trace(is_wanted=True)
    assert await asked([group]) == frozenset()


async def test_feed_without_listeners_holds_no_connection(group: EventGroup, redis: Redis) -> None:
    def count() -> int:
        return int(redis.pubsub_numsub(group.doorbell)[0][1])

    async with listening(group):
        assert await sync_to_async(count)() == 1
    await sync_to_async(eventually)(lambda: count() == 0, what="the end of the connection")


async def test_listening_without_redis_is_refused_in_time(
    group: EventGroup, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any
) -> None:
    monkeypatch.setattr(event_feed, "OPEN_SECONDS", 0.2)
    settings.REDIS_URL = f"unix://{tmp_path / 'nobody.sock'}"
    feed = EventFeed()
    with pytest.raises(UnavailableError):
        await feed.listen(group)
