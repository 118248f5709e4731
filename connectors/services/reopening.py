"""Asking for a session to be opened anew, whatever the connection's state; a worker does it."""

from __future__ import annotations

import logging
import uuid
from functools import partial

from django.db import transaction
from django.db.models import F

from connectors import queue
from connectors.models import Connection
from connectors.services.transitions import transition
from connectors.states import State
from mcphub.core.errors import UnavailableError

logger = logging.getLogger(__name__)


def reopen(row: Connection) -> None:
    """Ask for a new session, whatever the state; inside a transaction.

    The epoch moves on, so that an opening that is under way with older settings does not count.
    """
    transition(
        row.pk,
        State.CONNECTING,
        epoch=F("epoch") + 1,
        is_wanted=True,
        attempt=0,
        next_retry_at=None,
        last_error=None,
        connected_at=None,
        sealed_session=None,
    )
    transaction.on_commit(partial(ask_to_open, row.pk, row.held_by))


def ask_to_open(connection_id: uuid.UUID, holder: str) -> None:
    """Tell the holder, or any worker when nobody alive holds it; never raises."""
    try:
        if holder and any(load.worker == holder for load in queue.live_workers_sync()):
            entry = queue.LaneEntry(kind=queue.EntryKind.CONNECT, id=connection_id)
            queue.ring(holder, entry)
        else:
            queue.send_connect(connection_id)
    except UnavailableError:
        logger.warning("nobody could be asked to connect connection=%s", connection_id)
