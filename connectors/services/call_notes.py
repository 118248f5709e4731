"""Call notes: what a server says during a call, on its way from the worker to who waits for it.

Notes are numbered, so that a batch which travels twice is told once and a gap is counted. They are
bounded: of a flood the oldest go, and neither the worker nor the call waits for a slow Redis.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from connectors.queue import TickPipeline
from connectors.services.ledger_moves import Claimed
from connectors.services.outcomes import reply_channel
from connectors.services.relays import RelayTerms
from mcphub.core.errors import UnavailableError
from mcphub.core.types import JSONObject

MARK = b"note\n"
MOST_WAITING = 256
BYTES_WAITING = 1 << 20

Note = tuple[str, JSONObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Notes of one attempt of a call; `first` is the number of the first one."""

    call_id: uuid.UUID
    attempt: int
    first: int
    notes: Sequence[Note]

    @classmethod
    def decode(cls, message: bytes) -> Batch:
        """Read what `encode` wrote. Raises ValueError, KeyError."""
        _, head, body = message.split(b"\n", 2)
        told = json.loads(head)
        return cls(
            call_id=uuid.UUID(hex=told["id"]),
            attempt=told["attempt"],
            first=told["first"],
            notes=[(method, params) for method, params in json.loads(body)],
        )


def encode(call_id: uuid.UUID, attempt: int, first: int, notes: Sequence[bytes]) -> bytes:
    head = {"id": call_id.hex, "attempt": attempt, "first": first}
    return MARK + json.dumps(head).encode() + b"\n[" + b",".join(notes) + b"]"


class CallNotes:
    """The worker's side: the notes of one attempt that are still to be published."""

    def __init__(self, call: Claimed, pipeline: TickPipeline) -> None:
        self.reply_to = call.reply_to
        self._call_id = call.id
        self._attempt = call.attempt
        self._pipeline = pipeline
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._next = 0
        """Number of the oldest note that waits."""
        self._sender: asyncio.Task[None] | None = None

    def take(self, method: str, params: JSONObject) -> None:
        """Keep a note until it can leave; never blocks."""
        note = json.dumps([method, params]).encode()
        self._waiting.append(note)
        self._size += len(note)
        while len(self._waiting) > MOST_WAITING or self._size > BYTES_WAITING:
            self._size -= len(self._waiting.popleft())
            self._next += 1
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def flush(self) -> None:
        """Wait until what was taken has left, or was lost because Redis is away."""
        if self._sender is not None and not self._sender.done():
            await asyncio.wait({self._sender})

    async def _send(self) -> None:
        while self._waiting:
            notes, first = list(self._waiting), self._next
            self._waiting.clear()
            self._size = 0
            self._next += len(notes)
            message = encode(self._call_id, self._attempt, first, notes)
            try:
                await self._pipeline.call("PUBLISH", reply_channel(self.reply_to), message)
            except UnavailableError:
                continue


class NoteReader:
    """The web side: tells the notes of one call in order, each once, and how many are missing."""

    __slots__ = ("_attempt", "_next", "terms")

    def __init__(self, terms: RelayTerms) -> None:
        self.terms = terms
        self._attempt = 0
        self._next = 0

    def take(self, batch: Batch) -> None:
        if batch.attempt < self._attempt:
            return
        if batch.attempt > self._attempt:
            self._attempt, self._next = batch.attempt, 0
        missing = batch.first - self._next
        if missing > 0 and self.terms.on_dropped is not None:
            self.terms.on_dropped(missing)
        for method, params in batch.notes[max(0, -missing) :]:
            if self.terms.on_notification is not None:
                self.terms.on_notification(method, params)
        self._next = max(self._next, batch.first + len(batch.notes))
