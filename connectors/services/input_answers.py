"""Answers to questions of servers: checked, stored once, and the call that waited goes on.

Web side, synchronous. A session that waits is rung; a call that waits without one (2026-07-28) is
queued again when its last question is answered, for whichever worker holds the connection then.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from django.db import transaction
from mcp_types import CreateMessageResult, CreateMessageResultWithTools, ListRootsResult
from pydantic import ValidationError

from connectors import events, queue
from connectors.argument_check import shared_checker
from connectors.models import CallStatus, Connection, InputKind, InputRequest, InputState, ToolCall
from connectors.models.sealed import open_json, seal_json
from connectors.services import input_rounds, input_store, tool_calls
from mcphub.core import clock
from mcphub.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    RpcError,
    UnavailableError,
)
from mcphub.core.types import JSONObject, JSONValue

VALUE_TYPES = (str, int, float, bool)
ROOT = "/arguments"


class Action(StrEnum):
    ACCEPT = "accept"
    DECLINE = "decline"
    CANCEL = "cancel"


STATES = {Action.DECLINE: InputState.DECLINED, Action.CANCEL: InputState.CANCELLED}


class InputClosedError(ConflictError):
    code = "input_closed"
    title = "The question has been answered already"


class InputExpiredError(ConflictError):
    code = "input_expired"
    title = "The question was not answered in time"


class InvalidAnswerError(InvalidInputError):
    """The answer does not fit what was asked; `errors` names properties."""

    code = "invalid_answer"
    title = "The answer does not fit what the server asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What somebody says to a question; `content` goes with `accept`."""

    action: Action
    content: JSONValue = None
    error: RpcError | None = None
    """With which a client refused a sampling or roots request; its server gets it as it is."""


def answer(row: InputRequest, given: Answer) -> InputRequest:
    """Store an answer and let what waits go on; returns the question as it stands.

    The caller has passed the tenant gate. Raises InputClosedError, InputExpiredError,
    InvalidAnswerError, which the question keeps as its `error`.
    """
    if row.state == InputState.EXPIRED or (
        row.state == InputState.OPEN and row.expires_at <= clock.now()
    ):
        raise InputExpiredError
    if row.state != InputState.OPEN:
        raise InputClosedError
    result = _checked(row, given) if given.error is None else input_rounds.refusal(given.error)
    if given.action is Action.ACCEPT and row.needs_completion and not row.is_consented:
        return _consent(row)
    state = STATES.get(given.action, InputState.ANSWERED)
    sealed = None if result is None else seal_json(row, "sealed_answer", result)
    with transaction.atomic():
        moved = input_store.open_inputs().filter(pk=row.pk)
        if not moved.update(state=state, sealed_answer=sealed, answered_at=clock.now(), error=None):
            raise InputClosedError
        row.refresh_from_db()
        events.announce_input("elicitation.closed", row)
    if row.worker:
        entry = queue.LaneEntry(kind=queue.EntryKind.INPUT, id=row.pk)
        queue.ring(row.worker, entry)
    elif row.call_id is not None:
        resume(row.call_id)
    return row


def complete(connection_id: uuid.UUID, elicitation_id: str) -> None:
    """Answer the questions whose interaction on a page the server has seen the end of."""
    rows = input_store.open_inputs().filter(
        connection_id=connection_id, elicitation_id=elicitation_id, kind=InputKind.URL
    )
    for row in rows.select_related("connection"):
        sealed = seal_json(row, "sealed_answer", {"action": Action.ACCEPT.value})
        still = input_store.open_inputs().filter(pk=row.pk)
        if still.update(state=InputState.ANSWERED, sealed_answer=sealed, answered_at=clock.now()):
            row.refresh_from_db()
            events.announce_input("elicitation.closed", row)
            if not row.worker and row.call_id is not None:
                resume(row.call_id)


def resume(call_id: uuid.UUID) -> bool:
    """Queue a parked call again when nothing is open that it waits for; idempotent.

    One whose questions were refused in a way that no server can be told of ends instead.
    """
    call = ToolCall.unscoped.filter(pk=call_id, worker="", status=CallStatus.INPUT_REQUIRED).first()
    if call is None:
        return False
    rows = list(InputRequest.unscoped.filter(call_id=call_id, round=call.rounds, worker=""))
    if any(_ends_call(row) for row in rows):
        return end_parked(call, CallStatus.CANCELLED, "input_declined")
    if any(row.state == InputState.EXPIRED for row in rows):
        return end_parked(call, CallStatus.EXPIRED, "input_expired")
    if any(row.state == InputState.OPEN for row in rows):
        return False
    parked = ToolCall.unscoped.filter(pk=call_id, worker="", status=CallStatus.INPUT_REQUIRED)
    deadline = clock.now() + timedelta(milliseconds=call.timeout_ms)
    if not parked.update(status=CallStatus.QUEUED, deadline_at=deadline):
        return False
    call.refresh_from_db()
    events.announce_call_resumed(events.CallNotice.of(call))
    _ring(call)
    return True


def end_parked(call: ToolCall, status: CallStatus, code: str) -> bool:
    """End a call that waits without a session, and close what it waits for."""
    parked = ToolCall.unscoped.filter(pk=call.pk, worker="", status=CallStatus.INPUT_REQUIRED)
    moved = parked.update(status=status, problem_code=code, finished_at=clock.now())
    input_store.close_of_call(call.pk)
    if moved:
        tool_calls.announce_end(ToolCall.unscoped.get(pk=call.pk))
    return bool(moved)


def _ends_call(row: InputRequest) -> bool:
    if row.state not in {InputState.DECLINED, InputState.CANCELLED}:
        return False
    return row.needs_completion or row.kind in {InputKind.SAMPLING, InputKind.ROOTS}


def _ring(call: ToolCall) -> None:
    """Ring for a queued call; what cannot be rung now is found by the reaper."""
    held_by = Connection.unscoped.filter(pk=call.connection_id).values_list("held_by", flat=True)
    try:
        workers = queue.live_workers_sync()
        holder = held_by.first() or ""
        is_alive = any(load.worker == holder for load in workers)
        worker = holder if is_alive else queue.choose_worker(workers).worker
    except UnavailableError:
        return
    entry = queue.LaneEntry(kind=queue.EntryKind.CALL, id=call.pk, connection_id=call.connection_id)
    queue.ring(worker, entry)


def _consent(row: InputRequest) -> InputRequest:
    """Note that the member opens the page; its end, or a second yes, is the answer."""
    if not input_store.open_inputs().filter(pk=row.pk).update(is_consented=True, error=None):
        raise InputClosedError
    row.refresh_from_db()
    events.announce_input("elicitation.updated", row)
    return row


# --- checks ---------------------------------------------------------------------------------------


def _checked(row: InputRequest, given: Answer) -> JSONObject | None:
    """Return the result that the server gets, None for a refusal. Raises InvalidAnswerError."""
    if given.action is not Action.ACCEPT:
        return None
    if row.kind == InputKind.URL:
        return {"action": Action.ACCEPT.value}
    content = given.content
    if not isinstance(content, dict):
        raise _refused(row, [FieldProblem(path="/content", message="This has to be an object.")])
    if row.kind == InputKind.FORM:
        _check_form(row, content)
        return {"action": Action.ACCEPT.value, "content": content}
    _check_model(row, content)
    return content


def _check_form(row: InputRequest, content: JSONObject) -> None:
    params = open_json(row, "sealed_params")["params"]
    schema = params.get("requestedSchema") if isinstance(params, dict) else None
    checked = shared_checker().check_blocking(schema, content)
    problems = [
        FieldProblem(path=f"/content{each.path.removeprefix(ROOT)}", message=each.message)
        for each in checked.problems
    ]
    problems += [
        FieldProblem(path=f"/content/{name}", message="A text, number, yes or no, or texts.")
        for name, value in content.items()
        if not _is_plain(value)
    ]
    if problems:
        raise _refused(row, problems)


def _is_plain(value: JSONValue) -> bool:
    """Whether a form may hold the value (client/elicitation: primitives and lists of texts)."""
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, VALUE_TYPES)


def _check_model(row: InputRequest, content: JSONObject) -> None:
    """Check an answer to a sampling or roots request against the protocol's own shapes."""
    shapes = (
        (CreateMessageResult, CreateMessageResultWithTools)
        if row.kind == InputKind.SAMPLING
        else (ListRootsResult,)
    )
    problems: list[FieldProblem] = []
    for shape in shapes:
        try:
            shape.model_validate(content)
        except ValidationError as exc:
            problems = problems or [
                FieldProblem(
                    path="/content/" + "/".join(map(str, each["loc"])), message=each["type"]
                )
                for each in exc.errors(include_url=False, include_context=False)[:20]
            ]
        else:
            return
    raise _refused(row, problems)


def _refused(row: InputRequest, problems: list[FieldProblem]) -> InvalidAnswerError:
    """Return the error for an answer, after the question has kept it for other tabs."""
    named: JSONObject = {_property_of(each): each.message for each in problems}
    error: JSONObject = {"message": InvalidAnswerError.title, "properties": named}
    if input_store.open_inputs().filter(pk=row.pk).update(error=error):
        row.error = error
        events.announce_input("elicitation.updated", row)
    return InvalidAnswerError(
        problems=[replace(each, property=_property_of(each)) for each in problems]
    )


def _property_of(problem: FieldProblem) -> str:
    return problem.path.removeprefix("/content").strip("/").split("/")[0]
