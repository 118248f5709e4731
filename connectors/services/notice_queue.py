"""Notices of servers that wait to be passed on: the newest of each kind, bounded (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from mcphub.core.types import JSONObject

MESSAGE = "notifications/message"
MOST_WAITING = 512

NAMED_BY = {
    "notifications/resources/updated": "uri",
    "notifications/tasks/status": "taskId",
    "notifications/tasks": "taskId",
    "notifications/elicitation/complete": "elicitationId",
}
"""Which member of its params says what a notification is about: of each, the newest counts."""
LIST_CHANGES = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
        "notifications/prompts/list_changed",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What a server said to nobody in particular, or the hub said about its connection."""

    connection_id: uuid.UUID
    method: str
    params: JSONObject = field(default_factory=dict)


class NoticeQueue:
    """What is put in again takes the place of the one that waits; of too many the oldest go."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: dict[object, Notice] = {}
        self._number = 0
        self._dropped = 0

    def put(self, notice: Notice) -> None:
        key = self._key_of(notice)
        self._waiting.pop(key, None)
        if len(self._waiting) >= self._most:
            self._drop_one()
        self._waiting[key] = notice

    def drain(self) -> tuple[Sequence[Notice], int]:
        """Return what waits, in order, and how many were dropped before; empties both."""
        drained = tuple(self._waiting.values()), self._dropped
        self._waiting, self._dropped = {}, 0
        return drained

    def count_dropped(self, count: int) -> None:
        """Add what was dropped on the way here."""
        self._dropped += count

    def __len__(self) -> int:
        return len(self._waiting)

    def _drop_one(self) -> None:
        """Drop the oldest log message, which nothing follows from; else the oldest of all."""
        first = next(iter(self._waiting))
        messages = (key for key, each in self._waiting.items() if each.method == MESSAGE)
        del self._waiting[next(messages, first)]
        self._dropped += 1

    def _key_of(self, notice: Notice) -> object:
        name = NAMED_BY.get(notice.method)
        if name is not None and isinstance(notice.params.get(name), str):
            return (notice.connection_id, notice.method, notice.params[name])
        if notice.method in LIST_CHANGES or not notice.method.startswith("notifications/"):
            return (notice.connection_id, notice.method)
        self._number += 1
        return self._number
