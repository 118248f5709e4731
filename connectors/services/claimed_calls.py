"""What the worker says and stores of a call that it has claimed."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

from django.conf import settings

from connectors import events
from connectors.models import CallStatus, ToolCall
from connectors.services import outcomes, quotas
from connectors.services.endings import Ending
from connectors.services.ledger import Claimed, Finish, Progress
from mcphub.core.clock import now
from mcphub.core.types import JSONObject

LARGE_BYTES = 256 << 10
PICK_UP = 1000


def longest_left(call: Claimed) -> float:
    """Seconds until the call is over whatever progress it makes."""
    latest = call.created_at + timedelta(seconds=settings.CALL_TIMEOUT_MAX)
    return max(0.0, (max(latest, call.deadline_at) - now()).total_seconds())


async def finish_of(call: Claimed, ending: Ending, progress: JSONObject | None) -> Finish:
    sealed = None
    if ending.outcome_json is not None:
        if len(ending.outcome_json) < LARGE_BYTES:
            sealed = outcomes.seal_outcome(call.id, ending.outcome_json)
        else:
            sealed = await asyncio.to_thread(outcomes.seal_outcome, call.id, ending.outcome_json)
    return Finish(
        fence=call.fence,
        status=ending.status,
        sealed_outcome=sealed,
        task_key=ending.task_key,
        is_tool_error=ending.is_tool_error,
        problem_code=ending.problem_code,
        problem_detail=ending.problem_detail,
        was_sent=ending.was_sent,
        progress=progress,
    )


def notice(call: Claimed, ending: Ending | None = None) -> events.CallNotice:
    return events.CallNotice(
        id=call.id,
        tenant_id=call.tenant_id,
        member_id=call.member_id,
        server=call.server,
        method=call.method,
        target=call.target,
        attempt=call.attempt,
        status=ending.status if ending else CallStatus.SENT,
        is_tool_error=ending.is_tool_error if ending else False,
        problem_code=ending.problem_code if ending else "",
        problem_detail=ending.problem_detail if ending else "",
    )


def place(call: Claimed) -> quotas.Place:
    return quotas.Place(
        call_id=call.id,
        tenant_id=call.tenant_id,
        connection_id=call.connection_id,
        worker=call.worker,
    )


def queued_of(connection_id: uuid.UUID) -> list[uuid.UUID]:
    rows = ToolCall.unscoped.filter(connection_id=connection_id, status=CallStatus.QUEUED)
    return list(rows.order_by("id").values_list("pk", flat=True)[:PICK_UP])


def progress_of(call: Claimed, kept: JSONObject, asked_seconds: float) -> Progress:
    """Return what the row keeps of a progress notification, and the deadline that it moves."""
    latest = now() + timedelta(seconds=longest_left(call) + asked_seconds)
    deadline = min(latest, now() + timedelta(milliseconds=call.timeout_ms))
    return Progress(fence=call.fence, progress=kept, deadline_at=deadline)


def disown(call_id: uuid.UUID, worker: str) -> bool:
    """Give back a call that this worker may have claimed without hearing of it.

    Only for the task that alone claims the call in this worker, and before it has begun.
    """
    rows = ToolCall.unscoped.filter(pk=call_id, worker=worker)
    rows = rows.filter(status__in=[CallStatus.CLAIMED, CallStatus.SENT])
    return bool(rows.update(status=CallStatus.QUEUED, worker="", claimed_at=None, sent_at=None))
