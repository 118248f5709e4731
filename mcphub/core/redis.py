"""Clients of the Redis (or Valkey) that ephemeral state lives in, and the names of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

if TYPE_CHECKING:
    from redis.client import Redis as RedisType

CONNECT_SECONDS = 2.0


def key(*parts: str) -> str:
    """Return a key under the configured prefix: `mcphub:lane:w1`."""
    return ":".join((settings.REDIS_PREFIX, *parts))


def open_sync(*, read_seconds: float | None = 3.0) -> RedisType:
    """Return a new client with its own pool, for use in threads."""
    return Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=read_seconds,
        health_check_interval=15,
    )


def open_async(*, read_seconds: float | None = 3.0) -> AsyncRedis:
    """Return a new client with its own pool; it belongs to the event loop that uses it first.

    `read_seconds` None is for blocking reads (XREAD BLOCK, pub/sub), which bound themselves.
    """
    return AsyncRedis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=read_seconds,
        health_check_interval=15,
    )
