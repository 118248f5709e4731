"""Keeps the trace within its age and its size; deletes in small steps, so that writers go on."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, IntegerField, Sum
from django.db.models.functions import Least

from mcphub.core import clock
from tracing.models import TraceEvent

ROW_BYTES = 400
"""An estimate of what a row takes beside its content, indexes included."""
FIRST_STEP = 500
LARGEST_STEP = 5000
STEP_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How many rows went for their age and how many for the size of the whole."""

    too_old: int
    too_many: int


def prune(*, seconds: float = 300.0) -> Pruned:
    """Delete what is older than TRACE_RETENTION, then the oldest beyond TRACE_TOTAL_BYTES.

    Idempotent; stops after `seconds`, the next run goes on. The table is read once.
    """
    deadline = clock.Deadline.after(seconds)
    steps = _Steps()
    oldest = clock.now() - timedelta(seconds=settings.TRACE_RETENTION)
    too_old = 0
    while not deadline.is_over and (count := steps.delete(before=_first_id_at(oldest))):
        too_old += count
    excess = _stored_bytes() - settings.TRACE_TOTAL_BYTES
    too_many = 0
    while excess > 0 and not deadline.is_over and (count := steps.delete()):
        too_many += count
        excess -= steps.freed
    return Pruned(too_old=too_old, too_many=too_many)


class _Steps:
    """Deletes the oldest rows; each step is sized by how long the one before took."""

    def __init__(self) -> None:
        self._size = FIRST_STEP
        self.freed = 0

    def delete(self, *, before: uuid.UUID | None = None) -> int:
        """Delete one step of rows, with an id below `before` if given; return how many."""
        began = time.monotonic()
        rows = TraceEvent.unscoped.order_by("pk")
        if before is not None:
            rows = rows.filter(pk__lt=before)
        found = list(rows.values_list("pk", "size")[: self._size])
        if not found:
            return 0
        self.freed = sum(min(size, settings.TRACE_MAX_BYTES) + ROW_BYTES for _, size in found)
        TraceEvent.unscoped.filter(pk__lte=found[-1][0]).delete()
        factor = STEP_SECONDS / max(time.monotonic() - began, STEP_SECONDS / 2)
        self._size = max(1, min(LARGEST_STEP, int(self._size * factor)))
        return len(found)


def _stored_bytes() -> int:
    """Return about how many bytes the trace takes."""
    kept = Least(F("size"), settings.TRACE_MAX_BYTES, output_field=IntegerField())
    totals = TraceEvent.unscoped.aggregate(content=Sum(kept), rows=Sum(ROW_BYTES))
    return int(totals["content"] or 0) + int(totals["rows"] or 0)


def _first_id_at(moment: datetime) -> uuid.UUID:
    """Return the lowest UUIDv7 of that millisecond: ids are ordered by time."""
    return uuid.UUID(int=int(moment.timestamp() * 1000) << 80)
