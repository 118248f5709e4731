"""The reaper: every accepted call ends, nothing is executed twice, and running it twice is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings
from redis import Redis

from connectors.models import CallStatus, Connection, ToolCall
from connectors.queue import WorkerLoad, forget_worker, workers
from connectors.queue.lanes import decode, lane_of
from connectors.queue.workers import worker_key
from connectors.services import ledger, reaper, tool_calls
from connectors.services.ledger import Fence, Finish
from connectors.services.reaper import Swept
from mcphub.core import redis as hub_redis
from mcphub.core.clock import now
from tests.connectors import server_factories
from tests.connectors.call_stack import Gate, Stack
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def register(redis: Redis, settings: Settings) -> Iterator[Redis]:
    """A register old enough to call workers dead; w1 lives."""
    settings.WORKER_TTL = 0.0
    redis.set(worker_key("w1"), WorkerLoad(worker="w1").encode())
    redis.zadd(hub_redis.key("workers"), {"w1": 1})
    workers.forget_known()
    yield redis
    workers.forget_known()


def make_call(world: World, connection: Connection, **fields: object) -> ToolCall:
    at = now() - timedelta(seconds=10)
    return server_factories.make_call(
        world.alice, connection, **{"created_at": at, "sent_at": at, **fields}
    )


def rung(redis: Redis, worker: str) -> set[str]:
    entries: Any = redis.xrange(lane_of(worker))
    return {str(each.id) for _, fields in entries for each in decode(fields[b"e"])}


def test_a_queued_call_that_nobody_took_is_rung_again_at_its_holder(
    world: World, connection: Connection, register: Redis
) -> None:
    call = make_call(world, connection, status="queued")
    fresh = make_call(world, connection, status="queued", created_at=now())
    assert reaper.sweep() == Swept(rung=1)
    assert rung(register, "w1") == {str(call.pk)}
    assert str(fresh.pk) not in rung(register, "w1")


def test_a_call_whose_holder_is_dead_is_rung_at_a_worker_that_lives(
    world: World, register: Redis
) -> None:
    orphan = server_factories.make_connected(world.alice, "orphan", held_by="dead")
    call = make_call(world, orphan, status="queued")
    assert reaper.sweep().rung == 1
    assert rung(register, "w1") == {str(call.pk)}


def test_a_queued_call_past_its_deadline_expires(
    world: World, connection: Connection, register: Redis
) -> None:
    call = make_call(world, connection, status="queued", deadline_at=now() - timedelta(seconds=1))
    assert reaper.sweep() == Swept(expired=1)
    call.refresh_from_db()
    assert (call.status, call.problem_code) == ("expired", "timeout")
    assert call.finished_at is not None
    assert reaper.sweep() == Swept()


def test_calls_of_a_dead_worker_are_given_back_when_unsent_and_unknown_when_sent(
    world: World, connection: Connection, register: Redis
) -> None:
    claimed = make_call(world, connection, status="claimed", worker="dead", attempt=1)
    sent = make_call(world, connection, status="sent", worker="dead", attempt=1)
    alive = make_call(world, connection, status="sent", worker="w1", attempt=1)
    assert reaper.sweep() == Swept(released=1, unknown=1, rung=1)
    for call in (claimed, sent, alive):
        call.refresh_from_db()
    assert [(c.status, c.worker) for c in (claimed, sent, alive)] == [
        ("queued", ""),
        ("outcome_unknown", "dead"),
        ("sent", "w1"),
    ]
    assert rung(register, "w1") == {str(claimed.pk)}
    late = Finish(fence=Fence(id=sent.pk, worker="dead", attempt=1), status=CallStatus.SUCCEEDED)
    assert ledger.finish_now([late]) == [False]  # the zombie's late end is refused


def test_a_running_call_long_past_its_deadline_ends_although_its_worker_lives(
    world: World, connection: Connection, register: Redis
) -> None:
    over = now() - timedelta(seconds=16)
    sent = make_call(world, connection, status="sent", worker="w1", attempt=1, deadline_at=over)
    claimed = make_call(
        world, connection, status="claimed", worker="w1", attempt=1, deadline_at=over
    )
    near = make_call(
        world,
        connection,
        status="sent",
        worker="w1",
        attempt=1,
        deadline_at=now() - timedelta(seconds=5),
    )
    assert reaper.sweep() == Swept(unknown=2)
    for call in (sent, claimed, near):
        call.refresh_from_db()
    assert [c.status for c in (sent, claimed, near)] == ["outcome_unknown", "expired", "sent"]
    assert sent.problem_code == "timeout"


def test_the_end_of_a_known_dead_worker_needs_no_waiting_for_its_key(
    world: World, connection: Connection, register: Redis, settings: Settings
) -> None:
    settings.WORKER_TTL = 3600.0  # nobody could be judged dead by the register
    register.set(worker_key("w0"), WorkerLoad(worker="w0").encode())
    claimed = make_call(world, connection, status="claimed", worker="w0", attempt=1)
    sent = make_call(world, connection, status="sent", worker="w0", attempt=1)
    queued = make_call(world, connection, status="queued", created_at=now())
    swept = reaper.end_worker("w0")
    assert (swept.released, swept.unknown) == (1, 1)
    assert rung(register, "w1") == {str(claimed.pk), str(queued.pk)}
    sent.refresh_from_db()
    assert sent.status == "outcome_unknown"
    assert not register.exists(worker_key("w0"), lane_of("w0"))


def test_without_a_worker_the_reaper_leaves_queued_calls_alone(
    world: World, connection: Connection, register: Redis
) -> None:
    call = make_call(world, connection, status="queued")
    forget_worker("w1")
    assert reaper.sweep() == Swept()
    call.refresh_from_db()
    assert call.status == "queued"


async def test_who_waits_for_a_call_of_a_dead_worker_is_told(stack: Stack) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    submitted = await stack.submit()
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    waiting = asyncio.create_task(tool_calls.wait(submitted.id, 5))
    swept = await stack.threads.run(reaper.end_worker, "w1")
    assert swept.unknown == 1
    outcome = await waiting
    assert outcome is not None
    assert outcome.status is CallStatus.OUTCOME_UNKNOWN
    gate.may_answer.set()  # the zombie's answer comes late
    assert await stack.executor.idle(5)
    assert (await stack.row(submitted.id)).status == "outcome_unknown"
    assert stack.executor.counts.outrun == 1


# --- answers that can still be asked for ----------------------------------------------------------

STREAM = {"session": "d", "request": 7, "event": "3"}


@pytest.mark.parametrize(
    ("fields", "has_session", "status"),
    [
        ({"stream": STREAM}, True, "queued"),
        ({"stream": STREAM}, False, "outcome_unknown"),
        ({"stream": STREAM, "attempt": 3}, True, "outcome_unknown"),
        ({"stream": STREAM, "status": "input_required"}, True, "outcome_unknown"),
        ({}, True, "outcome_unknown"),
    ],
)
def test_a_sent_call_of_a_dead_worker_waits_on_only_if_its_answer_can_be_resumed(
    world: World,
    connection: Connection,
    register: Redis,
    fields: dict[str, object],
    has_session: bool,
    status: str,
) -> None:
    Connection.unscoped.filter(pk=connection.pk).update(
        sealed_session=b"sealed" if has_session else None, is_wanted=True
    )
    call = make_call(
        world, connection, **{"status": "sent", "worker": "dead", "attempt": 1, **fields}
    )
    reaper.end_worker("dead")
    row = ToolCall.unscoped.get(pk=call.pk)
    assert row.status == status
    assert row.sent_at is not None


def test_a_resumable_call_past_its_time_may_have_been_executed(
    world: World, connection: Connection, register: Redis
) -> None:
    late = now() - timedelta(seconds=1)
    call = make_call(world, connection, status="queued", stream=STREAM, deadline_at=late)
    reaper.sweep()
    row = ToolCall.unscoped.get(pk=call.pk)
    assert (row.status, row.problem_code) == ("outcome_unknown", "timeout")
