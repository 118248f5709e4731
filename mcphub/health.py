"""`/livez`: this process serves. `/readyz`: the parts that it needs answer, named one by one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from django.db import Error as DatabaseError
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from redis import RedisError

from connectors import queue
from mcphub.core import redis
from mcphub.core.errors import UnavailableError
from mcphub.core.offload import in_thread

logger = logging.getLogger(__name__)

PROBE_SECONDS = 2.0

OK = "ok"


async def livez(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


async def readyz(_request: HttpRequest) -> JsonResponse:
    """Name what is degraded; 503 only when nothing can be served.

    Without Redis, workers or beat reading still works, so a load balancer keeps this process.
    """
    database, broker, workers, beat = await asyncio.gather(
        probe(ask_database), probe(ask_redis), probe(count_workers), probe(queue.is_beating)
    )
    parts = {
        "database": OK if database else "unreachable",
        "redis": OK if broker else "unreachable",
        "workers": OK if workers else "missing",
        "beat": OK if beat else "missing",
    }
    is_ready = all(state == OK for state in parts.values())
    status = OK if is_ready else "degraded" if database else "unavailable"
    body = {"status": status, "parts": parts, "workers": workers or 0}
    return JsonResponse(body, status=200 if database else 503)


async def probe(ask: Callable[[], Awaitable[int]]) -> int | None:
    """Return the answer; None when there is none within PROBE_SECONDS."""
    try:
        return await asyncio.wait_for(ask(), PROBE_SECONDS)
    except (DatabaseError, RedisError, UnavailableError, OSError, TimeoutError) as exc:
        logger.warning("not ready probe=%s error=%s", ask.__name__, type(exc).__name__)
        return None


async def ask_database() -> bool:
    return await in_thread(select_one)


def select_one() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() is not None


async def ask_redis() -> bool:
    async with redis.open_async(read_seconds=PROBE_SECONDS) as client:
        return bool(await client.ping())


async def count_workers() -> int:
    return sum(1 for load in await queue.live_workers() if not load.is_draining)
