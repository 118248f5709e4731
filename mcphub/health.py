"""`/livez`: this process serves. `/readyz`: the parts that it needs answer, named one by one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from redis import RedisError

from mcphub.core import redis

logger = logging.getLogger(__name__)

PROBE_SECONDS = 2.0


async def livez(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


async def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when every part answers, 503 with the parts that do not."""
    names = ("database", "redis", "workers")
    states = await asyncio.gather(probe(ask_database), probe(ask_redis), probe(ask_workers))
    parts = dict(zip(names, states, strict=True))
    is_ready = all(state == "ok" for state in states)
    body = {"status": "ok" if is_ready else "degraded", "parts": parts}
    return JsonResponse(body, status=200 if is_ready else 503)


async def probe(ask: Callable[[], Awaitable[bool]]) -> str:
    """Return "ok", "missing" or "unreachable"; never takes longer than PROBE_SECONDS."""
    try:
        is_there = await asyncio.wait_for(ask(), PROBE_SECONDS)
    except (DatabaseError, RedisError, OSError, TimeoutError) as exc:
        logger.warning("not ready part=%s error=%s", ask.__name__, type(exc).__name__)
        return "unreachable"
    return "ok" if is_there else "missing"


async def ask_database() -> bool:
    return await sync_to_async(select_one)()


def select_one() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() is not None


async def ask_redis() -> bool:
    async with redis.open_async(read_seconds=PROBE_SECONDS) as client:
        return bool(await client.ping())


async def ask_workers() -> bool:
    """Whether any worker has said lately that it is alive (see `connectors.queue`)."""
    async with redis.open_async(read_seconds=PROBE_SECONDS) as client:
        async for _ in client.scan_iter(match=redis.key("worker", "*"), count=1000):
            return True
    return False
