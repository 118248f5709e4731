"""The timeline of a connection: why it is in its state, step by step, without upstream text."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from connectors.models import Connection, TimelineEntry
from mcphub.core import clock, ids
from mcphub.core.types import JSONObject

LONGEST = 200
"""Entries that are kept of one connection; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step that was taken; `detail` holds codes, numbers and our own words."""

    kind: str
    detail: JSONObject = field(default_factory=dict)
    at: datetime = field(default_factory=clock.now)


def write(connection: Connection, steps: Sequence[Step]) -> None:
    """Add steps to a connection's timeline and drop what is too old; two statements."""
    if not steps:
        return
    kept = steps[-LONGEST:]
    in_order = sorted(ids.new_uuid() for _ in kept)  # ids of one millisecond have no order
    TimelineEntry.unscoped.bulk_create(
        TimelineEntry(
            id=pk,
            tenant_id=connection.tenant_id,
            connection_id=connection.pk,
            at=step.at,
            kind=step.kind[:40],
            detail=step.detail,
        )
        for pk, step in zip(in_order, kept, strict=True)
    )
    _trim(connection.pk)


def write_for(connection_id: uuid.UUID, steps: Iterable[Step]) -> None:
    """As `write`, for a connection that may be gone by now."""
    row = Connection.unscoped.filter(pk=connection_id).only("pk", "tenant_id").first()
    if row is not None:
        write(row, list(steps))


def _trim(connection_id: uuid.UUID) -> None:
    entries = TimelineEntry.unscoped.filter(connection_id=connection_id)
    oldest_kept = entries.order_by("-id").values_list("pk", flat=True)[LONGEST - 1 : LONGEST]
    for pk in oldest_kept:
        entries.filter(pk__lt=pk).delete()
