"""Finding connections that nobody takes care of: their worker died, or their retry was forgotten.

Idempotent; the sweep may run anywhere, any number of times at once.
"""

from __future__ import annotations

import logging
import uuid
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from connectors import queue
from connectors.models import CallStatus, Connection, ToolCall
from connectors.services import leases, reopening
from connectors.states import State
from mcphub.core import clock
from mcphub.core.errors import UnavailableError
from oauth.records import grants

logger = logging.getLogger(__name__)

ASKED_SECONDS = 5.0
"""How long a connect that was asked for may be under way before it is asked for again."""
FORGOTTEN_SECONDS = 60.0
"""How late a living holder may be with its next step before it is reminded."""
LARGEST = 500

IN_FLIGHT = (CallStatus.CLAIMED, CallStatus.SENT, CallStatus.INPUT_REQUIRED)


def sweep_leases() -> int:
    """Have every wanted connection opened that nobody takes care of; returns how many were found.

    Raises UnavailableError while Redis is away.
    """
    found = 0
    for worker in sorted(queue.dead_workers(_holders())):
        ids = leases.hand_over_all(worker)
        logger.warning("worker is dead worker=%s connections=%d", worker, len(ids))
        found += len(ids)
        _send(ids)
    waiting = _unattended()
    _send(waiting)
    return found + len(waiting) + _remind_holders() + _connect_signed_in()


def predecessors(slot: str, worker: str) -> set[str]:
    """Return earlier workers of `slot` that still hold connections or calls; two queries."""
    calls = ToolCall.unscoped.filter(status__in=IN_FLIGHT).values_list("worker", flat=True)
    known = _holders() | set(calls.distinct())
    return {name for name in known if name != worker and name.rpartition("-")[0] == slot}


def ask_others(ids: list[uuid.UUID]) -> None:
    """Ask any worker to take over; what cannot be sent is found by the sweep."""
    _send(ids)


def _holders() -> set[str]:
    rows = Connection.unscoped.exclude(held_by="")
    return set(rows.values_list("held_by", flat=True).distinct())


def _wanted() -> QuerySet[Connection]:
    return Connection.unscoped.filter(
        is_wanted=True, state__in=[State.CONNECTING.value, State.CONNECTED.value]
    )


def _unattended() -> list[uuid.UUID]:
    now = clock.now()
    is_due = Q(next_retry_at__lte=now) | Q(
        next_retry_at__isnull=True, updated_at__lte=now - timedelta(seconds=ASKED_SECONDS)
    )
    rows = _wanted().filter(is_due, held_by="").order_by("updated_at")
    return list(rows.values_list("pk", flat=True)[:LARGEST])


def _remind_holders() -> int:
    """Ring the lanes of holders that are late with an attempt; they do it again or at last."""
    late = clock.now() - timedelta(seconds=FORGOTTEN_SECONDS)
    is_late = Q(next_retry_at__lte=late) | Q(next_retry_at__isnull=True, updated_at__lte=late)
    rows = _wanted().filter(is_late, state=State.CONNECTING.value).exclude(held_by="")
    found = list(rows.values_list("pk", "held_by")[:LARGEST])
    for connection_id, holder in found:
        entry = queue.LaneEntry(kind=queue.EntryKind.CONNECT, id=connection_id)
        queue.ring(holder, entry)
    return len(found)


def _connect_signed_in() -> int:
    """Open what a member has signed in for while the process that noted it died."""
    rows = Connection.unscoped.filter(
        is_wanted=True,
        state__in=[State.AUTH_REQUIRED.value, State.AUTH_PENDING.value],
        updated_at__lte=clock.now() - timedelta(seconds=ASKED_SECONDS),
    )
    since = dict(rows.values_list("pk", "updated_at")[:LARGEST])
    ready = grants.issued_since(since)
    for row in Connection.unscoped.filter(pk__in=ready):
        with transaction.atomic():
            reopening.reopen(row)
    return len(ready)


def _send(ids: list[uuid.UUID]) -> None:
    for connection_id in ids:
        try:
            queue.send_recover(connection_id)
        except UnavailableError:
            logger.warning("nobody could be asked to recover connections=%d", len(ids))
            return
