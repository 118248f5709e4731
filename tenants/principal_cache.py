"""Principals that were looked up a moment ago, so that a hot request needs no query.

An entry lives at most TTL seconds, ends at once when a change is announced (see invalidation.py),
and entries are only used while this process listens to such announcements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tenants.principal import Principal

TTL = 5.0
MAX_ENTRIES = 20_000


@dataclass(frozen=True, slots=True)
class _Entry:
    principal: Principal
    ends: float


class PrincipalCache:
    """Keyed by a digest of what was shown, never by the secret itself; safe in threads."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}
        self._lock = threading.Lock()
        self.generation = 0
        """Counts the announcements: a look-up that overlaps one is not stored."""

    def get(self, digest: bytes) -> Principal | None:
        entry = self._entries.get(digest)
        if entry is None or entry.ends < time.monotonic():
            return None
        return entry.principal

    def put(self, digest: bytes, principal: Principal, *, seconds: float, generation: int) -> None:
        """Store, unless an announcement came after the look-up began."""
        with self._lock:
            if generation != self.generation:
                return
            if len(self._entries) >= MAX_ENTRIES:
                self._entries.clear()
            ends = time.monotonic() + min(TTL, seconds)
            self._entries[digest] = _Entry(principal, ends)

    def forget(self, concerns: Callable[[Principal], bool]) -> None:
        """Drop the entries that a change concerns."""
        with self._lock:
            self.generation += 1
            self._entries = {
                digest: entry
                for digest, entry in self._entries.items()
                if not concerns(entry.principal)
            }
