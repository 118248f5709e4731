"""Removal of what is past its time: ended calls, connect sessions; traces have their own."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings

from connectors.models import CallStatus, InputRequest, InputState, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from mcphub.core import clock
from tenants import connect_sessions

logger = logging.getLogger(__name__)

BATCH = 1000
MOST_BATCHES = 100
ENDED = tuple(status for status in CallStatus if status not in OPEN_STATUSES)


def prune() -> int:
    """Remove ended calls past MCPHUB_CALL_RETENTION and old connect sessions; returns how many."""
    count = prune_calls() + connect_sessions.prune()
    if count:
        logger.info("pruned rows=%d", count)
    return count


def prune_calls() -> int:
    """Remove calls in small transactions, so that nobody waits for a long one."""
    oldest = clock.now() - timedelta(seconds=settings.CALL_RETENTION)
    old = ToolCall.unscoped.filter(created_at__lt=oldest, status__in=ENDED)
    count = 0
    for _ in range(MOST_BATCHES):
        ids = list(old.values_list("pk", flat=True)[:BATCH])
        count += ToolCall.unscoped.filter(pk__in=ids).delete()[0]
        if len(ids) < BATCH:
            break
    questions = InputRequest.unscoped.filter(created_at__lt=oldest)
    questions.exclude(state=InputState.OPEN).delete()
    return count
