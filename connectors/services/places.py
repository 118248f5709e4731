"""Places: how many calls a worker executes at once, in all and for one connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Connection:
    free: asyncio.Semaphore
    users: int = 0


class Places:
    """Bounded; who finds no free place waits in order. It belongs to one event loop."""

    def __init__(self, *, worker: int, connection: int) -> None:
        self._worker = asyncio.Semaphore(worker)
        self._each = connection
        self._connections: dict[uuid.UUID, _Connection] = {}

    @asynccontextmanager
    async def take(self, connection_id: uuid.UUID) -> AsyncIterator[None]:
        """Hold one place of the connection and one of the worker."""
        entry = self._connections.get(connection_id)
        if entry is None:
            entry = _Connection(asyncio.Semaphore(self._each))
            self._connections[connection_id] = entry
        entry.users += 1
        try:
            async with entry.free, self._worker:
                yield
        finally:
            entry.users -= 1
            if not entry.users:
                self._connections.pop(connection_id, None)
