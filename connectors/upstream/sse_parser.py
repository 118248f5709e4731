"""Incremental parser of server-sent events (WHATWG HTML §9.2): bytes in, events out, bounded."""

from __future__ import annotations

import re
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
STREAM_MAX_BYTES = 64 << 20
OVERSIZED = "\0oversized"
"""Name of the event that stands for one that was skipped; no stream can send it."""
_HEADER_SAFE = re.compile(rb"[\x20-\x7e]*")
"""Ids come back to the server in the Last-Event-ID header; others cannot be resumed after."""


class EventTooLargeError(ValueError):
    """One event, or the stream as a whole, is over its cap."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event; `name` is "message" unless the stream said otherwise."""

    name: str
    data: bytes


class SseParser:
    """Feed it chunks as they come; lines may end in CR, LF or CRLF and break anywhere."""

    __slots__ = (
        "_after_cr",
        "_data",
        "_held_data",
        "_held_line",
        "_is_skipping",
        "_is_start",
        "_max_event",
        "_max_stream",
        "_may_skip",
        "_name",
        "_pending_id",
        "_pieces",
        "_total",
        "last_event_id",
        "retry_ms",
    )

    def __init__(
        self,
        max_event: int,
        max_stream: int | None = STREAM_MAX_BYTES,
        *,
        may_skip: bool = False,
    ) -> None:
        """Bound each event and the stream; `may_skip` passes over an event that is too large."""
        self._may_skip = may_skip
        self._is_skipping = False
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self._max_event = max_event
        self._max_stream = max_stream
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._name = ""
        self._pending_id = ""
        self._held_line = 0
        self._held_data = 0
        self._total = 0
        self._after_cr = False
        self._is_start = True

    def resume_after(self, previous: SseParser) -> None:
        """Take over what a new stream inherits from the one that broke."""
        self.last_event_id = self._pending_id = previous.last_event_id
        self.retry_ms = previous.retry_ms

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that `chunk` completes. Raises EventTooLargeError."""
        self._total += len(chunk)
        if self._max_stream is not None and self._total > self._max_stream:
            raise EventTooLargeError(self._max_stream)
        if self._is_start:
            chunk = self._without_bom(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\n" not in chunk and b"\r" not in chunk:
            self._hold(chunk)
            return []
        if self._pieces:
            chunk = b"".join((*self._pieces, chunk))
            self._pieces = []
            self._held_line = 0
        lines = chunk.splitlines()
        self._after_cr = chunk.endswith(b"\r")
        if not chunk.endswith((b"\n", b"\r")):
            self._hold(lines.pop())
        return self._read(lines)

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._held_line += len(piece)
            self._check_size()

    def _check_size(self) -> None:
        if self._held_line + self._held_data <= self._max_event:
            return
        if not self._may_skip:
            raise EventTooLargeError(self._max_event)
        self._is_skipping = True
        self._data = []
        self._pieces = [b":"] if self._pieces else []  # the rest of this line is a comment
        self._held_line = self._held_data = 0

    def _without_bom(self, chunk: bytes) -> bytes:
        chunk = b"".join((*self._pieces, chunk))
        self._pieces = []
        if len(chunk) < len(BOM) and BOM.startswith(chunk):
            self._pieces.append(chunk)
            return b""
        self._is_start = False
        return chunk.removeprefix(BOM)

    def _read(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for line in lines:
            if not line:
                self._dispatch(events)
            elif line[:5] == b"data:":
                self._add_data(line[6:] if line[5:6] == b" " else line[5:])
            elif line[:1] != b":":
                self._read_field(line)
        return events

    def _add_data(self, value: bytes) -> None:
        self._data.append(value)
        self._held_data += len(value) + 1
        self._check_size()

    def _dispatch(self, events: list[SseEvent]) -> None:
        self.last_event_id = self._pending_id
        if self._is_skipping:
            self._is_skipping = False
            self._data = []
            self._held_data = 0
            events.append(SseEvent(OVERSIZED, b""))
        elif self._data:
            body = b"\n".join(self._data) if len(self._data) > 1 else self._data[0]
            events.append(SseEvent(self._name or "message", body))
            self._data = []
            self._held_data = 0
        self._name = ""

    def _read_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add_data(value)
        elif field == b"event":
            self._name = value.decode(errors="replace").replace("\0", "")[:200]
        elif field == b"id" and len(value) <= 1024 and _HEADER_SAFE.fullmatch(value):
            self._pending_id = value.decode()
        elif field == b"retry" and value.isdigit():
            self.retry_ms = int(value[:9])
