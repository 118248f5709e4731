"""The ledger's moves: grouped, fenced, and refused item by item."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

import pytest

from connectors.models import CallStatus, Connection, ToolCall
from connectors.services import ledger
from connectors.services.ledger import Claim, Fence, Finish, Inserted, NewCall, Progress
from mcphub.core.clock import now
from mcphub.core.errors import NotFoundError
from mcphub.core.ids import new_uuid
from mcphub.core.offload import DatabaseThreads
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def new_call(world: World, connection: Connection, **fields: object) -> NewCall:
    at = now()
    values: dict[str, object] = {
        "id": new_uuid(),
        "tenant_id": world.alice.tenant.pk,
        "member_id": world.alice.member.pk,
        "connection_id": connection.pk,
        "server": connection.slug,
        "method": "tools/call",
        "target": "search",
        "sealed_params": b"\x00sealed\xff",
        "timeout_ms": 60_000,
        "created_at": at,
        "deadline_at": at + timedelta(seconds=60),
    }
    return NewCall(**{**values, **fields})  # type: ignore[arg-type]  # a test's own keyword arguments


def claim(call: NewCall, worker: str = "w1", *, is_open: bool = True) -> Claim:
    return Claim(id=call.id, worker=worker, is_open=is_open)


async def test_a_claimed_call_carries_everything_that_was_inserted(
    world: World, connection: Connection
) -> None:
    call = new_call(world, connection, reply_to="web-1")
    assert await ledger.insert(call) is Inserted.NEW
    claimed = await ledger.claim(claim(call))
    assert claimed == ledger.Claimed(
        id=call.id,
        tenant_id=call.tenant_id,
        member_id=call.member_id,
        connection_id=call.connection_id,
        server="linear",
        method="tools/call",
        target="search",
        status="sent",
        attempt=1,
        worker="w1",
        sealed_params=b"\x00sealed\xff",
        timeout_ms=60_000,
        created_at=call.created_at,
        deadline_at=call.deadline_at,
        reply_to="web-1",
        is_cancel_requested=False,
    )


async def test_of_many_claims_by_two_workers_one_gets_the_call(
    world: World, connection: Connection
) -> None:
    call = new_call(world, connection)
    await ledger.insert(call)
    wishes = [claim(call, f"w{number % 2}") for number in range(20)]
    answers = await asyncio.gather(*(ledger.claim(wish) for wish in wishes))
    assert sum(answer is not None for answer in answers) == 1


async def test_a_taken_idempotency_key_refuses_its_own_row_alone(
    world: World, connection: Connection
) -> None:
    calls = [
        new_call(world, connection, idempotency_key="k"),
        new_call(world, connection),
        new_call(world, connection, idempotency_key="k"),
        new_call(world, connection, idempotency_key="other"),
    ]
    answers = await asyncio.gather(*(ledger.insert(call) for call in calls))
    assert sorted(answer.name for answer in answers) == ["KEY_TAKEN", "NEW", "NEW", "NEW"]
    assert Inserted.KEY_TAKEN in {answers[0], answers[2]}


async def test_a_row_without_tenant_does_not_take_its_neighbours_along(
    world: World, connection: Connection
) -> None:
    calls = [new_call(world, connection, tenant_id=uuid.uuid4()), new_call(world, connection)]
    answers = await asyncio.gather(*(ledger.insert(c) for c in calls), return_exceptions=True)
    assert isinstance(answers[0], NotFoundError)
    assert answers[1] is Inserted.NEW


async def test_the_late_end_of_an_outrun_attempt_is_refused(
    world: World, connection: Connection
) -> None:
    call = new_call(world, connection)
    await ledger.insert(call)
    zombie = await ledger.claim(claim(call, "zombie", is_open=False))
    assert zombie is not None
    assert await ledger.release(zombie.fence)  # as the reaper does for a dead worker
    second = await ledger.claim(claim(call, "w2"))
    assert second is not None
    assert second.attempt == 2
    assert not await ledger.mark_sent(zombie.fence)
    assert not await ledger.finish(end_of(zombie.fence))
    assert not await ledger.finish(end_of(Fence(id=call.id, worker="w2", attempt=1)))
    assert await ledger.finish(end_of(second.fence))
    assert not await ledger.finish(end_of(second.fence))


async def test_two_ends_in_one_batch_count_once(world: World, connection: Connection) -> None:
    call = new_call(world, connection)
    await ledger.insert(call)
    claimed = await ledger.claim(claim(call))
    assert claimed is not None
    ends = [end_of(claimed.fence) for _ in range(5)]
    answers = await asyncio.gather(*(ledger.finish(end) for end in ends))
    assert sum(answers) == 1


async def test_a_call_whose_cancellation_was_asked_for_is_never_marked_sent(
    world: World, connection: Connection, database: DatabaseThreads
) -> None:
    call = new_call(world, connection)
    await ledger.insert(call)
    claimed = await ledger.claim(claim(call, is_open=False))
    assert claimed is not None
    await database.run(request_cancellation, call.id)
    assert not await ledger.mark_sent(claimed.fence)


async def test_concurrent_moves_of_all_kinds_are_stored_as_they_were_meant(
    world: World, connection: Connection, database: DatabaseThreads
) -> None:
    calls = [new_call(world, connection) for _ in range(60)]
    await asyncio.gather(*(ledger.insert(call) for call in calls))
    claims = [claim(c, is_open=number % 2 == 0) for number, c in enumerate(calls)]
    claimed = [c for c in await asyncio.gather(*map(ledger.claim, claims)) if c is not None]
    assert len(claimed) == 60
    held = [c for c in claimed if c.status == CallStatus.CLAIMED]
    assert await asyncio.gather(*(ledger.mark_sent(c.fence) for c in held)) == [True] * 30
    later = now() + timedelta(seconds=99)
    notes = [
        Progress(fence=c.fence, progress={"progress": n}, deadline_at=later)
        for n, c in enumerate(claimed)
    ]
    assert all(await asyncio.gather(*map(ledger.note_progress, notes)))
    ends = [end_of(c.fence, problem_code=f"p{n}") for n, c in enumerate(claimed)]
    assert all(await asyncio.gather(*map(ledger.finish, ends)))
    rows = await database.run(stored, [c.id for c in claimed])
    assert [(r.status, r.problem_code, r.progress, r.deadline_at) for r in rows] == [
        ("succeeded", f"p{n}", {"progress": n}, later) for n in range(60)
    ]
    assert all(r.sent_at is not None and r.finished_at is not None for r in rows)
    assert {bytes(r.sealed_outcome or b"") for r in rows} == {b"\x00out"}


async def test_an_end_of_a_call_that_had_not_left_clears_the_time_of_sending(
    world: World, connection: Connection, database: DatabaseThreads
) -> None:
    call = new_call(world, connection)
    await ledger.insert(call)
    claimed = await ledger.claim(claim(call))
    assert claimed is not None
    end = Finish(fence=claimed.fence, status=CallStatus.EXPIRED, was_sent=False)
    assert await ledger.finish(end)
    (row,) = await database.run(stored, [call.id])
    assert (row.status, row.sent_at, row.sealed_outcome) == ("expired", None, None)


def end_of(fence: Fence, problem_code: str = "") -> Finish:
    return Finish(
        fence=fence,
        status=CallStatus.SUCCEEDED,
        sealed_outcome=b"\x00out",
        problem_code=problem_code,
    )


def request_cancellation(call_id: uuid.UUID) -> None:
    ToolCall.unscoped.filter(pk=call_id).update(is_cancel_requested=True)


def stored(ids: list[uuid.UUID]) -> list[ToolCall]:
    rows = ToolCall.unscoped.in_bulk(ids)
    return [rows[call_id] for call_id in ids]
