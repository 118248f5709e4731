"""The web side of calls: accepted means committed, keys, limits, cancellation, lost replies."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError
from redis import Redis

from connectors.models import CallStatus, Connection, ToolCall
from connectors.queue import workers
from connectors.services import quotas, replies, tool_calls
from connectors.services.outcomes import CallOutcome, reply_channel
from connectors.services.tool_calls import Submitted
from connectors.states import State
from mcphub.core.clock import now
from mcphub.core.errors import (
    AuthorizationNeededError,
    ConflictError,
    HubError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    NotPermittedError,
    UnavailableError,
)
from tenants.principal import Scope
from tests import factories
from tests.conftest import BundledValkey
from tests.connectors import server_factories
from tests.connectors.call_stack import Gate, Stack, call_request, view_of
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

KEYED: dict[str, Any] = {"idempotency_key": "k1", "body_hash": "h1"}


async def count(stack: Stack) -> int:
    return await stack.threads.run(ToolCall.unscoped.count)


async def test_the_same_key_and_body_give_the_same_call_once_it_has_ended(stack: Stack) -> None:
    await stack.start_worker()
    first = await stack.submit(**KEYED)
    outcome = await tool_calls.wait(first.id, 5)
    second = await stack.submit(**KEYED)
    assert second == Submitted(id=first.id, is_replayed=True)
    assert await tool_calls.wait(second.id, 5) == outcome
    assert stack.sessions.executions == {first.id: 1}


async def test_a_key_in_flight_is_a_conflict(stack: Stack) -> None:
    await stack.register()
    first = await stack.submit(**KEYED)
    with pytest.raises(ConflictError) as caught:
        await stack.submit(**KEYED)
    assert caught.value.problem_code == "idempotency_in_flight"
    assert caught.value.extra == {"callId": str(first.id)}
    assert await count(stack) == 1


async def test_a_key_with_another_body_is_refused(stack: Stack) -> None:
    await stack.register()
    await stack.submit(**KEYED)
    for other in ({"body_hash": "h2"}, {"target": "another"}):
        with pytest.raises(InvalidInputError) as caught:
            await stack.submit(**{**KEYED, **other})
        assert caught.value.problem_code == "idempotency_mismatch"


async def test_of_many_submits_with_one_key_one_is_accepted(stack: Stack) -> None:
    await stack.register()
    calls = [(stack.connection, call_request(idempotency_key="k", body_hash="h"))] * 20
    answers = await tool_calls.submit_many(stack.principal, calls)
    assert sum(isinstance(answer, Submitted) for answer in answers) == 1
    assert {a.problem_code for a in answers if isinstance(a, HubError)} == {"idempotency_in_flight"}


async def test_a_key_is_free_again_after_a_day(stack: Stack) -> None:
    await stack.register()
    first = await stack.submit(**KEYED)
    await stack.threads.run(
        ToolCall.unscoped.filter(pk=first.id).update, created_at=now() - timedelta(hours=25)
    )
    second = await stack.submit(**{**KEYED, "body_hash": "h2"})
    assert second.id != first.id
    assert not second.is_replayed


async def test_without_a_worker_nothing_is_stored(stack: Stack) -> None:
    with pytest.raises(UnavailableError) as caught:
        await stack.submit()
    assert caught.value.problem_code == "no_worker"
    assert await count(stack) == 0


async def test_without_redis_a_submit_is_refused_within_a_second_and_nothing_is_stored(
    stack: Stack, own_valkey: BundledValkey
) -> None:
    await stack.register()
    await stack.submit()
    own_valkey.stop()
    try:
        workers.forget_known()
        async with asyncio.timeout(2):
            with pytest.raises(UnavailableError):
                await stack.submit()
    finally:
        own_valkey.start()
    assert await count(stack) == 1


async def test_calls_are_answered_again_after_a_restart_of_redis(
    stack: Stack, own_valkey: BundledValkey
) -> None:
    await stack.start_worker()
    before = await stack.submit()
    assert await tool_calls.wait(before.id, 5) is not None
    own_valkey.stop()
    own_valkey.start()
    await stack.register()
    after = await submit_when_possible(stack)
    outcome = await tool_calls.wait(after.id, 10)
    assert outcome is not None
    assert outcome.status is CallStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("state", "error", "code"),
    [
        (State.DISCONNECTED, ConflictError, "not_connected"),
        (State.ERROR, ConflictError, "not_connected"),
        (State.AUTH_REQUIRED, AuthorizationNeededError, "authorization_needed"),
        (State.AUTH_PENDING, AuthorizationNeededError, "authorization_needed"),
    ],
)
async def test_a_server_that_is_not_connected_takes_no_call(
    stack: Stack, state: State, error: type[HubError], code: str
) -> None:
    await stack.register()
    stack.connection = replace(stack.connection, state=state)
    with pytest.raises(error) as caught:
        await stack.submit()
    assert caught.value.problem_code == code
    assert await count(stack) == 0


async def test_a_call_needs_its_scope(stack: Stack, world: World) -> None:
    await stack.register()
    stack.principal = factories.principal_of(world.alice.member, Scope.SERVERS_READ)
    with pytest.raises(NotPermittedError):
        await stack.submit()


async def test_too_large_arguments_are_refused(stack: Stack) -> None:
    await stack.register()
    with pytest.raises(InvalidInputError) as caught:
        await stack.submit({"text": "x" * (1 << 20)})
    assert caught.value.problem_code == "arguments_too_large"


# --- limits -----------------------------------------------------------------------------------


@pytest.fixture
def limit(world: World, ledger_threads: None) -> Callable[..., None]:
    """Set limits of Alice's tenant before the test starts to submit."""

    def set_limits(**fields: int) -> None:
        tenant = world.alice.tenant
        type(tenant).objects.filter(pk=tenant.pk).update(**fields)
        quotas.close()

    return set_limits


async def test_a_tenants_concurrent_calls_are_limited_and_ended_ones_do_not_count(
    stack: Stack, limit: Callable[..., None]
) -> None:
    await stack.threads.run(limit, max_concurrent_calls=2)
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    running = [await stack.submit(), await stack.submit()]
    with pytest.raises(LimitError) as caught:
        await stack.submit()
    assert caught.value.extra == {"limit": "tenant_calls"}
    assert caught.value.retry_after == 1.0
    assert await count(stack) == 2
    gate.may_answer.set()
    for each in running:
        assert await tool_calls.wait(each.id, 5) is not None
    assert await tool_calls.wait((await stack.submit()).id, 5) is not None


async def test_a_tenants_rate_is_limited_with_the_time_to_wait(
    stack: Stack, limit: Callable[..., None]
) -> None:
    await stack.threads.run(limit, calls_per_minute=3)
    await stack.register()
    for _ in range(3):
        await stack.submit()
    with pytest.raises(LimitError) as caught:
        await stack.submit()
    assert caught.value.extra == {"limit": "calls_per_minute"}
    assert 15 < (caught.value.retry_after or 0) <= 20


async def test_a_refused_submit_gives_its_place_back(
    stack: Stack, limit: Callable[..., None]
) -> None:
    await stack.threads.run(limit, max_concurrent_calls=2)
    await stack.register()
    await stack.submit(**KEYED)
    for _ in range(5):
        with pytest.raises(ConflictError):
            await stack.submit(**KEYED)
    await stack.submit()


# --- cancellation and waiting -------------------------------------------------------------------


async def test_a_queued_call_is_cancelled_at_once_and_its_waiter_is_told(stack: Stack) -> None:
    await stack.register()
    submitted = await stack.submit()
    waiting = asyncio.create_task(tool_calls.wait(submitted.id, 5))
    row = await stack.threads.run(tool_calls.cancel, stack.principal, submitted.id)
    assert row.status == "cancelled"
    outcome = await waiting
    assert outcome == CallOutcome(
        id=submitted.id, status=CallStatus.CANCELLED, problem_code="cancelled"
    )
    await stack.executor.pick_up(stack.connection.id)
    assert await stack.executor.idle(5)
    assert not stack.sessions.executions


async def test_cancelling_an_ended_call_changes_nothing(stack: Stack) -> None:
    await stack.start_worker()
    submitted = await stack.submit()
    await tool_calls.wait(submitted.id, 5)
    row = await stack.threads.run(tool_calls.cancel, stack.principal, submitted.id)
    assert (row.status, row.is_cancel_requested) == ("succeeded", False)


def test_a_stranger_cannot_cancel(world: World, connection: Connection) -> None:
    call = server_factories.make_call(world.alice, connection)
    for stranger in (world.bob, world.charlie):
        with pytest.raises(NotFoundError):
            tool_calls.cancel(stranger.principal, call.pk)


async def test_a_wait_that_is_over_answers_none_and_the_call_goes_on(stack: Stack) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    submitted = await stack.submit()
    assert await tool_calls.wait(submitted.id, 0.01) is None
    gate.may_answer.set()
    outcome = await tool_calls.wait(submitted.id, 5)
    assert outcome is not None
    assert outcome.status is CallStatus.SUCCEEDED


async def test_a_lost_reply_is_found_in_the_ledger(
    stack: Stack, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(replies, "publish_command", lambda *_: ("PING",))
    await stack.start_worker()
    submitted = await stack.submit()
    outcome = await tool_calls.wait(submitted.id, 5)
    assert outcome is not None
    assert outcome.status is CallStatus.SUCCEEDED


async def test_an_unreadable_reply_is_ignored(stack: Stack, redis: Redis) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    submitted = await stack.submit()
    redis.publish(reply_channel(replies.current().address), b"\xff{")
    gate.may_answer.set()
    assert await tool_calls.wait(submitted.id, 5) is not None


async def test_a_batch_has_an_answer_for_each_of_its_calls(stack: Stack, world: World) -> None:
    await stack.start_worker()
    lost = replace(stack.connection, state=State.ERROR)
    answers = await tool_calls.submit_many(
        stack.principal, [(stack.connection, call_request()), (lost, call_request())]
    )
    assert isinstance(answers[0], Submitted)
    assert isinstance(answers[1], ConflictError)
    assert await tool_calls.wait(answers[0].id, 5) is not None


async def submit_when_possible(stack: Stack) -> Submitted:
    """Submit as a client does: again while the hub says that it is away."""
    async with asyncio.timeout(10):
        while True:
            try:
                return await stack.submit()
            except UnavailableError:
                await stack.threads.run(now)


def test_the_view_of_a_connection_is_what_submit_needs(connection: Connection) -> None:
    view = view_of(connection)
    assert (view.id, view.slug, view.held_by) == (connection.pk, "linear", "w1")


async def test_an_outcome_that_cannot_be_unsealed_spoils_no_other_and_says_so(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stack.start_worker()
    broken, good = await stack.submit(), await stack.submit()
    for each in (broken, good):
        await tool_calls.wait(each.id, 5)
    await stack.threads.run(
        ToolCall.unscoped.filter(pk=broken.id).update, sealed_outcome=b"test:damaged"
    )
    found = await stack.threads.run(replies.read_ended, [broken.id, good.id])
    codes = {outcome.id: outcome.problem_code for outcome in found}
    assert codes == {broken.id: "credential_unreadable", good.id: ""}


async def test_waiting_goes_on_while_the_database_is_away(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = replies.read_ended, [DatabaseError("gone")]

    def fail_once(ids: list[uuid.UUID]) -> list[CallOutcome]:
        if failures:
            raise failures.pop()
        return read(ids)

    monkeypatch.setattr(replies, "RECHECK_SECONDS", 0.05)
    monkeypatch.setattr(replies, "publish_command", lambda *_: ("PING",))
    monkeypatch.setattr(replies, "read_ended", fail_once)
    await stack.start_worker()
    submitted = await stack.submit()
    assert await tool_calls.wait(submitted.id, 5) is not None
    assert failures == []


async def test_a_cancelled_queued_call_frees_every_place_it_took(
    stack: Stack, redis: Redis
) -> None:
    await stack.register()
    submitted = await stack.submit()
    await stack.threads.run(tool_calls.cancel, stack.principal, submitted.id)
    assert list(redis.scan_iter(match=f"{settings.REDIS_PREFIX}:calls:[tcw]*")) == []
