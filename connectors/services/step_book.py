"""Steps that sessions report, kept until the next change of state or written a moment later."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from dataclasses import dataclass, field

from connectors.services import timeline
from connectors.services.timeline import Step
from connectors.upstream.host import SessionHost
from mcphub.core.offload import DatabaseThreads

WRITE_SECONDS = 0.3


@dataclass(slots=True)
class _Page:
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=timeline.LONGEST))
    is_writing: bool = False


class StepBook:
    """Runs on the session host's loop."""

    def __init__(self, host: SessionHost, threads: DatabaseThreads) -> None:
        self._host = host
        self._threads = threads
        self._pages: dict[uuid.UUID, _Page] = {}

    def note(self, connection_id: uuid.UUID, step: Step, *, is_opening: bool) -> None:
        """Keep a step; while a connection opens, its next change of state takes it along."""
        page = self._pages.setdefault(connection_id, _Page())
        page.steps.append(step)
        if not is_opening and not page.is_writing:
            page.is_writing = True
            self._host.spawn(self._write(connection_id, page), name=f"steps {connection_id}")

    def take(self, connection_id: uuid.UUID) -> list[Step]:
        """Return what was kept and keep it no longer."""
        page = self._pages.pop(connection_id, None)
        if page is None:
            return []
        steps = list(page.steps)
        page.steps.clear()
        return steps

    async def _write(self, connection_id: uuid.UUID, page: _Page) -> None:
        await asyncio.sleep(WRITE_SECONDS)
        page.is_writing = False
        steps = list(page.steps)
        page.steps.clear()
        if steps:
            await self._threads.run(timeline.write_for, connection_id, steps)
