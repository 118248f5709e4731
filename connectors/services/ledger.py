"""The ledger: every move of a tool call's row, written in groups, fenced by worker and attempt.

    insert     (new)   → queued
    claim      queued  → claimed | sent     attempt + 1; the caller alone owns the row from here
    mark_sent  claimed → sent               committed before the first byte goes upstream
    release    claimed | sent → queued      nothing had left; somebody may claim it again
    finish     claimed | sent → an end      refused when another worker or attempt owns the row
               input_required too, while a session of this worker waits for the answer

Concurrent callers of a process share a statement (GroupWriter); the synchronous twins `…_now` are
for the reaper.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import fields
from threading import Lock
from typing import Any, TypeVar

from django.db import DatabaseError, IntegrityError, connection, connections

from connectors.models import CallStatus
from connectors.services import ledger_sql as sql
from connectors.services.ledger_moves import (
    Claim,
    Claimed,
    Fence,
    Finish,
    Inserted,
    MarkSent,
    Move,
    NewCall,
    NoteStream,
    Progress,
    Release,
)
from mcphub.core.clock import now
from mcphub.core.errors import HubError, NotFoundError, UnavailableError
from mcphub.core.grouping import GroupWriter

__all__ = [
    "Claim",
    "Claimed",
    "Fence",
    "Finish",
    "Inserted",
    "MarkSent",
    "NewCall",
    "NoteStream",
    "Progress",
    "Release",
    "claim",
    "claim_now",
    "close",
    "finish",
    "finish_now",
    "insert",
    "insert_now",
    "mark_sent",
    "note_progress",
    "note_stream",
    "release",
    "release_now",
]

IDLE_CHECK_SECONDS = 5.0

logger = logging.getLogger(__name__)


T = TypeVar("T", bound=Move)

_INSERTED = tuple(item.name for item in fields(NewCall))
_CLAIMED = tuple(item.name for item in fields(Claimed))
_FENCE = ("id", "worker", "attempt")
_OWNED = "status IN ('claimed', 'sent')"
_HELD = "status IN ('claimed', 'sent', 'input_required')"


async def insert(call: NewCall) -> Inserted:
    """Commit a queued call. Raises UnavailableError; NotFoundError when its tenant is gone."""
    inserted: Inserted = await _write(call)
    return inserted


async def claim(wish: Claim) -> Claimed | None:
    """Take a queued call; None: it is not queued any more. Raises UnavailableError."""
    claimed: Claimed | None = await _write(wish)
    return claimed


async def mark_sent(fence: Fence) -> bool:
    """Commit that a claimed call is about to leave; False: do not send it."""
    may_send: bool = await _write(MarkSent(fence=fence))
    return may_send


async def release(fence: Fence) -> bool:
    """Give back a call of which nothing has left."""
    is_released: bool = await _write(Release(fence=fence))
    return is_released


async def note_progress(note: Progress) -> bool:
    """Keep the newest progress of a sent call; at most one a second and call, please."""
    is_kept: bool = await _write(note)
    return is_kept


async def note_stream(note: NoteStream) -> bool:
    """Keep the position of a sent call's answer; at most one a second and call, please."""
    is_kept: bool = await _write(note)
    return is_kept


async def finish(end: Finish) -> bool:
    """End a call; False: somebody else has the row, so this end does not count."""
    is_won: bool = await _write(end)
    return is_won


def insert_now(calls: Sequence[NewCall]) -> list[Any]:
    """Insert rows in one statement; each answer is an Inserted or a HubError."""
    rows = [[getattr(call, name) for name in _INSERTED] for call in calls]
    try:
        new = sql.insert(_INSERTED, rows)
    except IntegrityError:
        if len(calls) > 1:  # one row whose tenant is gone must not take its neighbours along
            return [insert_now([call])[0] for call in calls]
        return [NotFoundError()]
    return [Inserted.NEW if call.id in new else Inserted.KEY_TAKEN for call in calls]


def claim_now(wishes: Sequence[Claim]) -> list[Claimed | None]:
    """Claim rows: one statement for each target status and worker among the wishes."""
    found: dict[uuid.UUID, Claimed] = {}
    for worker, is_open in {(wish.worker, wish.is_open) for wish in wishes}:
        ids = [w.id for w in wishes if (w.worker, w.is_open) == (worker, is_open)]
        found.update({call.id: call for call in _claim_alike(ids, worker, is_open=is_open)})
    return [found.pop(wish.id, None) for wish in wishes]


def _claim_alike(ids: Sequence[uuid.UUID], worker: str, *, is_open: bool) -> list[Claimed]:
    at = sql.adapted(now())
    status = CallStatus.SENT if is_open else CallStatus.CLAIMED
    rows = sql.run(
        f"UPDATE {sql.TABLE}",
        "SET status = %s, worker = %s, attempt = attempt + 1, claimed_at = %s,",
        "sent_at = CASE WHEN stream IS NULL THEN %s ELSE sent_at END",
        f"WHERE id IN ({sql.placeholders(len(ids))}) AND status = 'queued'",
        f"RETURNING {', '.join(_CLAIMED)}",
        parameters=[status.value, worker, at, at if is_open else None, *map(sql.adapted, ids)],
    )
    return [_claimed(dict(zip(_CLAIMED, row, strict=True))) for row in rows]


def _claimed(row: dict[str, Any]) -> Claimed:
    for name in ("id", "tenant_id", "member_id", "connection_id"):
        row[name] = sql.as_uuid(row[name])
    for name in ("created_at", "deadline_at"):
        row[name] = sql.as_instant(row[name])
    row["sealed_params"] = bytes(row["sealed_params"])
    state = row["sealed_state"]
    row["sealed_state"] = None if state is None else bytes(state)
    for name in ("stream", "relay"):
        if isinstance(row[name], str):  # SQLite has no JSON columns
            row[name] = json.loads(row[name])
    row["is_cancel_requested"] = bool(row["is_cancel_requested"])
    return Claimed(**row)


def mark_sent_now(marks: Sequence[MarkSent]) -> list[bool]:
    at = now()
    moved = sql.update(
        (*_FENCE, "at"),
        [(*_fence_of(mark), at) for mark in marks],
        assign="status = 'sent', sent_at = v_at",
        where="status = 'claimed' AND NOT is_cancel_requested",
    )
    return [mark.fence.id in moved for mark in marks]


def release_now(releases: Sequence[Release]) -> list[bool]:
    moved = sql.update(
        _FENCE,
        [_fence_of(release) for release in releases],
        assign="status = 'queued', worker = '', claimed_at = NULL"
        ", sent_at = CASE WHEN stream IS NULL THEN NULL ELSE sent_at END",
        where=_OWNED,
    )
    return [release.fence.id in moved for release in releases]


def note_progress_now(notes: Sequence[Progress]) -> list[bool]:
    newest = {note.fence.id: note for note in notes}
    moved = sql.update(
        (*_FENCE, "progress", "deadline_at"),
        [(*_fence_of(note), note.progress, note.deadline_at) for note in newest.values()],
        assign="progress = v_progress, deadline_at = v_deadline_at",
        where="status = 'sent'",
    )
    return [note.fence.id in moved for note in notes]


def note_stream_now(notes: Sequence[NoteStream]) -> list[bool]:
    newest = {note.fence.id: note for note in notes}
    moved = sql.update(
        (*_FENCE, "stream"),
        [(*_fence_of(note), note.stream) for note in newest.values()],
        assign="stream = v_stream",
        where="status = 'sent'",
    )
    return [note.fence.id in moved for note in notes]


def finish_now(ends: Sequence[Finish]) -> list[bool]:
    moved = sql.update(
        (*_FENCE, *_FINISHED, "was_sent", "progress", "at"),
        [
            (*_fence_of(e), *(getattr(e, name) for name in _FINISHED), e.was_sent, e.progress, e.at)
            for e in ends
        ],
        assign=", ".join(f"{name} = v_{name}" for name in _FINISHED)
        + ", finished_at = v_at, sent_at = CASE WHEN v_was_sent THEN sent_at END"
        + ", progress = COALESCE(v_progress, progress)",
        where=_HELD,
    )
    answers = []
    for end in ends:
        answers.append(end.fence.id in moved)
        moved.discard(end.fence.id)
    return answers


_FINISHED = (
    "status",
    "sealed_outcome",
    "task_key",
    "is_tool_error",
    "problem_code",
    "problem_detail",
)


def _fence_of(
    move: MarkSent | Release | Progress | NoteStream | Finish,
) -> tuple[uuid.UUID, str, int]:
    return (move.fence.id, move.fence.worker, move.fence.attempt)


_WRITES: dict[type[Move], Callable[[Any], Sequence[Any]]] = {
    NewCall: insert_now,
    Claim: claim_now,
    MarkSent: mark_sent_now,
    Release: release_now,
    Progress: note_progress_now,
    NoteStream: note_stream_now,
    Finish: finish_now,
}


class _Writer:
    """The process's group writer; made again after `close`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._group: GroupWriter[Move, Any] | None = None
        self._used_at = 0.0

    def group(self) -> GroupWriter[Move, Any]:
        with self._lock:
            if self._group is None:
                self._group = GroupWriter(self._write, name="ledger", at_end=connections.close_all)
            return self._group

    def close(self) -> None:
        with self._lock:
            group, self._group = self._group, None
        if group is not None:
            group.close()

    def _write(self, moves: Sequence[Move]) -> list[Any]:
        """Write one batch: a statement for each kind; a kind that fails leaves the others alone."""
        if time.monotonic() - self._used_at > IDLE_CHECK_SECONDS:
            connection.close_if_unusable_or_obsolete()
        answers: list[Any] = [None] * len(moves)
        for kind, write in _WRITES.items():
            places = [place for place, move in enumerate(moves) if type(move) is kind]
            if places:
                found = _guarded(write, [moves[place] for place in places])
                for place, answer in zip(places, found, strict=True):
                    answers[place] = answer
        self._used_at = time.monotonic()
        return answers


def _guarded(write: Callable[[Any], Sequence[Any]], moves: list[Move]) -> Sequence[Any]:
    try:
        return write(moves)
    except DatabaseError as exc:
        logger.warning("ledger write failed kind=%s: %s", type(moves[0]).__name__, exc)
        connection.close()
        return [UnavailableError("The database is away.", retry_after=1.0) for _ in moves]


_writer = _Writer()


async def _write(move: Move) -> Any:
    answer = await _writer.group().write(move)
    if isinstance(answer, HubError):
        raise answer
    return answer


def close() -> None:
    """Write what is queued and end the writer's thread with its database connection."""
    _writer.close()
