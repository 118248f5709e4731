"""From a message that was seen to the row that is stored, and from a row to what the API shows."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from django.conf import settings

from mcphub.core import clock
from mcphub.core.types import JSONObject, JSONValue
from tracing.models import Direction, MessageType
from tracing.redaction import Redacted, Rules, redact, redact_raw, storable
from tracing.secrets import KnownSecrets

MAX_INT = 2**31 - 1
UNSOLICITED_PER_SECOND = 200


class TracedSession:
    """What the records of one upstream session share. The session host makes one per session."""

    __slots__ = (
        *("tenant_id", "member_id", "connection_id", "server", "secrets"),
        *("seq", "dropped", "dropped_call", "_allowance", "_refilled_at"),
    )

    def __init__(
        self,
        *,
        tenant_id: uuid.UUID,
        member_id: uuid.UUID,
        connection_id: uuid.UUID,
        server: str,
        secrets: Iterable[str] = (),
    ) -> None:
        self.tenant_id = tenant_id
        self.member_id = member_id
        self.connection_id = connection_id
        self.server = server
        self.secrets = KnownSecrets(secrets)
        self.seq = 0
        self.dropped = 0
        """Messages that were not kept since the last row that said so."""
        self.dropped_call: uuid.UUID | None = None
        self._allowance = float(UNSOLICITED_PER_SECOND)
        self._refilled_at = time.monotonic()

    def may_keep_unsolicited(self) -> bool:
        """Take one from this second's allowance of messages that nobody asked for."""
        moment = time.monotonic()
        earned = (moment - self._refilled_at) * UNSOLICITED_PER_SECOND
        self._allowance = min(float(UNSOLICITED_PER_SECOND), self._allowance + earned)
        self._refilled_at = moment
        if self._allowance < 1.0:
            return False
        self._allowance -= 1.0
        return True

    def know(self, secrets: Iterable[str]) -> None:
        """Hide these from now on instead of the ones before (a token was refreshed)."""
        self.secrets = KnownSecrets(secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """One message as it was seen; it must not be changed afterwards."""

    session: TracedSession
    direction: Direction
    message: JSONObject | None
    """None when the bytes are no JSON-RPC message: `raw` has them."""
    size: int
    at: datetime
    raw: bytes = b""
    method: str = ""
    """Of a response: the method of its request."""
    call_id: uuid.UUID | None = None
    attempt: int = 1
    synthetic: bool = False
    """Made up by the hub for the reader; it never was on the wire."""
    duration_ms: float | None = None
    http: JSONObject | None = None
    """The HTTP exchange that carried an answer, with the values of harmless headers alone."""
    secret_names: frozenset[str] = frozenset()
    """`redaction.secret_names` of the tool's input schema."""

    @property
    def is_unsolicited(self) -> bool:
        """Whether the peer sent this by itself: everything received but answers to our requests."""
        answers = (MessageType.RESPONSE, MessageType.ERROR)
        return self.direction is Direction.RECEIVED and not (self.method and self.type in answers)

    @property
    def type(self) -> MessageType:
        if self.message is None:
            return MessageType.INVALID
        if isinstance(self.message.get("method"), str):
            return MessageType.REQUEST if "id" in self.message else MessageType.NOTIFICATION
        if "error" in self.message:
            return MessageType.ERROR
        return MessageType.RESPONSE if "result" in self.message else MessageType.INVALID


class TraceRow(NamedTuple):
    """The columns of a TraceEvent, by their attribute names."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    connection_id: uuid.UUID
    server: str
    seq: int
    at: datetime
    call_id: uuid.UUID | None
    attempt: int
    direction: str
    type: str
    method: str
    rpc_id: str
    content: str
    is_error: bool
    error_code: int | None
    size: int
    truncated: bool
    redacted: bool
    synthetic: bool
    duration_ms: float | None
    http: str


class Row(Protocol):
    """What a TraceRow and a TraceEvent have in common."""

    @property
    def id(self) -> uuid.UUID: ...
    @property
    def seq(self) -> int: ...
    @property
    def at(self) -> datetime: ...
    @property
    def server(self) -> str: ...
    @property
    def call_id(self) -> uuid.UUID | None: ...
    @property
    def attempt(self) -> int: ...
    @property
    def direction(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def rpc_id(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def is_error(self) -> bool: ...
    @property
    def error_code(self) -> int | None: ...
    @property
    def size(self) -> int: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def redacted(self) -> bool: ...
    @property
    def synthetic(self) -> bool: ...
    @property
    def duration_ms(self) -> float | None: ...
    @property
    def http(self) -> str: ...


class RowIds:
    """UUIDs version 7 that rise strictly within this process (RFC 9562 §6.2, method 3)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> uuid.UUID:
        """Milliseconds in 48 bits, 1/4096 of them in 12, the rest random."""
        ticks = time.time_ns() * 4096 // 1_000_000
        with self._lock:
            self._last = ticks = max(ticks, self._last + 1)
        random = uuid.uuid4().int & ((1 << 62) - 1)
        return uuid.UUID(
            int=(ticks >> 12) << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | random
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What is settled when a record comes in; its redaction happens later, on another thread."""

    row_id: uuid.UUID
    seq: int
    secrets: KnownSecrets


def row_of(record: TraceRecord, stamp: Stamp) -> TraceRow:
    """Redact and bound one record."""
    session, message = record.session, record.message or {}
    kept = _content(record, stamp.secrets)
    kind = record.type
    is_error, error_code = _error(message, kind)
    method = message.get("method")
    return TraceRow(
        id=stamp.row_id,
        tenant_id=session.tenant_id,
        member_id=session.member_id,
        connection_id=session.connection_id,
        server=session.server,
        seq=stamp.seq,
        at=record.at,
        call_id=record.call_id,
        attempt=record.attempt,
        direction=record.direction.value,
        type=kind.value,
        method=storable(method if isinstance(method, str) else record.method, 120),
        rpc_id=_rpc_id(message.get("id")),
        content=kept.text,
        is_error=is_error,
        error_code=error_code,
        size=min(record.size, MAX_INT),
        truncated=kept.truncated,
        redacted=kept.redacted,
        synthetic=record.synthetic,
        duration_ms=record.duration_ms,
        http=_http(record, stamp.secrets),
    )


def dropped_row(session: TracedSession, stamp: Stamp, *, count: int) -> TraceRow:
    """Return the row that says how many messages of a session are not in the record."""
    record = TraceRecord(
        session=session,
        direction=Direction.RECEIVED,
        message={"dropped": count},
        size=0,
        at=clock.now(),
        call_id=session.dropped_call,
        synthetic=True,
    )
    return row_of(record, stamp)


def wire(row: Row, *, largest: int | None = None) -> JSONObject:
    """Return the row as the API shows it; content over `largest` bytes is left out and said so."""
    is_omitted = largest is not None and len(row.content) > largest
    shown: JSONObject = {
        "id": str(row.id),
        "seq": row.seq,
        "at": row.at.isoformat(timespec="milliseconds"),
        "server": row.server,
        "call": str(row.call_id) if row.call_id else None,
        "attempt": row.attempt,
        "direction": row.direction,
        "type": row.type,
        "method": row.method or None,
        "rpcId": row.rpc_id or None,
        "content": None if is_omitted else content_of(row),
        "error": _shown_error(row),
        "size": row.size,
        "truncated": row.truncated,
        "redacted": row.redacted,
        "synthetic": row.synthetic,
        "durationMs": row.duration_ms,
        "http": http_of(row) or None,
    }
    if is_omitted:
        shown["contentOmitted"] = True
    return shown


def http_of(row: Row) -> JSONObject:
    """Return the HTTP exchange that carried an answer, {} when none is known."""
    found: JSONObject = json.loads(row.http) if row.http else {}
    return found


def content_of(row: Row) -> JSONValue:
    """Return the stored message; a string when what came was no JSON-RPC message."""
    try:
        content: JSONValue = json.loads(row.content)
    except (ValueError, RecursionError):
        return row.content
    return content


def _content(record: TraceRecord, secrets: KnownSecrets) -> Redacted:
    rules = Rules(
        secrets=secrets,
        names=record.secret_names,
        limit=settings.TRACE_MAX_BYTES,
    )
    if record.message is None:
        return redact_raw(record.raw, rules)
    return redact(record.message, rules, size=record.size)


def _http(record: TraceRecord, secrets: KnownSecrets) -> str:
    """Return the exchange as JSON; whoever saw it has left out what its names tell to be secret."""
    return json.dumps(secrets.hidden(record.http)) if record.http else ""


def _error(message: JSONObject, kind: MessageType) -> tuple[bool, int | None]:
    if kind is MessageType.ERROR:
        error = message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        is_number = isinstance(code, int) and abs(code) <= MAX_INT
        return True, code if is_number and isinstance(code, int) else None
    result = message.get("result")
    is_tool_error = isinstance(result, dict) and result.get("isError") is True
    return is_tool_error or (kind is MessageType.INVALID and "dropped" not in message), None


def _shown_error(row: Row) -> JSONObject | None:
    """Say which plane an error belongs to; the planes are never merged."""
    if not row.is_error:
        return None
    planes = {MessageType.ERROR.value: "protocol", MessageType.INVALID.value: "invalid"}
    plane = "hub" if row.synthetic else planes.get(row.type, "tool")
    return {"plane": plane, "code": row.error_code}


def _rpc_id(value: JSONValue) -> str:
    return (
        storable(value, 80) if isinstance(value, str) else "" if value is None else str(value)[:80]
    )
