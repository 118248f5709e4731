"""How long to wait before a stream is opened again: never a tight loop."""

from __future__ import annotations

import random

MIN_SECONDS = 1.0
MAX_SECONDS = 30.0


class Pause:
    """Doubling waits between 1 s and 30 s with jitter; `reset` after a stream that was useful."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_seconds(self, retry_ms: int | None) -> float:
        """Return the next wait; a longer `retry:` of the server is honoured up to the limit."""
        wait = max(MIN_SECONDS * 2.0 ** min(self._failures, 5), (retry_ms or 0) / 1000.0)
        self._failures += 1
        spread = 1.0 + 0.2 * random.random()  # noqa: S311 (spreads load; no secret)
        return min(wait, MAX_SECONDS) * spread
