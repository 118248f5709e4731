"""Lanes, the register of workers, and the door to Celery."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
from celery import Celery
from django.db import transaction
from pytest_django import Settings
from redis import Redis

from connectors import queue
from connectors.queue import EntryKind, LaneEntry, LaneReader, WorkerLoad, lifecycle, workers
from connectors.queue.lanes import decode, lane_of
from mcphub.core import redis as hub_redis
from mcphub.core.errors import UnavailableError
from tests.conftest import BundledValkey
from tests.connectors.call_stack import closing_loop_objects


def entry(kind: EntryKind = EntryKind.CALL) -> LaneEntry:
    return LaneEntry(kind=kind, id=uuid.uuid4(), connection_id=uuid.uuid4())


@pytest.fixture
async def reader(redis: Redis) -> AsyncIterator[LaneReader]:
    async with closing_loop_objects():
        lane = LaneReader("w1")
        yield lane
        await lane.aclose()


@pytest.fixture
def register(redis: Redis) -> Redis:
    workers.forget_known()
    return redis


async def take(reader: LaneReader, count: int) -> list[LaneEntry]:
    found: list[LaneEntry] = []
    async with asyncio.timeout(10):
        async for each in reader:
            found.append(each)
            if len(found) == count:
                break
    return found


async def test_entries_arrive_in_the_order_they_were_rung(reader: LaneReader) -> None:
    rung = [entry(kind) for kind in EntryKind for _ in range(3)]
    for each in rung:
        queue.lane_writer().ring("w1", each)
    assert await take(reader, len(rung)) == rung


async def test_rings_of_one_tick_travel_as_one_stream_entry(
    reader: LaneReader, redis: Redis
) -> None:
    for _ in range(50):
        queue.lane_writer().ring("w1", entry())
    await asyncio.wait_for(queue.tick_pipeline().call("PING"), 5)
    await queue.tick_pipeline().flush()
    assert redis.xlen(lane_of("w1")) == 1


async def test_what_was_read_is_removed_from_the_lane(reader: LaneReader, redis: Redis) -> None:
    first, second = entry(), entry()
    queue.lane_writer().ring("w1", first)
    assert await take(reader, 1) == [first]
    queue.lane_writer().ring("w1", second)
    assert await take(reader, 1) == [second]
    assert redis.xlen(lane_of("w1")) == 1  # the last one goes with the next read


async def test_a_reader_outlives_a_restart_of_redis(
    reader: LaneReader, own_valkey: BundledValkey
) -> None:
    first, second = entry(), entry()
    queue.lane_writer().ring("w1", first)
    assert await take(reader, 1) == [first]
    await queue.tick_pipeline().flush()
    taking = asyncio.create_task(take(reader, 1))
    own_valkey.stop()
    own_valkey.start()
    queue.lane_writer().ring("w1", second)
    assert await taking == [second]


def test_an_unreadable_line_is_left_out() -> None:
    good = entry()
    assert decode(f"nonsense\n{good.encode()}\ncall x -".encode()) == [good]


@pytest.mark.django_db(transaction=True)
def test_a_ring_in_a_transaction_waits_for_its_commit(redis: Redis) -> None:
    with transaction.atomic():
        queue.ring("w1", entry())
        assert redis.xlen(lane_of("w1")) == 0
    assert redis.xlen(lane_of("w1")) == 1


async def test_workers_that_announce_themselves_are_alive_with_their_load(
    register: Redis,
) -> None:
    loads = [WorkerLoad(worker="w1", calls=3), WorkerLoad(worker="w2", calls=1, sessions=9)]
    async with closing_loop_objects():
        for load in loads:
            await queue.announce_worker(load)
        found = sorted(await queue.live_workers(), key=lambda load: load.worker)
    assert found == loads
    assert queue.choose_worker(found).worker == "w2"


def test_no_worker_and_a_draining_one_take_no_calls() -> None:
    for loads in ([], [WorkerLoad(worker="w1", is_draining=True)]):
        with pytest.raises(UnavailableError) as caught:
            queue.choose_worker(loads)
        assert caught.value.problem_code == "no_worker"


async def test_a_worker_is_dead_when_its_key_is_gone_from_an_old_register(
    register: Redis, settings: Settings
) -> None:
    async with closing_loop_objects():
        await queue.announce_worker(WorkerLoad(worker="w1"))
    settings.WORKER_TTL = 0.0
    assert queue.dead_workers(["w1", "gone"]) == {"gone"}
    assert (queue.is_alive("w1"), queue.is_alive("gone"), queue.is_alive("")) == (
        True,
        False,
        False,
    )


def test_nobody_is_called_dead_in_a_register_that_was_just_emptied(
    register: Redis, settings: Settings
) -> None:
    up = register.info("server")["uptime_in_seconds"]
    settings.WORKER_TTL = up + 3600.0
    assert queue.dead_workers(["w1"]) == frozenset()
    register.set(hub_redis.key("workers", "since"), int(time.time() - 2 * settings.WORKER_TTL))
    assert queue.dead_workers(["w1"]) == frozenset()  # Redis itself is younger than that


async def test_a_forgotten_worker_is_not_listed(register: Redis) -> None:
    async with closing_loop_objects():
        await queue.announce_worker(WorkerLoad(worker="w1"))
        queue.forget_worker("w1")
        assert await queue.live_workers() == ()


async def test_without_redis_the_register_refuses_within_a_second(
    own_valkey: BundledValkey, register: Redis
) -> None:
    own_valkey.stop()
    try:
        async with closing_loop_objects(), asyncio.timeout(2):
            with pytest.raises(UnavailableError):
                await queue.live_workers()
        with pytest.raises(UnavailableError):
            queue.live_workers_sync()
    finally:
        own_valkey.start()


@pytest.fixture
def unreachable_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    app = Celery("unreachable", broker="redis://127.0.0.1:1/0", set_as_current=False)
    monkeypatch.setattr(lifecycle, "current_app", app)
    yield
    app.close()


@pytest.mark.usefixtures("unreachable_broker")
def test_a_lifecycle_task_is_refused_within_a_second_when_the_broker_is_away() -> None:
    started = time.monotonic()
    with pytest.raises(UnavailableError):
        queue.send_connect(uuid.uuid4())
    assert time.monotonic() - started < 3


class Lost:
    """A client whose connection uvloop has closed between two writes."""

    async def execute_command(self, *_: object) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")

    def pipeline(self, *, transaction: bool) -> _LostPipeline:
        del transaction
        return _LostPipeline()


class _LostPipeline:
    def execute_command(self, *_: object) -> None:
        """Queue it, as redis-py does."""

    async def execute(self, *, raise_on_error: bool) -> None:
        del raise_on_error
        raise RuntimeError("unable to perform operation; the handler is closed")


async def test_a_connection_that_the_loop_has_closed_is_an_absent_redis_not_a_silence() -> None:
    pipeline = queue.TickPipeline(Lost())  # type: ignore[arg-type]  # stands for a client
    pipeline.send("PING")
    with pytest.raises(UnavailableError):
        await asyncio.wait_for(pipeline.call("PING"), 5)
