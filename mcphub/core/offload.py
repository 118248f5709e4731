"""DatabaseThreads: database work of an event loop, on a few threads of its own.

The ORM blocks and its connections belong to threads, so no query ever runs on the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

P = ParamSpec("P")
T = TypeVar("T")

CLOSE_SECONDS = 2.0


class DatabaseThreads:
    """A small pool; each job starts and ends with Django's check for old connections."""

    def __init__(self, *, name: str, threads: int = 4) -> None:
        self._size = threads
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread and return its answer. A cancelled caller does not stop it."""
        job = self._pool.submit(_guarded, partial(work, *args, **kwargs))
        return await asyncio.shield(asyncio.wrap_future(job))

    def close(self) -> None:
        """End the threads and the database connections they hold; waits for running jobs."""
        together = threading.Barrier(self._size)
        for _ in range(self._size):
            self._pool.submit(_leave, together)
        self._pool.shutdown(wait=True)


def _guarded(work: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()


def _leave(together: threading.Barrier) -> None:
    """Close this thread's connections; the barrier makes every thread take one such job."""
    try:
        together.wait(CLOSE_SECONDS)
    except threading.BrokenBarrierError:
        return
    finally:
        connections.close_all()
