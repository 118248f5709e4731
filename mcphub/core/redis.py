"""Clients of the Redis (or Valkey) that ephemeral state lives in, and the names of its keys."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.retry import Retry

if TYPE_CHECKING:
    from redis.client import Redis as RedisType

AWAY = (RedisError, OSError, TimeoutError, RuntimeError)
"""What an async client raises while Redis is away; RuntimeError is uvloop's word for a connection
that was lost between two writes, which redis-py does not translate."""
CONNECT_SECONDS = 2.0
READ_SECONDS = 3.0
SHORT_SECONDS = 0.8
"""What a request of a user waits for Redis before it goes on without."""


def key(*parts: str) -> str:
    """Return a key under the configured prefix: `mcphub:lane:w1`."""
    return ":".join((settings.REDIS_PREFIX, *parts))


def open_sync(
    *, read_seconds: float | None = READ_SECONDS, retries: int | None = None
) -> RedisType:
    """Return a new client with its own pool, for use in threads.

    `retries` replaces the library's three tries with back-off: that many more, at once. 0 is for
    commands that must not be executed twice.
    """
    policy: dict[str, Any] = {} if retries is None else {"retry": Retry(NoBackoff(), retries)}
    return Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=read_seconds,
        health_check_interval=15,
        **policy,
    )


def open_async(
    *, read_seconds: float | None = READ_SECONDS, retries: int | None = None
) -> AsyncRedis:
    """Return a new client with its own pool; it belongs to the event loop that uses it first.

    `read_seconds` None is for blocking reads (XREAD BLOCK, pub/sub), which bound themselves.
    """
    policy: dict[str, Any] = {} if retries is None else {"retry": AsyncRetry(NoBackoff(), retries)}
    return AsyncRedis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=read_seconds,
        health_check_interval=15,
        **policy,
    )


@cache
def shared() -> RedisType:
    """Return this process's client for short reads from any thread.

    A lost connection is replaced once, at once; a Redis that hangs is waited for only once.
    """
    return Redis.from_url(
        settings.REDIS_URL,
        socket_connect_timeout=SHORT_SECONDS,
        socket_timeout=SHORT_SECONDS,
        health_check_interval=15,
        retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    )
