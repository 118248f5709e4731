"""Root changes: a client's roots are others now, and the server that asks for them hears so.

Of a storm the first is told at once, and the rest as one after each PERIOD. In 2026-07-28 nobody
says so: a server asks for roots when it needs them.
"""

from __future__ import annotations

import asyncio
import logging
import uuid

from connectors.queue import EntryKind, LaneEntry, lane_writer
from connectors.selectors import ConnectionView
from connectors.server_spec import Era, Relay
from connectors.upstream.host import SessionHost
from mcphub.core.errors import HubError

METHOD = "notifications/roots/list_changed"
PERIOD = 1.0
NOTIFY_SECONDS = 10.0

logger = logging.getLogger(__name__)


def ring(connection: ConnectionView) -> None:
    """Have the server of a connection told soon; web side. Nothing when nobody holds it."""
    if connection.held_by:
        entry = LaneEntry(kind=EntryKind.ROOTS, id=connection.id)
        lane_writer().ring(connection.held_by, entry)


class RootChanges:
    """The worker's side; runs on the session host's loop."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._due: set[uuid.UUID] = set()
        self._busy: set[uuid.UUID] = set()

    def note(self, connection_id: uuid.UUID) -> None:
        """Tell a server now, or at the end of the period that runs."""
        self._due.add(connection_id)
        if connection_id not in self._busy:
            self._busy.add(connection_id)
            self._host.spawn(self._run(connection_id), name=f"roots {connection_id}")

    async def _run(self, connection_id: uuid.UUID) -> None:
        try:
            while connection_id in self._due:
                self._due.discard(connection_id)
                await self._tell(connection_id)
                await asyncio.sleep(PERIOD)
        finally:
            self._busy.discard(connection_id)

    async def _tell(self, connection_id: uuid.UUID) -> None:
        """Notify a server to which roots were declared; one that is away asks again anyway."""
        session, key = self._host.session(connection_id), self._host.key_of(connection_id)
        if session is None or key is None or session.opened.era is not Era.LEGACY:
            return
        if Relay.ROOTS not in key.spec.relays:
            return
        try:
            async with asyncio.timeout(NOTIFY_SECONDS):
                await session.notify(METHOD, {})
        except (HubError, TimeoutError):
            logger.info("root change not told connection=%s", connection_id)
