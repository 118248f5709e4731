"""The one door to a connection's state: a conditional UPDATE along the legal moves."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from connectors import events
from connectors.models import Connection
from connectors.services import notices, timeline
from connectors.services.notices import Notice
from connectors.services.timeline import Step
from connectors.states import State, may_move
from mcphub.core import clock

ANY: frozenset[State] = frozenset(State)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A lease as its holder knows it; a write under an older epoch is refused."""

    worker: str
    epoch: int


def transition(
    connection_id: uuid.UUID,
    to: State,
    *,
    expect: Iterable[State] = ANY,
    fence: Fence | None = None,
    steps: Sequence[Step] = (),
    **fields: Any,
) -> bool:
    """Move a connection to `to` and store `fields` with it; False when it was not to be.

    The row moves only from the states of `expect` that may move there, and with a `fence` only
    while the lease is still that one. Writes the timeline and announces `server.state` after the
    commit.
    """
    sources = [state.value for state in expect if may_move(state, to)]
    rows = Connection.unscoped.filter(pk=connection_id, state__in=sources)
    if fence is not None:
        rows = rows.filter(held_by=fence.worker, epoch=fence.epoch)
    with transaction.atomic():
        if not rows.update(state=to.value, updated_at=clock.now(), **fields):
            return False
        row = Connection.unscoped.get(pk=connection_id)
        timeline.write(row, [*steps, _state_step(row)])
        events.announce_server(row)
        notices.after_commit(row, Notice(connection_id=row.pk, method=notices.CONNECTION))
    return True


def _state_step(row: Connection) -> Step:
    detail: dict[str, Any] = {"state": State(row.state).wire}
    if row.last_error and row.state != State.CONNECTED.value:
        detail["code"] = row.last_error.get("code")
    if row.attempt:
        detail["attempt"] = row.attempt
    if row.next_retry_at:
        detail["nextRetryAt"] = row.next_retry_at.isoformat()
    return Step(kind="state", detail=detail)
