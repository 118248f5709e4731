"""Lanes: one Redis stream per worker. An entry is a doorbell; the row it names is the truth."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any

from django.db import transaction
from redis import Redis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from connectors.queue.pipeline import TickPipeline, execute, tick_pipeline
from mcphub.core import redis as hub_redis
from mcphub.core.per_loop import PerLoop

LANE_LENGTH = 50_000
BLOCK_MS = 2_000
READ_SECONDS = BLOCK_MS / 1000 + 3.0
READ_COUNT = 500
BACKOFF_FIRST, BACKOFF_LAST = 0.05, 1.0
SYNC_SECONDS = 0.8

logger = logging.getLogger(__name__)


class EntryKind(StrEnum):
    """`call` and `cancel` name a tool call, `input` an answered question, others a connection."""

    CALL = "call"
    CANCEL = "cancel"
    CONNECT = "connect"
    DISCONNECT = "disconnect"
    REFRESH = "refresh"
    INPUT = "input"
    WISH = "wish"
    ROOTS = "roots"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEntry:
    """What a worker is told: ids only. `connection_id` goes with `call` and `cancel`."""

    kind: EntryKind
    id: uuid.UUID
    connection_id: uuid.UUID | None = None

    def encode(self) -> str:
        where = self.connection_id.hex if self.connection_id else "-"
        return f"{self.kind.value} {self.id.hex} {where}"


def encode(entries: Iterable[LaneEntry]) -> str:
    """Return many entries as the one field of a stream entry."""
    return "\n".join(entry.encode() for entry in entries)


def decode(field: bytes) -> list[LaneEntry]:
    """Return the entries of a stream entry; what cannot be read is left out and logged."""
    entries = []
    for line in field.decode("ascii", "replace").splitlines():
        try:
            kind, call, where = line.split(" ")
            connection = None if where == "-" else uuid.UUID(where)
            entries.append(
                LaneEntry(kind=EntryKind(kind), id=uuid.UUID(call), connection_id=connection)
            )
        except ValueError:
            logger.warning("lane entry unreadable length=%d", len(line))
    return entries


def lane_of(worker: str) -> str:
    return hub_redis.key("lane", worker)


def _append(worker: str, entries: Iterable[LaneEntry]) -> tuple[Any, ...]:
    return ("XADD", lane_of(worker), "MAXLEN", "~", LANE_LENGTH, "*", "e", encode(entries))


class LaneWriter:
    """The async side of `ring`: entries of the same loop tick go as one stream entry per worker."""

    def __init__(self, pipeline: TickPipeline | None = None) -> None:
        self._pipeline = pipeline or tick_pipeline()
        self._waiting: dict[str, list[LaneEntry]] = {}

    def ring(self, worker: str, entry: LaneEntry) -> None:
        """Never blocks, never raises: when Redis is away the reaper rings again for what waits."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.setdefault(worker, []).append(entry)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for worker, entries in waiting.items():
            self._pipeline.send(*_append(worker, entries))


lane_writer: PerLoop[LaneWriter] = PerLoop(LaneWriter)


@lru_cache(maxsize=1)
def sync_client() -> Redis:
    """Return the process's client for short commands from threads: it never retries."""
    client = hub_redis.open_sync(read_seconds=SYNC_SECONDS)
    client.set_retry(Retry(NoBackoff(), 0))
    return client


def ring(worker: str, *entries: LaneEntry) -> None:
    """Ring from synchronous code, after the surrounding transaction has committed.

    A lost ring only delays (it is logged): the reaper rings again for what waits.
    """
    transaction.on_commit(partial(_ring_now, worker, entries))


def _ring_now(worker: str, entries: tuple[LaneEntry, ...]) -> None:
    try:
        execute(sync_client(), *_append(worker, entries))
    except (RedisError, OSError):
        logger.warning("lane not rung worker=%s entries=%d", worker, len(entries))


def drop_lane(worker: str) -> None:
    """Remove the lane of a worker that has ended. Raises RedisError."""
    sync_client().delete(lane_of(worker))


class LaneReader:
    """Async iterator over one worker's lane; outlives restarts of Redis.

    It always reads from the beginning and removes what it has read, so that neither a restart of
    the reader nor an emptied Redis needs a remembered position.
    """

    def __init__(self, worker: str) -> None:
        self._lane = lane_of(worker)
        # With a time limit of its own redis-py uses wait_for, which loses cancellations on 3.11
        # (python/cpython#81839); the loop below has the limit instead.
        self._client = hub_redis.open_async(read_seconds=None)
        self._client.set_retry(AsyncRetry(NoBackoff(), 0))  # the loop below has its own pace
        self._read: list[bytes] = []

    async def __aiter__(self) -> AsyncIterator[LaneEntry]:
        wait = BACKOFF_FIRST
        while not _is_cancelled():
            try:
                async with asyncio.timeout(READ_SECONDS):
                    entries = await self._next_entries()
                wait = BACKOFF_FIRST
            except hub_redis.AWAY as exc:
                logger.warning("lane unreadable, next try in %.2f s: %s", wait, type(exc).__name__)
                await asyncio.sleep(wait)
                wait = min(wait * 2, BACKOFF_LAST)
                continue
            for entry in entries:
                yield entry
        raise asyncio.CancelledError

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _next_entries(self) -> list[LaneEntry]:
        read = ("XREAD", "COUNT", READ_COUNT, "BLOCK", BLOCK_MS, "STREAMS", self._lane, "0")
        if self._read:
            pipeline = self._client.pipeline(transaction=False)
            pipeline.execute_command("XDEL", self._lane, *self._read)
            pipeline.execute_command(*read)
            _, streams = await pipeline.execute()
        else:
            streams = await execute(self._client, *read)
        self._read = []
        found: list[LaneEntry] = []
        for number, fields in _entries_of(streams):
            self._read.append(number)
            found.extend(decode(fields.get(b"e", b"")))
        return found


def _is_cancelled() -> bool:
    """Whether the running task was cancelled, even if redis-py 8.1 lost the exception."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _entries_of(streams: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the entries of the one stream that was read (RESP2 answers a list, RESP3 a map)."""
    if not streams:
        return []
    lists = streams.values() if isinstance(streams, dict) else (entry[1] for entry in streams)
    found = [entry for items in lists for entry in items]
    return [entry for part in found for entry in (part if isinstance(part, list) else [part])]
