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

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` on the thread that async code shares, on a connection that is not broken.

    Plain `sync_to_async` would keep a connection that the database has ended, and fail for ever.
    """
    return await sync_to_async(_checked)(partial(work, *args, **kwargs))


def _checked(work: Callable[[], T]) -> T:
    _close_old()
    try:
        return work()
    finally:
        _close_old()


def _close_old() -> None:
    """Close what is old or broken; inside somebody's transaction that is not ours to do."""
    if not connection.in_atomic_block:
        close_old_connections()


class DatabaseThreads:
    """A small pool; each job starts and ends with Django's check for old connections."""

    def __init__(self, *, name: str, threads: int = 4) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=name)
        self._opened: set[BaseDatabaseWrapper] = set()

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread and return its answer. A cancelled caller does not stop it."""
        job = self._pool.submit(self._guarded, partial(work, *args, **kwargs))
        return await asyncio.shield(asyncio.wrap_future(job))

    def close(self) -> None:
        """End the threads, then the database connections they held; waits for running jobs."""
        self._pool.shutdown(wait=True)
        closing = threading.Thread(target=self._close_connections)  # Django refuses it on a loop
        closing.start()
        closing.join()

    def _close_connections(self) -> None:
        for opened in self._opened:
            opened.inc_thread_sharing()  # its own thread has ended
            opened.close()
        self._opened.clear()

    def _guarded(self, work: Callable[[], T]) -> T:
        close_old_connections()
        try:
            return work()
        finally:
            self._opened.update(connections.all(initialized_only=True))
            close_old_connections()
