"""The worker process: its entry in the register, its lane, calls over real sessions, its end."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
from celery.concurrency import prefork, solo, thread
from redis import Redis

from connectors import queue, tasks
from connectors.models import Connection, ToolCall
from connectors.queue import EntryKind, LaneEntry, workers
from connectors.selectors import ConnectionView
from connectors.services import connections, here, leases, tool_calls
from connectors.services.tool_calls import CallOutcome, CallRequest
from connectors.worker import HostStep, SessionWorker
from mcphub.core.once import once_per
from tests.connectors.call_stack import closing_loop_objects, view_of
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import RawServer, serving_in_thread
from tests.waiting import eventually
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

ECHO = CallRequest(
    method="tools/call", target="echo", params={"name": "echo", "arguments": {"text": "hi"}}
)


@pytest.fixture
def stack(transactional_db: None, redis: Redis) -> Iterator[Stack]:
    workers.forget_known()
    with running_worker() as stack:
        yield stack


def ring(stack: Stack, kind: EntryKind, row: Connection) -> None:
    queue.ring(stack.worker.id, LaneEntry(kind=kind, id=row.pk))


def call(world: World, view: ConnectionView) -> CallOutcome | None:
    """Submit one call as a web process does, and wait for its end."""

    async def run() -> CallOutcome | None:
        async with closing_loop_objects():
            submitted = await tool_calls.submit(world.alice.principal, view, ECHO)
            return await tool_calls.wait(submitted.id, 10)

    return asyncio.run(run())


def test_a_running_worker_is_in_the_register_and_a_stopped_one_is_not(
    transactional_db: None, redis: Redis
) -> None:
    workers.forget_known()
    with running_worker() as stack:
        assert [load.worker for load in queue.live_workers_sync()] == [stack.worker.id]
    workers.forget_known()
    assert list(queue.live_workers_sync()) == []


def test_a_worker_whose_database_hangs_still_says_that_it_lives(
    transactional_db: None, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be called dead, and its calls ended, for a fault that is not its own."""
    is_asked, is_over = threading.Event(), threading.Event()

    def hang(worker: str) -> dict[uuid.UUID, int]:
        is_asked.set()
        is_over.wait(20)
        return {}

    monkeypatch.setattr(leases, "held_by", hang)
    monkeypatch.setattr("connectors.worker.HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr("connectors.worker.LEASE_CHECK_SECONDS", 0.0)
    with running_worker() as stack:
        try:
            eventually(is_asked.is_set, what="the leases are being checked")
            redis.delete(workers.worker_key(stack.worker.id))
            eventually(lambda: redis.exists(workers.worker_key(stack.worker.id)), what="a beat")
        finally:
            is_over.set()


def test_entries_of_the_lane_open_refresh_and_close(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = connections.connect(
            world.alice.principal, add_server(world.alice.principal, server.url)
        )
        ring(stack, EntryKind.CONNECT, row)
        eventually(lambda: stack.is_open(row), what="the session is open")
        eventually(lambda: _state(row) == "connected", what="it is connected")
        ring(stack, EntryKind.REFRESH, row)
        eventually(lambda: server.counts["POST tools/list"] == 2, what="the lists are read again")
        connections.disconnect(world.alice.principal, row)
        eventually(lambda: not stack.is_open(row), what="the session is closed")
        eventually(lambda: not Connection.unscoped.get(pk=row.pk).held_by, what="it is released")


def test_lifecycle_tasks_run_in_the_process_of_the_worker(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = connections.connect(
            world.alice.principal, add_server(world.alice.principal, server.url)
        )
        tasks.connect(str(row.pk))
        eventually(lambda: _state(row) == "connected", what="it is connected")
        tasks.refresh_catalog(str(row.pk))
        eventually(lambda: server.counts["POST tools/list"] == 2, what="the lists are read again")
        connections.disconnect(world.alice.principal, row)
        tasks.disconnect(str(row.pk))
        eventually(lambda: not stack.is_open(row), what="the session is closed")


def test_a_process_without_a_session_host_refuses_lifecycle_tasks() -> None:
    here.settle(None)
    with pytest.raises(RuntimeError):
        tasks.connect(str(uuid.uuid4()))


@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.MODERN])
def test_a_call_goes_over_the_real_session_and_its_result_comes_back(
    world: World, stack: Stack, kind: Kind
) -> None:
    with running(kind) as server:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        outcome = call(world, view_of(row))
        assert server.demo.executions["echo"] == 1
    assert outcome is not None
    assert outcome.status == "succeeded"
    result = json.loads(outcome.outcome_json or b"")["result"]
    assert result["content"] == [{"type": "text", "text": "hi"}]


def test_a_call_waits_for_the_connection_that_is_being_opened(world: World, stack: Stack) -> None:
    with serving_in_thread(RawServer()) as server:
        row = connections.connect(
            world.alice.principal, add_server(world.alice.principal, server.url)
        )
        outcome = call(world, view_of(row))
        assert server.counts["POST tools/call"] == 1
    assert outcome is not None
    assert outcome.status == "succeeded"


def test_a_call_that_reaches_the_wrong_worker_goes_on_to_the_holder(
    world: World, stack: Stack
) -> None:
    with serving_in_thread(RawServer()) as server, running_worker() as other:
        row = stack.connect(world.alice.principal, add_server(world.alice.principal, server.url))
        outcome = call(world, replace(view_of(row), held_by=other.worker.id))
        assert outcome is not None
        assert outcome.status == "succeeded"
        assert ToolCall.unscoped.get().worker == stack.worker.id
        assert server.counts["POST initialize"] == 1


@pytest.mark.parametrize("pool", [thread.TaskPool, solo.TaskPool])
def test_pools_of_one_process_get_a_session_host(pool: type) -> None:
    step = HostStep(SimpleNamespace(steps=[]))
    assert step.include_if(SimpleNamespace(pool_cls=pool))


def test_a_worker_of_another_pool_ends_with_one_line() -> None:
    step = HostStep(SimpleNamespace(steps=[]))
    with pytest.raises(SystemExit, match="--pool=threads"):
        step.include_if(SimpleNamespace(pool_cls=prefork.TaskPool))


def test_the_name_of_a_worker_fits_its_column_whatever_its_slot() -> None:
    assert len(SessionWorker(slot="x" * 200).id) <= 80


def test_periodic_work_is_done_once_in_its_time(redis: Redis) -> None:
    assert [once_per("sweep", seconds=30) for _ in range(3)] == [True, False, False]
    assert once_per("another", seconds=30)


def _state(row: Connection) -> str:
    row.refresh_from_db()
    return row.state
