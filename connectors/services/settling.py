"""Waiting for connections to settle: one query per tick for all who wait, no thread per waiter.

Only what the asker's row shows: who waits has passed the tenant gate.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from functools import lru_cache

from connectors.models import Connection
from connectors.states import State
from mcphub.core.clock import Deadline
from mcphub.core.offload import DatabaseThreads
from mcphub.core.per_loop import PerLoop

TICK_SECONDS = 0.1
MOVING = (State.CONNECTING.value, State.AUTH_PENDING.value)


@lru_cache(maxsize=1)
def _threads() -> DatabaseThreads:
    return DatabaseThreads(name="settling", threads=1)


def close() -> None:
    """End the thread with its database connection."""
    if _threads.cache_info().currsize:
        _threads().close()
        _threads.cache_clear()


class Settling:
    """The waiters of one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[uuid.UUID, set[asyncio.Future[None]]] = {}
        self._ticker: asyncio.Task[None] | None = None

    async def wait(self, connection_id: uuid.UUID, seconds: float) -> bool:
        """Return True when the connection is not on its way any more, or has failed once."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(connection_id, set()).add(future)
        if self._ticker is None or self._ticker.done():
            self._ticker = loop.create_task(self._tick())
        try:
            await asyncio.wait({future}, timeout=seconds)
            return future.done()
        finally:
            waiters = self._waiting.get(connection_id, set())
            waiters.discard(future)
            if not waiters:
                self._waiting.pop(connection_id, None)

    async def _tick(self) -> None:
        while self._waiting:
            for connection_id in await _threads().run(_settled, list(self._waiting)):
                for future in self._waiting.get(connection_id, set()):
                    if not future.done():
                        future.set_result(None)
            await asyncio.sleep(TICK_SECONDS)


settling: PerLoop[Settling] = PerLoop(Settling)


async def until(check: Callable[[], bool], seconds: float) -> bool:
    """Return True as soon as `check`, which runs in a thread, does; False when time is over."""
    deadline = Deadline.after(seconds)
    while not deadline.is_over:
        if await _threads().run(check):
            return True
        await asyncio.sleep(TICK_SECONDS)
    return False


def _settled(ids: list[uuid.UUID]) -> set[uuid.UUID]:
    rows = Connection.unscoped.filter(pk__in=ids, state__in=MOVING, attempt=0)
    return set(ids) - set(rows.values_list("pk", flat=True))
