"""The reading side of event streams: one feed per event loop serves any number of listeners.

A feed reads each stream once for all who listen to it, when its doorbell rings and at least every
five seconds. What cannot be handed out without a hole is replaced by a resync: after it, the
listener's client reads REST. Redis lost means a resync for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from redis.exceptions import RedisError

from mcphub.core import redis
from mcphub.core.errors import UnavailableError
from mcphub.core.event_link import Event, Link, Reading, read
from mcphub.core.event_stream import EventGroup, Route
from mcphub.core.per_loop import PerLoop

POLL_SECONDS = 5.0
OPEN_SECONDS = 3.0
GROUPS_PER_READ = 50
BUFFER_BYTES = 256 << 10
NEWEST = 1 << 62
"""A position that no stream reaches: reading from it tells the newest."""
BACKOFF_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a listener hands out: events in order, or the position that a resync leads to."""

    events: Sequence[Event] = ()
    resync_at: int | None = None


class Listener:
    """One socket's view of its group's stream; made by `EventFeed.listen`, ended by `leave`."""

    def __init__(self, stream: _Stream, feed: EventFeed) -> None:
        self.accepts: Callable[[Route], bool] = _nothing
        """Which events are wanted; decided when they come in, so that others cost no memory."""
        self._stream = stream
        self._feed = feed
        self._buffer: deque[Event] = deque()
        self._bytes = 0
        self._floor = 0
        self._replay: tuple[int, int] | None = None
        self._is_lost = False
        self._is_tracing = False
        self._ready = asyncio.Event()

    @property
    def seq(self) -> int:
        """The number of the newest event of the group that this process has read."""
        return self._stream.seq

    @property
    def position(self) -> int:
        """Where this listener goes on: what it is handed next has a higher number."""
        if self._replay is not None:
            return self._replay[0]
        return self._buffer[0].seq - 1 if self._buffer else self._stream.seq

    async def take(self) -> Batch:
        """Wait for events, or for a resync; bounded memory however slowly it is called."""
        while True:
            if self._replay is not None:
                batch = await self._next_replayed(*self._replay)
                if batch is not None:
                    return batch
            elif self._is_lost:
                await self._stream.is_open.wait()
                self._is_lost = False
                return Batch(resync_at=self.seq)
            elif self._buffer:
                events = tuple(self._buffer)
                self._buffer.clear()
                self._bytes = 0
                return Batch(events=events)
            else:
                self._ready.clear()
                await self._ready.wait()

    def replay(self, since: int) -> None:
        """Hand out what followed `since` before anything new; a resync if that is not known."""
        self._buffer.clear()
        self._bytes = 0
        self._floor = max(since, self.seq)
        self._replay = (since, self.seq)
        self._ready.set()

    async def trace(self, *, is_wanted: bool) -> None:
        """Say that `trace.message` events are to be published for this group, or no longer."""
        if is_wanted != self._is_tracing:
            self._is_tracing = is_wanted
            self._stream.tracing += 1 if is_wanted else -1
            await self._feed.subscribe_traces(self._stream)

    def offer(self, events: Iterable[Event]) -> None:
        """Take in what the feed has read; who is behind by more than fits gets a resync.

        One reading always fits, so whoever keeps up misses nothing. The texts are shared by all
        listeners of the group.
        """
        if self._is_lost:
            return
        is_behind = bool(self._buffer)
        for event in events:
            if event.seq > self._floor and self.accepts(event.route):
                self._buffer.append(event)
                self._bytes += len(event.text)
        if is_behind and self._bytes > BUFFER_BYTES:
            self.lose()
        elif self._buffer:
            self._ready.set()

    def lose(self) -> None:
        """Note that events are missing."""
        self._buffer.clear()
        self._bytes = 0
        self._floor = 0
        self._replay = None
        self._is_lost = True
        self._ready.set()

    async def _next_replayed(self, since: int, end: int) -> Batch | None:
        reading = await self._feed.read_once(self._stream.group, since)
        if self._replay != (since, end):
            return None
        if reading is None or reading.is_gap:
            self.lose()
            return None
        self._replay = (reading.seq, end) if reading.has_more and reading.seq < end else None
        events = [e for e in reading.events if e.seq <= end and self.accepts(e.route)]
        return Batch(events=events) if events else None


def _nothing(route: Route) -> bool:
    return False


class _Stream:
    """One group in this process: the position that everybody was handed everything up to."""

    def __init__(self, group: EventGroup) -> None:
        self.group = group
        self.seq = NEWEST
        self.listeners: set[Listener] = set()
        self.tracing = 0
        self.is_open = asyncio.Event()

    def deliver(self, reading: Reading) -> None:
        is_start = self.seq == NEWEST
        self.seq = reading.seq
        self.is_open.set()
        if is_start:
            return
        for listener in self.listeners:
            if reading.is_gap:
                listener.lose()
            else:
                listener.offer(reading.events)


class EventFeed:
    """Reads the streams of one event loop's listeners; runs while there are any."""

    def __init__(self) -> None:
        self._streams: dict[EventGroup, _Stream] = {}
        self._by_bell: dict[str, _Stream] = {}
        self._rung: set[_Stream] = set()
        self._wake = asyncio.Event()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None

    async def listen(self, group: EventGroup) -> Listener:
        """Return a listener that starts at the newest event. Raises UnavailableError."""
        stream = self._streams.get(group)
        if stream is None:
            stream = self._streams[group] = self._by_bell[group.doorbell] = _Stream(group)
        listener = Listener(stream, self)
        stream.listeners.add(listener)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._open(stream)
        except redis.AWAY as exc:
            await self.leave(listener)
            raise UnavailableError("Events are not available; try again.", retry_after=1.0) from exc
        return listener

    async def leave(self, listener: Listener) -> None:
        """End a listener; with the last one the feed's task and connections end too."""
        stream = self._streams.get(listener._stream.group)  # noqa: SLF001  (its maker)
        if stream is None or listener not in stream.listeners:
            return
        await listener.trace(is_wanted=False)
        stream.listeners.discard(listener)
        if not stream.listeners:
            del self._streams[stream.group], self._by_bell[stream.group.doorbell]
            self._rung.discard(stream)
            await self._quietly(stream.group.doorbell)
        if not self._streams and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])

    async def subscribe_traces(self, stream: _Stream) -> None:
        """Make this process count, or no longer, as a listener for the group's traces."""
        if self._link is None:
            return
        channel = stream.group.trace_channel
        if not stream.tracing:
            await self._quietly(channel)
            return
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._link.subscribe(channel)
        except redis.AWAY:
            logger.warning("trace events are late: Redis does not answer")

    async def read_once(self, group: EventGroup, since: int) -> Reading | None:
        """Read for a replay; None without Redis."""
        if self._link is None:
            return None
        try:
            return (await read(self._link.client, [(group, since)]))[0]
        except redis.AWAY:
            return None

    async def _open(self, stream: _Stream) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="event feed")
        elif self._link is not None and not stream.is_open.is_set():
            await self._link.subscribe(stream.group.doorbell)
            self._ring(stream)
        await stream.is_open.wait()

    async def _quietly(self, channel: str) -> None:
        try:
            if self._link is not None:
                await self._link.unsubscribe(channel)
        except redis.AWAY:
            logger.debug("unsubscribe failed; the connection is gone anyway")

    def _ring(self, stream: _Stream) -> None:
        self._rung.add(stream)
        self._wake.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            link = Link()
            try:
                await self._connect(link)
                failures = 0
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._hear(link))
                    tasks.create_task(self._read(link))
            except* (RedisError, OSError) as group:
                failures = min(failures + 1, len(BACKOFF_SECONDS))
                logger.warning("event feed lost Redis: %s", type(group.exceptions[0]).__name__)
            finally:
                self._link = None
                with suppress(RedisError, OSError):
                    await link.close()
            await asyncio.sleep(BACKOFF_SECONDS[failures - 1] * random.uniform(0.5, 1.0))  # noqa: S311  (jitter)

    async def _connect(self, link: Link) -> None:
        channels = self._channels()
        await link.open(channels)
        self._link = link
        self._lose_all()
        came_meanwhile = [name for name in self._channels() if name not in channels]
        await link.open(came_meanwhile)

    def _channels(self) -> list[str]:
        traced = [s.group.trace_channel for s in self._streams.values() if s.tracing]
        return [*self._by_bell, *traced]

    def _lose_all(self) -> None:
        """After Redis was away nobody knows what was missed: everybody reads REST."""
        for stream in self._streams.values():
            for listener in stream.listeners if stream.is_open.is_set() else ():
                listener.lose()
            stream.is_open.clear()
            stream.seq = NEWEST
            self._ring(stream)

    async def _hear(self, link: Link) -> None:
        while True:
            stream = self._by_bell.get(await link.next_bell())
            if stream is not None:
                self._ring(stream)

    async def _read(self, link: Link) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                self._rung.update(self._streams.values())
            self._wake.clear()
            due = [self._rung.pop() for _ in range(min(GROUPS_PER_READ, len(self._rung)))]
            positions = [(stream.group, stream.seq) for stream in due]
            readings = await read(link.client, positions) if due else []
            for stream, reading in zip(due, readings, strict=True):
                stream.deliver(reading)
                if reading.has_more:
                    self._rung.add(stream)
            if self._rung:
                self._wake.set()


feed = PerLoop(EventFeed)
"""`feed()` is the running loop's own."""
