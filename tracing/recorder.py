"""record(): every JSON-RPC message that was seen becomes a row and a live event, without waiting.

Records wait in a bounded buffer. One thread redacts them, writes them in groups and then announces
them to principals that listen. A flood of unsolicited messages is cut at 200 per second and
session; what is not kept, for whatever reason, is counted, and a row of type `invalid` says so.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError, OperationalError, connections

from mcphub.core import broadcast
from mcphub.core.broadcast import EventGroup
from mcphub.core.types import JSONObject
from tracing import store
from tracing.rows import (
    RowIds,
    Stamp,
    TracedSession,
    TraceRecord,
    TraceRow,
    dropped_row,
    row_of,
    wire,
)

__all__ = ["TraceRecord", "TracedSession", "counts", "drain", "flush", "record"]

MAX_WAITING = 20_000
MAX_WAITING_BYTES = 64 << 20
BATCH = 200
LINGER_SECONDS = 0.15
INLINE_BYTES = 4 << 10
BACKOFF_SECONDS = (0.2, 0.5, 1.0, 2.0)
TRIES = 60

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Waiting:
    record: TraceRecord
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class _Ready:
    """A row to write, and how many messages are unaccounted for when it is lost."""

    session: TracedSession
    row: TraceRow
    weight: int = 1
    is_marker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderCounts:
    """What became of the records of this process."""

    stored: int
    dropped: int


class Recorder:
    """The buffer and its thread; `record()` below is the process's own."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._hurry = threading.Event()
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._lossy: dict[TracedSession, float] = {}
        """Sessions with records that were dropped, and when the next row may say so."""
        self._ids = RowIds()
        self._thread: threading.Thread | None = None
        self._is_idle = False
        self._is_busy = False
        self._is_ending = False
        self._stored = 0
        self._dropped = 0

    def put(self, record: TraceRecord) -> None:
        with self._wake:
            session = record.session
            stamp = self._stamp(session)
            if record.is_unsolicited and not session.may_keep_unsolicited():
                self._drop(session, record.call_id)
            else:
                self._queue.append(_Waiting(record, stamp))
                self._bytes += record.size
                while len(self._queue) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
                    self._drop_oldest()
            self._start()
            if self._is_idle:
                self._is_idle = False
                self._wake.notify_all()
            elif len(self._queue) >= BATCH:
                self._hurry.set()

    def flush(self, seconds: float) -> bool:
        with self._wake:
            for session in self._lossy:
                self._lossy[session] = 0.0
            self._hurry.set()
            self._wake.notify_all()
            return self._wake.wait_for(self._is_drained, seconds)

    def drain(self, seconds: float) -> bool:
        is_flushed = self.flush(seconds)
        with self._wake:
            self._is_ending = True
            self._wake.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)
        with self._wake:
            self._is_ending = False
        return is_flushed

    def counts(self) -> RecorderCounts:
        with self._wake:
            return RecorderCounts(stored=self._stored, dropped=self._dropped)

    def _stamp(self, session: TracedSession) -> Stamp:
        session.seq += 1
        return Stamp(row_id=self._ids.next(), seq=session.seq, secrets=session.secrets)

    def _is_drained(self) -> bool:
        return not self._queue and not self._lossy and not self._is_busy

    def _drop(self, session: TracedSession, call_id: uuid.UUID | None, count: int = 1) -> None:
        self._dropped += count
        session.dropped += count
        session.dropped_call = call_id
        self._lossy.setdefault(session, time.monotonic() + 1.0)

    def _drop_oldest(self) -> None:
        oldest = self._queue.popleft()
        self._bytes -= oldest.record.size
        self._drop(oldest.record.session, oldest.record.call_id)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while self._wait():
                self._hurry.wait(LINGER_SECONDS)
                self._write(self._take())
                with self._wake:
                    self._is_busy = False
                    self._wake.notify_all()
        finally:
            connections.close_all()

    def _wait(self) -> bool:
        """Return True when something is to be written, False when the thread shall end."""
        with self._wake:
            while not self._queue:
                moment = time.monotonic()
                if any(due <= moment for due in self._lossy.values()):
                    return True
                if self._is_ending:
                    return False
                self._is_idle = True
                self._wake.wait(min(self._lossy.values()) - moment if self._lossy else None)
                self._is_idle = False
            return True

    def _take(self) -> list[_Ready]:
        """Take one batch; redaction happens here, on this thread."""
        with self._wake:
            waiting = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            self._bytes -= sum(item.record.size for item in waiting)
            self._is_busy = True
            if not self._queue:
                self._hurry.clear()
            moment = time.monotonic()
            due = [session for session, at in self._lossy.items() if at <= moment]
            ready = [self._marker(session) for session in due]
        for item in waiting:
            session = item.record.session
            try:
                ready.append(_Ready(session, row_of(item.record, item.stamp)))
            except Exception:
                logger.exception("message not recorded connection=%s", session.connection_id)
                self._lose(session, 1)
        return ready

    def _marker(self, session: TracedSession) -> _Ready:
        del self._lossy[session]
        count, session.dropped = session.dropped, 0
        row = dropped_row(session, self._stamp(session), count=count)
        return _Ready(session, row, weight=count, is_marker=True)

    def _write(self, ready: Sequence[_Ready]) -> None:
        """Store and announce; waits while the database is away, sorts out what it refuses."""
        for attempt in range(TRIES):
            try:
                store.insert([item.row for item in ready])
            except (OperationalError, InterfaceError) as exc:
                logger.warning("trace not stored yet: %s", type(exc).__name__)
                connections.close_all()
                if self._is_ending:
                    break
                time.sleep(BACKOFF_SECONDS[min(attempt, len(BACKOFF_SECONDS) - 1)])
            except DatabaseError as exc:
                if len(ready) == 1:
                    logger.warning("message not recorded: %s", type(exc).__name__)
                    if ready[0].is_marker:
                        return  # its tenant is gone: nobody will ask what is missing
                    break
                half = len(ready) // 2
                self._write(ready[:half])
                self._write(ready[half:])
                return
            else:
                with self._wake:
                    self._stored += len(ready)
                _announce([item.row for item in ready])
                return
        for item in ready:
            self._lose(item.session, item.weight)

    def _lose(self, session: TracedSession, count: int) -> None:
        with self._wake:
            self._drop(session, session.dropped_call, count)


def _announce(rows: Sequence[TraceRow]) -> None:
    """Publish the rows to the principals of whom somebody listens for traces; nobody pays else."""
    groups = {EventGroup.of(row) for row in rows}
    traced = broadcast.traced_among(groups)
    for row in rows:
        group = EventGroup.of(row)
        if group in traced:
            event: JSONObject = {"type": "trace.message", "trace": wire(row, largest=INLINE_BYTES)}
            broadcast.publish(group, event, only_if_traced=True)


_recorder = Recorder()


def _after_fork() -> None:
    global _recorder  # noqa: PLW0603  (a child has neither the thread nor the connection)
    _recorder = Recorder()


os.register_at_fork(after_in_child=_after_fork)


def record(seen: TraceRecord) -> None:
    """Queue one message to be redacted, stored and announced; any thread, never blocks."""
    _recorder.put(seen)


def flush(seconds: float = 5.0) -> bool:
    """Wait until everything recorded so far is stored or lost; False when that took too long."""
    return _recorder.flush(seconds)


def drain(seconds: float = 2.0) -> bool:
    """Flush, then end the thread and its database connection; a later record starts it again."""
    return _recorder.drain(seconds)


def counts() -> RecorderCounts:
    """Return how many rows this process has stored and how many messages it has dropped."""
    return _recorder.counts()
