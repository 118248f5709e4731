"""Quotas of calls: one round trip reserves a place under every limit that applies.

A place is a member of a sorted set scored with the call's deadline, so that a place nobody gives
back frees itself; a question to a person moves it. The rate is a GCRA bucket that holds one
minute's worth of calls.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from redis.exceptions import RedisError

from connectors.queue import TickPipeline, live_workers_sync, tick_pipeline
from connectors.queue.lanes import sync_client
from mcphub.core import redis as hub_redis
from mcphub.core.errors import LimitError, NotFoundError, UnavailableError
from mcphub.core.offload import DatabaseThreads
from mcphub.core.patience import database_patience
from tenants.models import Tenant

LIMITS_SECONDS = 10.0
GRACE_MS = 60_000

logger = logging.getLogger(__name__)

# KEYS: rate, places…   ARGV: member, expires, calls per minute, one limit for each place key.
# Answers {0} or {number of the key that is full, milliseconds to wait}.
_RESERVE = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  if redis.call('ZCARD', KEYS[i]) >= tonumber(ARGV[i + 2]) then return {i, 1000} end
end
local rate = tonumber(ARGV[3])
if rate > 0 then
  local at = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
  local ahead = at + 60000 / rate - now
  if ahead > 60000 then return {1, math.ceil(ahead - 60000)} end
  redis.call('SET', KEYS[1], at + 60000 / rate, 'PX', 60000)
end
for i = 2, #KEYS do
  redis.call('ZADD', KEYS[i], ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[i], 86400000)
end
return {0, 0}
"""

_NAMES = ("calls_per_minute", "tenant_calls", "connection_calls", "worker_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLimits:
    """`calls_per_minute` 0: no limit."""

    max_concurrent_calls: int
    calls_per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a call takes up; `worker` is where it was rung first."""

    call_id: uuid.UUID
    tenant_id: uuid.UUID
    connection_id: uuid.UUID
    worker: str

    @property
    def keys(self) -> tuple[str, str, str]:
        return (
            hub_redis.key("calls", "tenant", self.tenant_id.hex),
            hub_redis.key("calls", "connection", self.connection_id.hex),
            hub_redis.key("calls", "worker", self.worker),
        )


async def reserve(place: Place, deadline_at: datetime) -> None:
    """Take a place for a call. Raises LimitError, and UnavailableError when Redis is away."""
    limits = await _tenants.limits(place.tenant_id)
    rate_key = hub_redis.key("calls", "rate", place.tenant_id.hex)
    keys = (rate_key, *place.keys)
    full, wait_ms = await tick_pipeline().call(
        "EVAL",
        _RESERVE,
        len(keys),
        *keys,
        place.call_id.hex,
        int(deadline_at.timestamp() * 1000) + GRACE_MS,
        limits.calls_per_minute,
        limits.max_concurrent_calls,
        settings.CONNECTION_MAX_CALLS,
        settings.WORKER_MAX_CALLS,
    )
    if full:
        raise LimitError(
            "Too many calls.", retry_after=wait_ms / 1000, extra={"limit": _NAMES[full - 1]}
        )


def prolong(place: Place) -> None:
    """Keep a place while somebody is asked, whose time is not the call's; never blocks or raises.

    `XX`: a place that was given back meanwhile stays free.
    """
    until = round((time.time() + settings.INPUT_EXPIRY) * 1000) + GRACE_MS
    for key in place.keys:
        tick_pipeline().send("ZADD", key, "XX", "GT", until, place.call_id.hex)


def give_back(place: Place, pipeline: TickPipeline | None = None) -> None:
    """Free a call's place; never blocks, never raises."""
    pipeline = pipeline or tick_pipeline()
    for command in give_back_commands(place):
        pipeline.send(*command)


def give_back_commands(place: Place) -> Sequence[tuple[Any, ...]]:
    return [("ZREM", key, place.call_id.hex) for key in place.keys]


def give_back_now(place: Place) -> None:
    """As `give_back`, from synchronous code."""
    try:
        pipeline = sync_client().pipeline(transaction=False)
        for key in (*place.keys, *_keys_of_workers(place)):
            pipeline.zrem(key, place.call_id.hex)
        pipeline.execute()
    except (RedisError, OSError, UnavailableError):
        logger.warning("place not given back call=%s", place.call_id)


def _keys_of_workers(place: Place) -> list[str]:
    """Return every worker's key for a call that nobody had claimed: the row does not say whose."""
    if place.worker:
        return []
    return [hub_redis.key("calls", "worker", load.worker) for load in live_workers_sync()]


class _Tenants:
    """The limits of tenants, at most ten seconds old."""

    def __init__(self) -> None:
        self._threads: DatabaseThreads | None = None
        self._known: dict[uuid.UUID, tuple[float, TenantLimits]] = {}

    async def limits(self, tenant_id: uuid.UUID) -> TenantLimits:
        known = self._fresh(tenant_id)
        if known is not None:
            return known
        if self._threads is None:
            self._threads = DatabaseThreads(name="quotas", threads=1)
        try:
            async with database_patience():
                return await self._threads.run(self._fresh_or_read, tenant_id)
        except DatabaseError as exc:
            raise UnavailableError("The database is away.", retry_after=1.0) from exc

    def _fresh(self, tenant_id: uuid.UUID) -> TenantLimits | None:
        at, known = self._known.get(tenant_id, (0.0, None))
        return known if time.monotonic() - at < LIMITS_SECONDS else None

    def _fresh_or_read(self, tenant_id: uuid.UUID) -> TenantLimits:
        """Look once more: of a burst, the first one in this thread has read for all."""
        limits = self._fresh(tenant_id)
        if limits is None:
            limits = _read_limits(tenant_id)
            self._known[tenant_id] = (time.monotonic(), limits)
        return limits

    def close(self) -> None:
        self._known.clear()
        if self._threads is not None:
            self._threads.close()
            self._threads = None


def _read_limits(tenant_id: uuid.UUID) -> TenantLimits:
    row = (
        Tenant.objects.filter(pk=tenant_id, is_active=True)
        .values_list("max_concurrent_calls", "calls_per_minute")
        .first()
    )
    if row is None:
        raise NotFoundError
    return TenantLimits(max_concurrent_calls=row[0], calls_per_minute=row[1])


_tenants = _Tenants()


def close() -> None:
    """Forget what is known of tenants and end the thread that reads it."""
    _tenants.close()
