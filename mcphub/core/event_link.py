"""What an event feed needs of Redis: reading streams from a position, and hearing doorbells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from mcphub.core import redis
from mcphub.core.event_stream import CURRENT, IDLE_SECONDS, EventGroup, Route

COUNT = 32
"""Events per read: what a listener has to have room for at once."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; `text` is its whole envelope as JSON."""

    seq: int
    route: Route
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What follows a position: events without a hole, or `is_gap` and where to go on."""

    events: Sequence[Event]
    seq: int
    is_gap: bool = False
    has_more: bool = False


async def read(
    client: Redis, positions: Sequence[tuple[EventGroup, int]], count: int = COUNT
) -> list[Reading]:
    """Read what follows each position; one round trip. Raises RedisError, OSError."""
    pipeline = client.pipeline(transaction=True)
    for group, since in positions:
        pipeline.eval(CURRENT, 2, group.stream, group.counter, IDLE_SECONDS)
        pipeline.xrange(group.stream, min=f"({since}-0", count=count)
    answers = await pipeline.execute()
    return [
        _reading(int(answers[2 * at]), answers[2 * at + 1], since, count)
        for at, (_, since) in enumerate(positions)
    ]


def _reading(current: int, entries: Sequence[Any], since: int, count: int) -> Reading:
    events: list[Event] = []
    for name, fields in entries:
        seq = int(name.partition(b"-")[0])
        if seq != since + 1:
            return Reading(events=(), seq=current, is_gap=True)
        text = f'{{"v":1,"seq":{seq},{fields[b"e"].decode()[1:]}'
        events.append(Event(seq, Route.parse(fields[b"r"].decode()), text))
        since = seq
    has_more = len(entries) == count and since < current
    if since != current and not has_more:
        return Reading(events=(), seq=current, is_gap=True)
    return Reading(events=events, seq=since, has_more=has_more)


class Link:
    """One connection for commands and one that hears doorbells; both end together."""

    def __init__(self) -> None:
        self.client = redis.open_async(retries=0)
        self._ears = redis.open_async(read_seconds=None, retries=0)
        self._pubsub = self._ears.pubsub()
        self._confirmed: dict[str, asyncio.Event] = {}

    async def open(self, channels: Iterable[str]) -> None:
        await self._pubsub.subscribe(redis.key("events-bell"), *channels)

    async def subscribe(self, channel: str) -> None:
        """Return when the server has confirmed; `next_bell` has to be awaited meanwhile."""
        confirmed = self._confirmed.setdefault(channel, asyncio.Event())
        await self._pubsub.subscribe(channel)
        await confirmed.wait()

    async def unsubscribe(self, channel: str) -> None:
        self._confirmed.pop(channel, None)
        await self._pubsub.unsubscribe(channel)

    async def next_bell(self) -> str:
        """Return the channel of the next message."""
        while True:
            message = await self._pubsub.get_message(timeout=None)
            if message is None:
                continue
            channel = message["channel"].decode()
            if message["type"] == "message":
                return str(channel)
            if message["type"] == "subscribe" and channel in self._confirmed:
                self._confirmed[channel].set()

    async def close(self) -> None:
        for part in (self._pubsub, self._ears, self.client):
            await part.aclose()
