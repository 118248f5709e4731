"""What servers say outside of calls, from the worker to who listens in a web process."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pytest
from mcp_types import Tool
from redis import Redis

from connectors.models import Connection, ListingKind
from connectors.queue import workers
from connectors.services import catalog, notices, tool_table
from connectors.services.notice_queue import MOST_WAITING, NoticeQueue
from connectors.services.notices import Listener, Notice, Notices
from connectors.upstream.host import SessionKey
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject
from tenants.principal import Principal
from tests.connectors.call_stack import closing_loop_objects
from tests.connectors.relay_stack import run
from tests.connectors.session_stack import Stack, add_server, running_worker
from tests.connectors.upstream.support import spec_for
from tests.fakes.mcp_servers import Kind, RunningServer, running
from tests.world import World

TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"
SECONDS = 10.0


@pytest.fixture
async def heard(redis: Redis) -> AsyncIterator[Notices]:
    async with closing_loop_objects():
        yield notices.current()


def key_of(principal: Principal) -> SessionKey:
    spec = spec_for("http://localhost/mcp")
    owned = replace(spec, tenant_id=principal.tenant_id, member_id=principal.member_id)
    return SessionKey(spec=owned, epoch=1)


async def until(listener: Listener, count: int) -> list[Notice]:
    found: list[Notice] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            found += (await listener.take())[0]
    return found


def note(number: int, method: str = UPDATED) -> JSONObject:
    return {"uri": f"note://{number}"} if method == UPDATED else {"level": "info", "data": number}


def queued(queue: NoticeQueue) -> Sequence[JSONObject]:
    return [each.params for each in queue.drain()[0]]


# --- coalescing


def test_of_notices_about_one_thing_the_newest_waits_in_its_own_place() -> None:
    queue, where = NoticeQueue(), uuid.uuid4()
    for number in (1, 2, 1):
        queue.put(Notice(connection_id=where, method=UPDATED, params=note(number)))
    for number in (1, 1):
        queue.put(Notice(connection_id=where, method=MESSAGE, params=note(number, MESSAGE)))
    assert queued(queue) == [note(2), note(1), note(1, MESSAGE), note(1, MESSAGE)]
    assert queue.drain() == ((), 0)


def test_too_many_notices_cost_log_messages_first_and_are_counted() -> None:
    queue, where = NoticeQueue(), uuid.uuid4()
    queue.put(Notice(connection_id=where, method=TOOLS))
    for number in range(MOST_WAITING * 2):
        queue.put(Notice(connection_id=where, method=MESSAGE, params=note(number, MESSAGE)))
    found, dropped = queue.drain()
    assert found[0].method == TOOLS
    assert found[-1].params["data"] == MOST_WAITING * 2 - 1
    assert (len(found), dropped) == (MOST_WAITING, MOST_WAITING + 1)


# --- from the worker to listeners


async def test_a_notice_reaches_the_listeners_of_its_member_and_nobody_else(
    heard: Notices, world: World
) -> None:
    alice, bob = world.alice.principal, world.bob.principal
    outbox, key, other = notices.Outbox(), key_of(alice), key_of(alice)
    async with (
        heard.listen(alice) as all_of_alice,
        heard.listen(alice, {key.connection_id}) as one_of_alice,
        heard.listen(bob) as all_of_bob,
    ):
        outbox.note(other, UPDATED, note(1), None)
        outbox.note(key, UPDATED, note(2), None)
        outbox.note(key_of(bob), UPDATED, note(3), None)
        assert {each.params["uri"] for each in await until(all_of_alice, 2)} == {
            "note://1",
            "note://2",
        }
        assert [each.params for each in await until(one_of_alice, 1)] == [note(2)]
        assert [each.params for each in await until(all_of_bob, 1)] == [note(3)]


async def test_a_storm_arrives_as_few_and_a_slow_listener_keeps_the_newest(
    heard: Notices, world: World
) -> None:
    alice = world.alice.principal
    outbox, key = notices.Outbox(), key_of(alice)
    async with heard.listen(alice) as fast, heard.listen(alice) as slow:
        for number in range(10_000):
            outbox.note(key, UPDATED, {"uri": "note://1", "n": number}, None)
        outbox.note(key, MESSAGE, note(0, MESSAGE), None)
        found = await until(fast, 2)
        assert [each.method for each in found] == [UPDATED, MESSAGE]
        assert found[0].params["n"] == 9_999
        assert [each.method for each in await until(slow, 2)] == [UPDATED, MESSAGE]


async def test_listeners_are_told_when_something_may_be_lost(
    heard: Notices, world: World, redis: Redis
) -> None:
    async with heard.listen(world.alice.principal) as listener:
        redis.client_kill_filter(_type="pubsub", skipme=True)
        assert [each.method for each in await until(listener, 1)] == [notices.LOST]
        notices.Outbox().note(key_of(world.alice.principal), UPDATED, note(1), None)
        assert [each.params for each in await until(listener, 1)] == [note(1)]


# --- list changes


@pytest.fixture
def stack(world: World, ledger_threads: None, redis: Redis) -> Iterator[Stack]:
    workers.forget_known()
    with running_worker() as found:
        yield found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.MODERN])
def test_a_list_change_is_told_when_the_stored_catalog_is_new(
    world: World, stack: Stack, database: DatabaseThreads, kind: Kind
) -> None:
    principal = world.alice.principal
    with running(kind) as server:
        row = stack.connect(principal, add_server(principal, server.url))

        async def changed() -> bool:
            async with notices.current().listen(principal, {row.pk}) as listener:
                server.demo.extra_tools.append(Tool(name="late", input_schema={"type": "object"}))
                found = await announced(server, listener)
                assert list(found) == [Notice(connection_id=row.pk, method=TOOLS)]
                return await database.run(row.tools.filter(name="late").exists)

        assert run(changed)


async def announced(server: RunningServer, listener: Listener) -> Sequence[Notice]:
    """Announce until it is heard: a server may not know yet that somebody listens."""
    async with asyncio.timeout(SECONDS):
        while True:
            await asyncio.to_thread(server.announce_tools_changed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    return (await listener.take())[0]


@pytest.mark.django_db(transaction=True)
async def test_a_tool_that_is_switched_off_is_a_list_change_too(
    heard: Notices, world: World, connection: Connection, database: DatabaseThreads
) -> None:
    principal = world.alice.principal

    def store() -> None:
        item: JSONObject = {"name": "a", "inputSchema": {"type": "object"}}
        catalog.store(connection.pk, [catalog.FetchedList(kind=ListingKind.TOOLS, items=[item])])

    def switch_off() -> None:
        tool_table.set_enabled(principal, connection, "a", is_enabled=False)

    async with heard.listen(principal) as listener:
        for change in (store, switch_off):
            await database.run(change)
            assert [each.method for each in await until(listener, 1)] == [TOOLS]
        await database.run(store)  # nothing new
        await database.run(switch_off)
        await database.run(
            lambda: tool_table.set_enabled(principal, connection, "a", is_enabled=True)
        )
        assert [each.method for each in await until(listener, 1)] == [TOOLS]
