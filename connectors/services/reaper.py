"""Reaper: brings every call to an end that lost its worker, its ring or its time.

Idempotent: every step is a conditional UPDATE, so that it may run twice at once, or not at all for
a while. Deadlines of running calls are the worker's; the reaper comes 15 s later.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from redis.exceptions import RedisError

from connectors.models import CallStatus, Connection, ToolCall
from connectors.queue import (
    EntryKind,
    LaneEntry,
    WorkerLoad,
    choose_worker,
    dead_workers,
    drop_lane,
    forget_worker,
    live_workers_sync,
    ring,
)
from connectors.services import endings, input_store, input_sweep, ledger, tool_calls
from connectors.services.endings import Ending
from connectors.services.ledger import Fence, Finish, Release
from mcphub.core.clock import now
from mcphub.core.errors import UnavailableError

RING_AGE = timedelta(seconds=3)
OVERDUE = timedelta(seconds=15)
LARGEST = 2000
RUNNING = (CallStatus.CLAIMED, CallStatus.SENT, CallStatus.INPUT_REQUIRED)
"""What a worker may hold; a call that is parked without a session has no worker."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many calls each rule moved."""

    expired: int = 0
    released: int = 0
    unknown: int = 0
    rung: int = 0

    @property
    def is_idle(self) -> bool:
        return not (self.expired or self.released or self.unknown or self.rung)


def sweep(*, ring_age: timedelta = RING_AGE) -> Swept:
    """Run every rule once; a few queries when there is nothing to do."""
    expired = _expire_queued()
    released = unknown = 0
    dead = _dead()
    for worker in dead:
        more_released, more_unknown = _end_calls_of(worker)
        released, unknown = released + more_released, unknown + more_unknown
    unknown += _end_overdue()
    input_sweep.sweep(dead)
    rung = _ring_again(timedelta(0) if released else ring_age)
    swept = Swept(expired=expired, released=released, unknown=unknown, rung=rung)
    if not swept.is_idle:
        logger.info("swept calls %s", swept)
    return swept


def end_worker(worker: str) -> Swept:
    """Bring the calls of a worker to an end that is known to have ended (its slot's restart)."""
    try:
        forget_worker(worker)
        drop_lane(worker)
    except (RedisError, OSError):
        logger.warning("worker not struck off worker=%s", worker)
    released, unknown = _end_calls_of(worker)
    input_sweep.close_of_worker(worker)
    rung = _ring_again(timedelta(0))  # what its lane held is gone
    logger.info("worker ended worker=%s released=%d unknown=%d", worker, released, unknown)
    return Swept(released=released, unknown=unknown, rung=rung)


def _expire_queued() -> int:
    overdue = _open(CallStatus.QUEUED).filter(deadline_at__lt=now())
    count = 0
    for call_id, stream in list(overdue.values_list("pk", "stream")[:LARGEST]):
        ending = endings.expired() if stream is None else endings.unknown("timeout")
        count += overdue.filter(pk=call_id).update(
            status=ending.status,
            problem_code=ending.problem_code,
            problem_detail=ending.problem_detail,
            finished_at=now(),
        ) and _announced(call_id)
    return count


def _dead() -> Collection[str]:
    workers = set(_held().values_list("worker", flat=True).distinct())
    try:
        return dead_workers(workers | input_sweep.workers_of_open())
    except UnavailableError:
        return ()  # nobody may be called dead while Redis is away


def _end_calls_of(worker: str) -> tuple[int, int]:
    """Release what the worker had only claimed, or whose answer another one can still ask for.

    What it had sent otherwise has an unknown outcome.
    """
    rows = list(_held().filter(worker=worker).only(*_FENCE)[:LARGEST])
    resumable = _resumable(rows)
    free = [row for row in rows if row.status == CallStatus.CLAIMED or row.pk in resumable]
    released = sum(ledger.release_now([Release(fence=_fence(row)) for row in free])) if free else 0
    sent = [row for row in rows if row.status != CallStatus.CLAIMED and row.pk not in resumable]
    return released, _end(sent, endings.unknown())


def _resumable(rows: Sequence[ToolCall]) -> set[uuid.UUID]:
    """Return the calls whose answer's stream outlives its reader, and whose session does too."""
    found = [
        row
        for row in rows
        if row.stream and row.status == CallStatus.SENT and row.attempt < endings.LARGEST_ATTEMPT
    ]
    if not found:
        return set()
    sessions = Connection.unscoped.filter(
        pk__in={row.connection_id for row in found}, is_wanted=True, sealed_session__isnull=False
    )
    kept = set(sessions.values_list("pk", flat=True))
    return {row.pk for row in found if row.connection_id in kept}


def _end_overdue() -> int:
    """End running calls whose worker lives but does not; it must not end them any more either."""
    rows = list(_held().filter(deadline_at__lt=now() - OVERDUE).only(*_FENCE)[:LARGEST])
    claimed = [row for row in rows if row.status == CallStatus.CLAIMED]
    sent = [row for row in rows if row.status != CallStatus.CLAIMED]
    return _end(claimed, endings.expired()) + _end(sent, endings.unknown("timeout"))


def _end(rows: Sequence[ToolCall], ending: Ending) -> int:
    if not rows:
        return 0
    ends = [
        Finish(
            fence=_fence(row),
            status=ending.status,
            problem_code=ending.problem_code,
            problem_detail=ending.problem_detail,
            was_sent=ending.was_sent,
        )
        for row in rows
    ]
    won = [row for row, is_won in zip(rows, ledger.finish_now(ends), strict=True) if is_won]
    for row in won:
        if row.status == CallStatus.INPUT_REQUIRED:
            input_store.close_of_call(row.pk)
        _announced(row.pk)
    return len(won)


def _announced(call_id: uuid.UUID) -> int:
    tool_calls.announce_end(ToolCall.unscoped.get(pk=call_id))
    return 1


def _ring_again(age: timedelta) -> int:
    """Ring for what waits: the holder if it lives, else the least busy worker."""
    waiting = _open(CallStatus.QUEUED).filter(created_at__lte=now() - age, deadline_at__gt=now())
    calls = list(waiting.order_by("id").values_list("pk", "connection_id")[:LARGEST])
    if not calls:
        return 0
    try:
        workers = live_workers_sync()
        spare = choose_worker(workers).worker
    except UnavailableError:
        return 0
    holders = _holders({connection_id for _, connection_id in calls}, workers)
    lanes: dict[str, list[LaneEntry]] = {}
    for call_id, connection_id in calls:
        entry = LaneEntry(kind=EntryKind.CALL, id=call_id, connection_id=connection_id)
        lanes.setdefault(holders.get(connection_id, spare), []).append(entry)
    for worker, entries in lanes.items():
        ring(worker, *entries)
    return len(calls)


def _holders(ids: Iterable[uuid.UUID], workers: Sequence[WorkerLoad]) -> dict[uuid.UUID, str]:
    alive = [load.worker for load in workers]
    rows = Connection.unscoped.filter(pk__in=list(ids), held_by__in=alive)
    return dict(rows.values_list("pk", "held_by"))


def _open(*statuses: CallStatus) -> QuerySet[ToolCall]:
    return ToolCall.unscoped.filter(status__in=statuses)


def _held() -> QuerySet[ToolCall]:
    return _open(*RUNNING).exclude(worker="")


_FENCE = ("id", "worker", "attempt", "status", "stream", "connection_id")


def _fence(row: ToolCall) -> Fence:
    return Fence(id=row.pk, worker=row.worker, attempt=row.attempt)
