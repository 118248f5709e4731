"""Finding questions that nobody closes any more, and parked calls that could go on; idempotent."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q

from connectors.models import CallStatus, InputRequest, InputState, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.services import input_answers, input_store
from mcphub.core import clock

OVERDUE = timedelta(seconds=15)
"""How late a living worker may be with closing what its sessions wait for."""
LARGEST = 500

logger = logging.getLogger(__name__)


def sweep(dead: Collection[str] = ()) -> int:
    """Run every rule once; returns how many questions and calls were moved."""
    return _expire() + _close_orphans(dead) + _resume()


def workers_of_open() -> set[str]:
    """Return the workers whose sessions wait for answers."""
    rows = input_store.open_inputs().exclude(worker="")
    return set(rows.values_list("worker", flat=True).distinct())


def close_of_worker(worker: str) -> int:
    """Close what the sessions of a worker waited for that has ended."""
    rows = input_store.open_inputs().filter(worker=worker).values_list("pk", flat=True)
    return len(input_store.close(list(rows[:LARGEST]), InputState.CANCELLED))


def _expire() -> int:
    """Close what is past its time; a session's own worker does so first."""
    at = clock.now()
    is_late = Q(worker="", expires_at__lte=at) | Q(expires_at__lte=at - OVERDUE)
    late = list(input_store.open_inputs().filter(is_late).values_list("pk", flat=True)[:LARGEST])
    closed = input_store.close(late, InputState.EXPIRED)
    for row in closed:
        if row.call_id is not None and not row.worker:
            input_answers.resume(row.call_id)
    return len(closed)


def _close_orphans(dead: Collection[str]) -> int:
    """Close what belongs to a call that has ended, or to a session whose worker has."""
    goes_on = ToolCall.unscoped.filter(pk=OuterRef("call_id"), status__in=OPEN_STATUSES)
    is_over = Q(call_id__isnull=False) & ~Q(Exists(goes_on))
    rows = (
        input_store.open_inputs()
        .filter(is_over | Q(worker__in=list(dead)))
        .values_list("pk", flat=True)
    )
    return len(input_store.close(list(rows[:LARGEST]), InputState.CANCELLED))


def _resume() -> int:
    """Queue parked calls again whose last answer was stored by somebody who died right after."""
    is_open = InputRequest.unscoped.filter(call_id=OuterRef("pk"), state=InputState.OPEN)
    rows = ToolCall.unscoped.filter(status=CallStatus.INPUT_REQUIRED, worker="")
    ids = list(rows.exclude(Exists(is_open)).values_list("pk", flat=True)[:LARGEST])
    return sum(input_answers.resume(pk) for pk in ids)
