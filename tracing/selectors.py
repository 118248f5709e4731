"""Reads of the trace: the tenant gate. A principal sees the messages of its own sessions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from mcphub.core.errors import NotFoundError
from tenants.principal import Principal
from tracing.models import TraceEvent
from tracing.topics import visible_servers


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Which messages; None: any. `status` is `ok` or `error`; `text` is in the content."""

    server: str | None = None
    call: uuid.UUID | None = None
    direction: str | None = None
    type: str | None = None
    method: str | None = None
    status: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def events_for(principal: Principal, wanted: TraceFilter) -> QuerySet[TraceEvent]:
    """Return the messages that match, unordered; the id is the order (newest has the highest)."""
    rows = _rows_for(principal)
    conditions = {
        "server": wanted.server,
        "call_id": wanted.call,
        "direction": wanted.direction,
        "type": wanted.type,
        "method": wanted.method,
        "is_error": None if wanted.status is None else wanted.status == "error",
        "content__icontains": wanted.text,
        "at__gte": wanted.since,
        "at__lt": wanted.until,
    }
    return rows.filter(**{name: value for name, value in conditions.items() if value is not None})


def event_for(principal: Principal, trace_id: str) -> TraceEvent:
    """Return one message. Raises NotFoundError (unknown id or somebody else's, same answer)."""
    try:
        row = _rows_for(principal).filter(pk=uuid.UUID(trace_id)).first()
    except ValueError:
        row = None
    if row is None:
        raise NotFoundError
    return row


def oldest_of_newest(rows: QuerySet[TraceEvent], count: int) -> uuid.UUID | None:
    """Return the id of the oldest among the newest `count`; None when there are fewer."""
    return rows.order_by("-pk").values_list("pk", flat=True)[count - 1 : count].first()


def _rows_for(principal: Principal) -> QuerySet[TraceEvent]:
    rows = TraceEvent.objects.of(principal).filter(member_id=principal.member_id)
    servers = visible_servers(principal)
    return rows if servers is None else rows.filter(server__in=list(servers))
