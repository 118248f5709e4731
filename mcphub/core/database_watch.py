"""Whether the database answers, known without asking it: one thread looks twice a second.

A database that hangs (a failover, a lost network) would hold every request that asks it; who looks
here first can say at once that it is away.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, connection

LOOK_SECONDS = 0.5
LATE_SECONDS = 1.0


class DatabaseWatch:
    """The watch of this process; it starts with the first question, after any fork."""

    def __init__(self, look: Callable[[], bool] | None = None) -> None:
        self._look = look or _answers
        self._ended = threading.Event()
        self._pid = 0
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._has_failed = False

    def is_away(self) -> bool:
        """Whether the last look failed, or the one under way is late."""
        if self._pid != os.getpid():
            self._start()
        return self.has_seen_it_away()

    def has_seen_it_away(self) -> bool:
        """As `is_away`, but False where nothing is watched."""
        asked_at = self._asked_at
        return self._has_failed or (
            asked_at is not None and time.monotonic() - asked_at > LATE_SECONDS
        )

    def close(self) -> None:
        """End the thread at its next turn."""
        self._ended.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._asked_at, self._has_failed = None, False
                threading.Thread(target=self._run, name="database watch", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._asked_at = time.monotonic()
            self._has_failed = not self._look()
            self._asked_at = None


def _answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError:
        connection.close()
        return False
    return True


watch = DatabaseWatch()
