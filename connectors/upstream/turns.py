"""Turns: a stream that always has more to read must not keep the loop from everybody else."""

from __future__ import annotations

import asyncio
import time

TURN_SECONDS = 0.005


class Turns:
    """Belongs to one reader, which calls `pass_on` after each message."""

    __slots__ = ("_began",)

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def pass_on(self) -> None:
        """Let the other tasks run when this one's turn has lasted long enough."""
        if time.monotonic() - self._began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.monotonic()
