"""What the ledger writes: the moves of a call's row, each with what it needs to be true."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from connectors.models import CallStatus
from mcphub.core.clock import now
from mcphub.core.types import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A row to be: accepted means inserted."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    connection_id: uuid.UUID
    server: str
    method: str
    target: str
    sealed_params: bytes = field(repr=False)
    timeout_ms: int
    created_at: datetime
    deadline_at: datetime
    reply_to: str = ""
    idempotency_key: str | None = None
    body_hash: str = ""
    relay: JSONObject | None = None
    """What the worker has to know of the downstream client: see services.relays."""


class Inserted(Enum):
    """What came of an insert."""

    NEW = auto()
    KEY_TAKEN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's wish for a queued call; `is_open`: its session is open, so `sent` at once."""

    id: uuid.UUID
    worker: str
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A call that the worker owns now, with what it needs to execute it."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    connection_id: uuid.UUID
    server: str
    method: str
    target: str
    status: str
    attempt: int
    worker: str
    sealed_params: bytes = field(repr=False)
    timeout_ms: int
    created_at: datetime
    deadline_at: datetime
    reply_to: str
    is_cancel_requested: bool
    rounds: int = 0
    sealed_state: bytes | None = field(default=None, repr=False)
    stream: JSONObject | None = None
    relay: JSONObject | None = None

    @property
    def fence(self) -> Fence:
        return Fence(id=self.id, worker=self.worker, attempt=self.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Who may move the row: this worker in this attempt."""

    id: uuid.UUID
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSent:
    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The newest progress, and the deadline that it moved."""

    fence: Fence
    progress: JSONObject
    deadline_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteStream:
    """From where the answer can be asked for by whoever holds the session then."""

    fence: Fence
    stream: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """An end of a call; `was_sent` False: nothing had left, whatever the row says."""

    fence: Fence
    status: CallStatus
    sealed_outcome: bytes | None = field(default=None, repr=False)
    task_key: str | None = None
    is_tool_error: bool = False
    problem_code: str = ""
    problem_detail: str = ""
    was_sent: bool = True
    progress: JSONObject | None = None
    """The last one seen; None: what is stored stays."""
    at: datetime = field(default_factory=now)


Move = NewCall | Claim | MarkSent | Release | Progress | NoteStream | Finish
