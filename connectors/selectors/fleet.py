"""Counts of the whole installation, for its operator: numbers alone, of no tenant in particular."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Min

from connectors.models import CallStatus, Connection, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from connectors.states import State
from mcphub.core.clock import now


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """`open_calls` by status, `connections` by state as the API names it."""

    open_calls: Mapping[str, int]
    oldest_queued_seconds: float
    connections: Mapping[str, int]


def fleet() -> Fleet:
    """Count what is open; three queries, all over what is open now."""
    calls = ToolCall.unscoped.filter(status__in=OPEN_STATUSES).order_by().values_list("status")
    queued = ToolCall.unscoped.filter(status=CallStatus.QUEUED)
    oldest = queued.aggregate(at=Min("created_at"))["at"]
    states = Connection.unscoped.order_by().values_list("state").annotate(count=Count("pk"))
    return Fleet(
        open_calls={status.value: 0 for status in OPEN_STATUSES}
        | dict(calls.annotate(count=Count("pk"))),
        oldest_queued_seconds=(now() - oldest).total_seconds() if oldest else 0.0,
        connections={state.wire: 0 for state in State}
        | {State(state).wire: count for state, count in states},
    )
