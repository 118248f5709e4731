"""Answers bursts of `list_changed` with one reading of the lists per period and connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from connectors.models import ListingKind
from connectors.services.notices import LIST_CHANGED
from connectors.upstream.host import SessionHost

Refresh = Callable[[uuid.UUID, set[ListingKind], set[ListingKind]], Awaitable[None]]
"""Reads lists of a connection; the second set are those of which the server said so."""


@dataclass(slots=True)
class _Stale:
    kinds: set[ListingKind] = field(default_factory=set)
    is_running: bool = False
    next_at: float = float("-inf")


class Refreshing:
    """Runs on the session host's loop; what comes while a period lasts is read at its end."""

    def __init__(self, host: SessionHost, refresh: Refresh, *, period: float) -> None:
        self._host = host
        self._refresh = refresh
        self._period = period
        self._stale: dict[uuid.UUID, _Stale] = {}

    def note(self, connection_id: uuid.UUID, method: str) -> None:
        """Take a notification; only those in LIST_CHANGED matter."""
        kinds = {kind for kind, changed in LIST_CHANGED.items() if changed == method}
        if not kinds:
            return
        stale = self._stale.setdefault(connection_id, _Stale())
        stale.kinds |= kinds
        if not stale.is_running:
            stale.is_running = True
            self._host.spawn(self._run(connection_id, stale), name=f"refresh {connection_id}")

    def forget(self, connection_id: uuid.UUID) -> None:
        """Read nothing more for a connection that was let go."""
        stale = self._stale.pop(connection_id, None)
        if stale is not None:
            stale.kinds.clear()

    async def _run(self, connection_id: uuid.UUID, stale: _Stale) -> None:
        loop = asyncio.get_running_loop()
        try:
            while stale.kinds:
                await asyncio.sleep(max(0.0, stale.next_at - loop.time()))
                kinds = set(stale.kinds)
                stale.kinds.clear()
                stale.next_at = loop.time() + self._period
                if kinds:
                    await self._refresh(connection_id, kinds, kinds)
        finally:
            stale.is_running = False
