"""Questions of servers as rows: asked, closed, and the call that waits for them; synchronous.

A call is parked in the same transaction that stores its questions. Everything is a conditional
UPDATE, so that an answer, an expiry and a worker's end can meet in any order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction

from connectors import events, selectors
from connectors.models import (
    CallStatus,
    Connection,
    InputKind,
    InputRequest,
    InputState,
    ToolCall,
)
from connectors.models.sealed import open_json, seal_json
from connectors.services import input_rounds, replies
from connectors.services.input_rounds import Asked, Round
from connectors.services.ledger import Claimed
from connectors.services.outcomes import CallOutcome
from mcphub.core import clock
from mcphub.core.errors import LimitError, UnavailableError, UpstreamError
from mcphub.core.keys import key_ring
from mcphub.core.types import JSONObject, JSONValue

WAITING = (CallStatus.SENT, CallStatus.INPUT_REQUIRED)


class TooManyInputsError(UpstreamError):
    code = "too_many_inputs"
    title = "The server has asked too many questions that nobody has answered yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Whose session asks, and for which attempt of which call, if that is known."""

    tenant_id: uuid.UUID
    member_id: uuid.UUID
    connection_id: uuid.UUID
    worker: str
    call_id: uuid.UUID | None = None
    attempt: int = 0
    round: int = 0


def open_in_session(asker: Asker, asked: Asked) -> InputRequest:
    """Store a question that a session waits for, and park its call.

    Raises LimitError; UnavailableError when the call is not this worker's any more.
    """
    with transaction.atomic():
        row = _new_row(asker, asked)
        _check_room([row])
        row.save(force_insert=True)
        if asker.call_id is not None and not _parked(asker, row.expires_at):
            raise UnavailableError("The call has ended.")
        _announce_asked([row])
    return row


def park_round(call: Claimed, found: Round) -> bool:
    """Store the questions of a round and let go of the call; False: it is not ours any more.

    Without a question it is queued again at once. Raises TooManyInputsError, UnavailableError.
    """
    asker = Asker(
        tenant_id=call.tenant_id,
        member_id=call.member_id,
        connection_id=call.connection_id,
        worker="",
        call_id=call.id,
        attempt=call.attempt,
        round=call.rounds + 1,
    )
    try:
        with transaction.atomic():
            rows = [_new_row(asker, asked) for asked in found.asked]
            _check_room(rows)
            held = ToolCall.unscoped.filter(
                pk=call.id, worker=call.worker, attempt=call.attempt, status=CallStatus.SENT
            )
            if not held.update(**_fields_of(call, found, asker.round)):
                return False
            InputRequest.unscoped.bulk_create(rows)
            _announce_asked(rows)
    except LimitError as exc:
        raise TooManyInputsError(was_answered=True) from exc
    except DatabaseError as exc:
        raise UnavailableError from exc
    return True


def next_params(call: Claimed, params: JSONObject) -> JSONObject:
    """Return what a call is sent with after its round. Raises CredentialUnreadableError."""
    state = _open_state(call)
    rows = InputRequest.unscoped.filter(
        call_id=call.id, round=call.rounds, worker="", needs_completion=False
    )
    answers = {row.key: answer_of(row) for row in rows}
    return input_rounds.next_params(params, state, answers)


def answer_of(row: InputRequest) -> JSONObject:
    """Return the result for the server. Raises ProtocolError where a refusal has none."""
    if row.state != InputState.ANSWERED:
        if row.sealed_answer is not None:
            raise input_rounds.refused_with(open_json(row, "sealed_answer"))
        return input_rounds.refusal_of(InputKind(row.kind), InputState(row.state))
    return open_json(row, "sealed_answer")


def go_on(asker: Asker) -> str:
    """Say that the server works on: nothing is open that its call waits for.

    Returns who waits for the call now ("": nobody, or it does not go on).
    """
    if asker.call_id is None or open_inputs().filter(call_id=asker.call_id).exists():
        return ""
    rows = _held(asker).filter(status=CallStatus.INPUT_REQUIRED)
    timeout = rows.values_list("timeout_ms", flat=True).first() or 0
    deadline = clock.now() + timedelta(milliseconds=timeout)
    if not rows.update(status=CallStatus.SENT, deadline_at=deadline):
        return ""
    call = ToolCall.unscoped.get(pk=asker.call_id)
    events.announce_call_resumed(events.CallNotice.of(call))
    return call.reply_to


def open_inputs() -> Any:
    return InputRequest.unscoped.filter(state=InputState.OPEN)


def close(ids: Iterable[uuid.UUID], state: InputState) -> list[InputRequest]:
    """Move open questions to `state` and announce each; those that somebody else moved stay."""
    closed = []
    for pk in ids:
        moved = open_inputs().filter(pk=pk).update(state=state, answered_at=clock.now())
        if moved:
            row = InputRequest.unscoped.select_related("connection").get(pk=pk)
            events.announce_input("elicitation.closed", row)
            closed.append(row)
    return closed


def close_of_call(call_id: uuid.UUID, state: InputState = InputState.CANCELLED) -> None:
    close(list(open_inputs().filter(call_id=call_id).values_list("pk", flat=True)), state)


def settled(ids: Sequence[uuid.UUID]) -> list[InputRequest]:
    """Return which of these are not open any more; what is past its time is closed first."""
    late = open_inputs().filter(pk__in=ids, expires_at__lte=clock.now())
    close(list(late.values_list("pk", flat=True)), InputState.EXPIRED)
    return list(InputRequest.unscoped.filter(pk__in=ids).exclude(state=InputState.OPEN))


def _new_row(asker: Asker, asked: Asked) -> InputRequest:
    at = clock.now()
    row = InputRequest(
        tenant_id=asker.tenant_id,
        member_id=asker.member_id,
        connection_id=asker.connection_id,
        call_id=asker.call_id,
        attempt=asker.attempt,
        round=asker.round,
        worker=asker.worker,
        key=asked.key,
        kind=asked.kind,
        elicitation_id=asked.elicitation_id,
        needs_completion=asked.needs_completion,
        created_at=at,
        expires_at=at + timedelta(seconds=settings.INPUT_EXPIRY),
    )
    content: JSONObject = {"method": asked.method, "params": _shown(row, asked.params)}
    row.sealed_params = seal_json(row, "sealed_params", content) or b""
    return row


def _shown(row: InputRequest, params: JSONObject) -> JSONValue:
    """Return what is asked without the secrets of the connection, should a server repeat them."""
    connection = Connection.unscoped.select_related("connector", "custom_server").get(
        pk=row.connection_id
    )
    return selectors.kept_secrets(selectors.spec_for(connection)).hidden(params)


def _check_room(rows: Sequence[InputRequest]) -> None:
    if not rows:
        return
    waiting = open_inputs().filter(connection_id=rows[0].connection_id).count()
    if waiting + len(rows) > settings.CONNECTION_MAX_INPUTS:
        raise LimitError("Too many questions of this server are open.")


def _held(asker: Asker) -> Any:
    return ToolCall.unscoped.filter(
        pk__in=[asker.call_id],
        worker=asker.worker,
        attempt=asker.attempt,
        status__in=WAITING,
    )


def _parked(asker: Asker, until: datetime) -> bool:
    return bool(_held(asker).update(status=CallStatus.INPUT_REQUIRED, deadline_at=until))


def _fields_of(call: Claimed, found: Round, number: int) -> dict[str, Any]:
    state = json.dumps({"requestState": found.request_state}).encode()
    fields: dict[str, Any] = {
        "status": CallStatus.QUEUED if found.is_only_state else CallStatus.INPUT_REQUIRED,
        "worker": "",
        "rounds": number,
        "stream": None,
        "sealed_state": key_ring().seal(state, owner=_state_owner(call.id)),
    }
    if not found.is_only_state:
        fields["deadline_at"] = clock.now() + timedelta(seconds=settings.INPUT_EXPIRY)
    return fields


def _open_state(call: Claimed) -> str | None:
    if call.sealed_state is None:
        return None
    opened = key_ring().unseal(call.sealed_state, owner=_state_owner(call.id))
    state: str | None = json.loads(opened)["requestState"]
    return state


def _state_owner(call_id: uuid.UUID) -> str:
    return f"tool_call:{call_id}:state"


def _announce_asked(rows: Sequence[InputRequest]) -> None:
    """Tell of new questions, and who waits for the call that it is parked; after the commit."""
    for row in rows:
        events.announce_input("elicitation.created", row)
    call_id = rows[0].call_id if rows else None
    if call_id is None:
        return
    call = ToolCall.unscoped.defer("sealed_params").get(pk=call_id)
    events.announce_call_parked(events.CallNotice.of(call))
    outcome = CallOutcome(id=call.pk, status=CallStatus.INPUT_REQUIRED)
    transaction.on_commit(lambda: replies.publish_now(call.reply_to, outcome))
