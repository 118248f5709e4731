"""The ledger as one principal sees it: the principal's own calls."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from connectors.models import CallStatus, ToolCall
from connectors.selectors.connections import rows_for
from mcphub.core.errors import NotFoundError
from tenants.principal import Principal

WIRE_STATUS = {CallStatus.CLAIMED.value: "running", CallStatus.SENT.value: "running"}
"""Stored status → word of the API, where they differ (API design §5)."""


def wire_status(stored: str) -> str:
    return WIRE_STATUS.get(stored, stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """What a listing of calls is narrowed to; `status` is a word of the API."""

    server: str | None = None
    status: str | None = None
    since: datetime | None = None
    method: str | None = None


def calls_for(principal: Principal, filters: CallFilter | None = None) -> QuerySet[ToolCall]:
    """Return the principal's calls, newest first, without their sealed content."""
    wanted = filters or CallFilter()
    rows = _own(principal).order_by("-id").defer("sealed_params", "sealed_outcome")
    if wanted.server is not None:
        rows = rows.filter(server=wanted.server)
    if wanted.method is not None:
        rows = rows.filter(method=wanted.method)
    if wanted.since is not None:
        rows = rows.filter(created_at__gte=wanted.since)
    if wanted.status is not None:
        stored = [value for value in CallStatus.values if wire_status(value) == wanted.status]
        rows = rows.filter(status__in=stored)
    return rows


def call_for(principal: Principal, call_id: uuid.UUID) -> ToolCall:
    """Return one call of the principal. Raises NotFoundError."""
    row = _own(principal).filter(pk=call_id).first()
    if row is None:
        raise NotFoundError
    return row


def _own(principal: Principal) -> QuerySet[ToolCall]:
    rows = ToolCall.objects.of(principal).filter(member_id=principal.member_id)
    if principal.allowed_connectors is None:
        return rows
    return rows.filter(connection_id__in=rows_for(principal).values("pk"))
