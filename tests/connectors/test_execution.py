"""A call from submit to its end, with a worker in the same loop."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import timedelta

import pytest
from django.db import DatabaseError

from connectors.models import CallStatus, ToolCall
from connectors.queue import EntryKind, LaneEntry
from connectors.services import claimed_calls, execution, ledger, tool_calls
from connectors.services.endings import HeldElsewhereError
from connectors.services.outcomes import REPLY_BYTES, CallOutcome, outcome_of
from connectors.services.tool_calls import Submitted
from connectors.upstream.contract import StreamPosition, UpstreamRequest
from mcphub.core.clock import now
from mcphub.core.errors import ProtocolError, UpstreamError, UpstreamTimeoutError
from mcphub.core.types import JSONObject
from tests.connectors.call_stack import RESULT, Gate, Stack

pytestmark = pytest.mark.django_db(transaction=True)


async def ended(submitted: Submitted, seconds: float = 5) -> CallOutcome:
    outcome = await tool_calls.wait(submitted.id, seconds)
    assert outcome is not None
    return outcome


async def test_a_submitted_call_comes_back_with_the_servers_result(stack: Stack) -> None:
    await stack.start_worker()
    submitted = await stack.submit({"q": "open issues"})
    outcome = await ended(submitted)
    assert outcome.status is CallStatus.SUCCEEDED
    assert json.loads(outcome.outcome_json or b"") == {"result": RESULT}
    assert stack.sessions.requests[0].params == {
        "name": "search",
        "arguments": {"q": "open issues"},
    }
    row = await stack.row(submitted.id)
    assert (row.status, row.attempt, row.worker) == ("succeeded", 1, "w1")
    assert outcome_of(row).outcome_json == outcome.outcome_json


async def test_a_result_too_large_for_a_reply_is_read_from_the_row(stack: Stack) -> None:
    text = "é" * REPLY_BYTES

    async def answer(request: UpstreamRequest) -> JSONObject:
        return {"content": [{"type": "text", "text": text}]}

    stack.sessions.answer = answer
    await stack.start_worker()
    outcome = await ended(await stack.submit())
    assert json.loads(outcome.outcome_json or b"")["result"]["content"][0]["text"] == text


async def test_ten_rings_of_one_call_execute_it_once(stack: Stack) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    submitted = await stack_submit_without_worker(stack)
    entry = LaneEntry(kind=EntryKind.CALL, id=submitted.id, connection_id=stack.connection.id)
    for _ in range(10):
        stack.executor.on_entry(entry)
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    stack.executor.on_entry(entry)  # a redelivery while it runs
    gate.may_answer.set()
    assert (await ended(submitted)).status is CallStatus.SUCCEEDED
    stack.executor.on_entry(entry)  # and one after its end
    assert await stack.executor.idle(5)
    assert stack.sessions.executions == {submitted.id: 1}
    assert stack.executor.counts.duplicates == 11


async def test_two_hundred_concurrent_calls_are_answered_each_with_its_own(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        return {"echo": request.params["arguments"]}

    stack.sessions.answer = answer
    await stack.start_worker()
    submitted = await asyncio.gather(*(stack.submit({"n": n}) for n in range(200)))
    outcomes = await asyncio.gather(*(ended(each, 20) for each in submitted))
    echoed = [json.loads(each.outcome_json or b"")["result"]["echo"]["n"] for each in outcomes]
    assert echoed == list(range(200))
    assert set(stack.sessions.executions.values()) == {1}


async def test_a_cancelled_running_call_ends_and_says_that_it_had_been_sent(stack: Stack) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    submitted = await stack.submit()
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    asked = await stack.threads.run(tool_calls.cancel, stack.principal, submitted.id)
    assert (asked.status, asked.is_cancel_requested) == ("sent", True)
    outcome = await ended(submitted)
    assert (outcome.status, outcome.problem_code) == (CallStatus.CANCELLED, "cancelled")
    assert (await stack.row(submitted.id)).sent_at is not None


async def test_a_call_cancelled_while_its_session_opens_is_never_sent(stack: Stack) -> None:
    opening = Gate()

    async def open_session() -> None:
        opening.is_asked.set()
        await opening.may_answer.wait()

    stack.sessions.is_closed, stack.sessions.opening = True, open_session
    await stack.start_worker()
    submitted = await stack.submit()
    await asyncio.wait_for(opening.is_asked.wait(), 5)
    await stack.threads.run(tool_calls.cancel, stack.principal, submitted.id)
    outcome = await ended(submitted)
    assert outcome.status is CallStatus.CANCELLED
    assert not stack.sessions.executions
    assert (await stack.row(submitted.id)).sent_at is None


async def test_a_closed_session_is_opened_before_the_call_is_marked_sent(stack: Stack) -> None:
    seen: list[str] = []

    async def open_session() -> None:
        seen.append((await stack.threads.run(ToolCall.unscoped.get)).status)

    async def answer(request: UpstreamRequest) -> JSONObject:
        seen.append((await stack.threads.run(ToolCall.unscoped.get)).status)
        return RESULT

    stack.sessions.is_closed = True
    stack.sessions.opening, stack.sessions.answer = open_session, answer
    await stack.start_worker()
    assert (await ended(await stack.submit())).status is CallStatus.SUCCEEDED
    assert seen == ["claimed", "sent"]


async def test_a_request_that_never_left_is_tried_again_as_another_attempt(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        if request.attempt == 1:
            raise UpstreamError(code="session_lost", was_sent=False)
        return RESULT

    stack.sessions.answer = answer
    await stack.start_worker()
    submitted = await stack.submit()
    assert (await ended(submitted)).status is CallStatus.SUCCEEDED
    assert (await stack.row(submitted.id)).attempt == 2


async def test_a_broken_answer_leaves_the_outcome_unknown_and_is_not_repeated(
    stack: Stack,
) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        raise UpstreamError(was_sent=True)

    stack.sessions.answer = answer
    await stack.start_worker()
    submitted = await stack.submit()
    outcome = await ended(submitted)
    assert (outcome.status, outcome.problem_code) == (
        CallStatus.OUTCOME_UNKNOWN,
        "upstream_unreachable",
    )
    assert stack.sessions.executions == {submitted.id: 1}


async def test_a_timeout_after_sending_is_an_unknown_outcome_with_its_code(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        raise UpstreamTimeoutError(was_sent=True)

    stack.sessions.answer = answer
    await stack.start_worker()
    outcome = await ended(await stack.submit())
    assert (outcome.status, outcome.problem_code) == (CallStatus.OUTCOME_UNKNOWN, "timeout")


async def test_the_peers_error_arrives_whole_and_apart_from_the_hubs(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        raise ProtocolError(rpc_code=-32602, rpc_message="no such thing", rpc_data={"k": 1})

    stack.sessions.answer = answer
    await stack.start_worker()
    outcome = await ended(await stack.submit())
    assert (outcome.status, outcome.problem_code) == (CallStatus.FAILED, "protocol_error")
    assert json.loads(outcome.outcome_json or b"") == {
        "error": {"code": -32602, "message": "no such thing", "data": {"k": 1}}
    }


async def test_one_failing_call_leaves_its_neighbours_alone(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        if request.params["arguments"] == {"n": 7}:
            raise RuntimeError("a bug of ours")
        return RESULT

    stack.sessions.answer = answer
    await stack.start_worker()
    submitted = await asyncio.gather(*(stack.submit({"n": n}) for n in range(20)))
    outcomes = await asyncio.gather(*map(ended, submitted))
    statuses = [outcome.status for outcome in outcomes]
    assert statuses.pop(7) is CallStatus.OUTCOME_UNKNOWN
    assert set(statuses) == {CallStatus.SUCCEEDED}


async def test_a_call_past_its_deadline_expires_without_being_sent(stack: Stack) -> None:
    submitted = await stack_submit_without_worker(stack)
    await stack.threads.run(
        ToolCall.unscoped.filter(pk=submitted.id).update,
        deadline_at=now() - timedelta(seconds=1),
    )
    await stack.executor.pick_up(stack.connection.id)
    outcome = await ended(submitted)
    assert (outcome.status, outcome.problem_code) == (CallStatus.EXPIRED, "timeout")
    assert not stack.sessions.executions
    assert (await stack.row(submitted.id)).sent_at is None


async def test_progress_moves_the_deadline_of_the_row(stack: Stack) -> None:
    gate = Gate()

    async def answer(request: UpstreamRequest) -> JSONObject:
        assert request.on_progress is not None
        request.on_progress({"progress": 1, "total": 2, "message": "half"})
        return await gate(request)

    stack.sessions.answer = answer
    await stack.start_worker()
    submitted = await stack.submit(timeout=30.0)
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    gate.may_answer.set()
    await ended(submitted)
    assert await stack.executor.idle(5)
    row = await stack.row(submitted.id)
    assert row.progress in (None, {"progress": 1.0, "total": 2.0, "message": "half"})
    assert row.deadline_at >= row.created_at + timedelta(seconds=30)


async def test_a_call_held_by_another_worker_is_given_back_and_rung_there(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_session() -> None:
        raise HeldElsewhereError("w2")

    stack.sessions.is_closed, stack.sessions.opening = True, open_session
    submitted = await stack_submit_without_worker(stack)
    await stack.executor.pick_up(stack.connection.id)
    assert await stack.executor.idle(5)
    row = await stack.row(submitted.id)
    assert (row.status, row.worker, row.attempt) == ("queued", "", 1)
    assert await stack.lane_length("w2") == 1


async def test_draining_ends_what_was_sent_as_unknown_and_leaves_the_rest_queued(
    stack: Stack,
) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    sent = await stack.submit()
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    await stack.executor.drain(0.05)
    assert (await ended(sent)).status is CallStatus.OUTCOME_UNKNOWN
    late = await stack.submit()
    assert await tool_calls.wait(late.id, 0.05) is None
    assert (await stack.row(late.id)).status == "queued"


async def test_draining_leaves_an_answer_that_can_be_resumed_to_the_next_holder(
    stack: Stack,
) -> None:
    asked: asyncio.Future[UpstreamRequest] = asyncio.get_running_loop().create_future()

    async def stream(request: UpstreamRequest) -> JSONObject:
        assert request.on_position is not None
        for event in ("1", "2"):
            request.on_position(StreamPosition(session="s", request=7, event=event))
        asked.set_result(request)
        await asyncio.Event().wait()
        return {}

    stack.sessions.answer = stream
    await stack.start_worker()
    sent = await stack.submit()
    request = await asyncio.wait_for(asked, 5)
    await stack.executor.drain(0.05)
    row = await stack.row(sent.id)
    assert (row.status, row.worker) == ("queued", "")
    assert row.sent_at is not None
    assert row.stream == {"session": "s", "request": 7, "event": "2"}
    assert request.is_left()


async def test_an_end_is_kept_until_the_database_is_back(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = ledger.finish_now
    failures = [DatabaseError("gone"), DatabaseError("gone")]

    def fail_twice(ends: list[ledger.Finish]) -> list[bool]:
        if failures:
            raise failures.pop()
        return written(ends)

    monkeypatch.setitem(ledger._WRITES, ledger.Finish, fail_twice)
    await stack.start_worker()
    submitted = await stack.submit()
    assert (await ended(submitted)).status is CallStatus.SUCCEEDED
    assert stack.sessions.executions == {submitted.id: 1}


async def stack_submit_without_worker(stack: Stack) -> Submitted:
    """Submit to a worker that is registered and does not read its lane."""
    await stack.register()
    return await stack.submit()


@pytest.mark.parametrize("away", [0, 3], ids=["back at once", "away for longer"])
async def test_a_claim_whose_commit_was_not_heard_of_is_taken_back_and_made_again(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    """Else the call would look as if it were being executed, and end as unknown, never sent."""
    claimed, disowned = ledger.claim_now, claimed_calls.disown
    unheard = [DatabaseError("gone after the commit")]
    refusals = [DatabaseError("still away")] * away

    def claim(wishes: list[ledger.Claim]) -> list[ledger.Claimed | None]:
        answers = claimed(wishes)
        if unheard:
            raise unheard.pop()
        return answers

    def disown(call_id: uuid.UUID, worker: str) -> bool:
        if refusals:
            raise refusals.pop()
        return disowned(call_id, worker)

    monkeypatch.setattr(execution, "CLAIM_PAUSE", 0.0)
    monkeypatch.setattr(claimed_calls, "disown", disown)
    monkeypatch.setitem(ledger._WRITES, ledger.Claim, claim)
    await stack.start_worker()
    submitted = await stack.submit()
    assert (await ended(submitted)).status is CallStatus.SUCCEEDED
    assert stack.sessions.executions == {submitted.id: 1}
    assert (await stack.row(submitted.id)).attempt == 2


# --- calls that an earlier worker has sent --------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_resumed_call_that_cannot_go_on_is_unknown_and_never_sent_again(
    stack: Stack, is_open: bool
) -> None:
    asked: list[UpstreamRequest] = []

    async def broken(request: UpstreamRequest) -> JSONObject:
        asked.append(request)
        raise UpstreamError("gone", was_sent=is_open)

    stack.sessions.answer, stack.sessions.is_closed = broken, not is_open
    submitted = await stack_submit_without_worker(stack)
    stream = {"session": "d", "request": 7, "event": "3"}
    rows = ToolCall.unscoped.filter(pk=submitted.id)
    await stack.threads.run(rows.update, stream=stream, attempt=3, sent_at=now())
    stack.executor.on_entry(
        LaneEntry(kind=EntryKind.CALL, id=submitted.id, connection_id=stack.connection.id)
    )
    assert (await ended(submitted)).status is CallStatus.OUTCOME_UNKNOWN
    assert [each.resume_at and each.resume_at.request for each in asked] == [7]
    assert (await stack.row(submitted.id)).sent_at is not None
