"""How long a request waits for the database before it says that it is away, or that we are busy.

What is late may be a database that hangs, or a queue of our own before one that is well: the watch
tells which. An outage is told soon; a burst waits for its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcphub.core.database_watch import watch
from mcphub.core.errors import BusyError, UnavailableError

DATABASE_SECONDS = 1.5
BUSY_SECONDS = 10.0
LOOK_SECONDS = 0.1


@asynccontextmanager
async def database_patience() -> AsyncIterator[None]:
    """Bound what asks the database; the question itself goes on.

    Raises UnavailableError when the database is away, BusyError when only its turn did not come.
    """
    try:
        async with asyncio.timeout(BUSY_SECONDS) as bound:
            looks = _Looks(bound)
            try:
                yield
            finally:
                looks.end()
    except TimeoutError as exc:
        if looks.is_away:
            raise UnavailableError("The database is away.", retry_after=1.0) from exc
        raise BusyError from exc


class _Looks:
    """Ends a timeout early once the watch has seen the database away."""

    def __init__(self, bound: asyncio.Timeout) -> None:
        self.is_away = False
        self._bound = bound
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(DATABASE_SECONDS, self._look)

    def end(self) -> None:
        self._next.cancel()

    def _look(self) -> None:
        self.is_away = watch.has_seen_it_away()
        if self.is_away:
            self._bound.reschedule(self._loop.time())
        else:
            self._next = self._loop.call_later(LOOK_SECONDS, self._look)
