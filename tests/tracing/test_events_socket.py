"""The event socket as a client sees it: hello, subscribe, replay, resync, close codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from redis import Redis

from mcphub.asgi import application
from mcphub.core import broadcast, event_feed
from mcphub.core.broadcast import EventGroup
from tenants import api_keys, credentials, invalidation, tickets
from tenants.models import ApiKey
from tenants.principal import Principal, Scope
from tests.tracing.conftest import Exchange
from tests.waiting import eventually
from tests.websocket import SocketClient
from tests.world import Person, World
from tracing import consumers, recorder, topics

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 5.0


@pytest.fixture(autouse=True)
def _listening(redis: Redis) -> None:
    eventually(invalidation.is_listening)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_bobs(principal: Principal, object_id: str) -> bool:
        return object_id in {"demo", f"call-of-{principal.member_id.hex}"}

    monkeypatch.setattr(topics, "_checkers", {"server": is_bobs, "call": is_bobs})


class Client(SocketClient):
    async def message(self) -> Any:
        return json.loads(await self.read())

    async def next_raw(self) -> Any:
        return await self._receive()

    async def say(self, **message: Any) -> None:
        await self.send(json.dumps(message))

    async def subscribe(self, *wanted: str, since: int | None = None) -> int:
        await self.say(type="subscribe", topics=list(wanted), since=since)
        answer = await self.message()
        assert (answer["type"], answer["topics"]) == ("subscribed", list(wanted))
        return int(answer["seq"])


@asynccontextmanager
async def connected(
    headers: Any, application: Any = application, protocols: Sequence[str] = ()
) -> AsyncIterator[tuple[Client, int]]:
    client = Client(application, protocols=protocols, headers=headers)
    await client.open()
    hello = await client.message()
    assert hello == {"v": 1, "type": "hello", "position": hello["position"]}
    yield client, hello["position"]
    await client.close()


async def publish(person: Person, *events: dict[str, Any]) -> None:
    for event in events:
        broadcast.publish(EventGroup.of(person.principal), event)
    assert await sync_to_async(broadcast.flush)(SECONDS)


def state(server: str) -> dict[str, Any]:
    return {"type": "server.state", "server": {"id": server}}


async def test_subscriber_gets_its_own_events_in_order(world: World) -> None:
    async with connected(world.bob.headers) as (client, seq):
        assert await client.subscribe("servers") == seq
        await publish(world.alice, state("alices"))
        await publish(world.bob, state("one"), {"type": "call.started", "id": "c"}, state("two"))
        first, second = await client.message(), await client.message()
        assert await client.is_quiet()
    assert (first["server"], first["seq"]) == ({"id": "one"}, seq + 1)
    assert (second["server"], second["seq"]) == ({"id": "two"}, seq + 3)
    assert set(first) == {"v", "seq", "ts", "type", "server"}


async def test_nothing_comes_before_a_subscription(world: World) -> None:
    async with connected(world.bob.headers) as (client, _):
        await publish(world.bob, state("one"))
        assert await client.is_quiet()


async def test_reconnected_client_gets_what_it_missed_and_then_the_present(world: World) -> None:
    async with connected(world.bob.headers) as (client, seq):
        pass
    await publish(world.bob, state("missed"))
    async with connected(world.bob.headers) as (client, _):
        assert await client.subscribe("servers", since=seq) == seq
        await publish(world.bob, state("new"))
        events = [await client.message(), await client.message()]
    assert [event["server"]["id"] for event in events] == ["missed", "new"]


@pytest.mark.parametrize("since", [0, 5, 1 << 60])
async def test_position_that_is_gone_is_answered_by_resync(world: World, since: Any) -> None:
    await publish(world.bob, state("one"))
    async with connected(world.bob.headers) as (client, seq):
        await client.subscribe("servers", since=since)
        assert await client.message() == {"v": 1, "type": "resync", "seq": seq}


@pytest.mark.parametrize("since", ["x", -1, 1.5, True, [1]])
async def test_what_is_no_position_closes_the_socket(world: World, since: Any) -> None:
    async with connected(world.bob.headers) as (client, _):
        await client.say(type="subscribe", topics=["servers"], since=since)
        assert await client.close_code() == consumers.BAD_MESSAGE


async def test_emptied_redis_is_a_resync(
    world: World, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_feed, "POLL_SECONDS", 0.1)
    async with connected(world.bob.headers) as (client, _):
        await client.subscribe("servers")
        group = EventGroup.of(world.bob.principal)
        await sync_to_async(redis.delete)(group.stream, group.counter)
        assert (await client.message())["type"] == "resync"
        await publish(world.bob, state("after"))
        assert (await client.message())["server"] == {"id": "after"}


async def test_ping_is_answered(world: World) -> None:
    async with connected(world.bob.headers) as (client, _):
        await client.say(type="ping")
        assert await client.message() == {"v": 1, "type": "pong"}


async def test_message_on_the_wire_arrives_live_and_equals_rest(
    exchange: Exchange, world: World
) -> None:
    async with connected(world.bob.headers) as (client, _):
        await client.subscribe("trace:demo")
        exchange.ask("tools/list")
        event = await client.message()
    assert event["type"] == "trace.message"
    assert event["trace"]["content"]["method"] == "tools/list"
    assert event["trace"]["server"] == "demo"
    assert await sync_to_async(recorder.flush)(SECONDS)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"type": "subscribe", "topics": ["server:alices"]}, 4404),
        ({"type": "subscribe", "topics": ["server:unknown"]}, 4404),
        ({"type": "subscribe", "topics": ["call:c"]}, 4404),
        ({"type": "subscribe", "topics": ["nonsense"]}, 4400),
        ({"type": "subscribe", "topics": "servers"}, 4400),
        ({"type": "subscribe"}, 4400),
        ({"type": "unknown"}, 4400),
        ([], 4400),
        ("x" * 20_000, 4400),
    ],
)
async def test_message_that_cannot_be_followed_closes_the_socket(
    world: World, message: Any, code: int
) -> None:
    client = Client(application, headers=world.bob.headers)
    await client.open()
    await client.message()
    await client.send(json.dumps(message))
    assert await client.close_code() == code


async def test_traces_need_their_scope(world: World) -> None:
    headers = await sync_to_async(world.bob.headers_with)(Scope.SERVERS_READ)
    client = Client(application, headers=headers)
    await client.open()
    await client.message()
    await client.say(type="subscribe", topics=["traces"])
    assert await client.close_code() == 4403


async def test_revoked_key_ends_the_socket(world: World) -> None:
    client = Client(application, headers=world.bob.headers)
    await client.open()
    await client.message()
    await client.subscribe("servers")
    key = await sync_to_async(ApiKey.unscoped.get)(member=world.bob.member)
    await sync_to_async(api_keys.revoke)(world.alice.principal, api_key_id=str(key.id))
    assert await client.close_code() == 4401


async def test_ticket_opens_one_socket(world: World) -> None:
    shown = credentials.Shown(authorization=f"Bearer {world.bob.key}")
    principal = await sync_to_async(credentials.resolve)(shown)
    ticket = (await sync_to_async(tickets.issue)(principal)).ticket
    protocols = ["mcphub.v1", f"mcphub.ticket.{ticket}"]
    origin = {"origin": "http://127.0.0.1:8000"}
    async with connected(origin, protocols=protocols) as (client, _):
        await client.subscribe("servers")
    again = Client(application, protocols=protocols, headers=origin)
    await again.open()
    assert await again.close_code() == 4401


async def test_foreign_page_is_refused_before_the_accept(world: World) -> None:
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}):
        client = Client(application, headers={**world.bob.headers, **headers})
        assert await client.open() == "refused"


async def test_other_paths_are_no_sockets(world: World) -> None:
    client = Client(application, path="/ws/v1/other", headers=world.bob.headers)
    assert await client.open() == "refused"


async def test_client_that_does_not_read_is_let_go_and_others_are_not_held_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "SEND_SECONDS", 0.2)
    stuck = asyncio.Event()
    closed: list[int] = []

    async def clogged(scope: Any, receive: Any, send: Any) -> None:
        async def slow(message: Any) -> None:
            if message["type"] == "websocket.send" and '"server.state"' in message["text"]:
                await stuck.wait()
            if message["type"] == "websocket.close":
                closed.append(message["code"])
            await send(message)

        await application(scope, receive, slow)

    async with connected(world.bob.headers, clogged) as (slow, _):
        async with connected(world.bob.headers) as (quick, _):
            await slow.subscribe("servers")
            await quick.subscribe("servers")
            await publish(world.bob, *(state(str(number)) for number in range(500)))
            got = [(await quick.message())["server"]["id"] for _ in range(500)]
        assert got == [str(number) for number in range(500)]
        assert (await slow.next_raw())["type"] == "websocket.close"
    assert closed == [1013]


async def test_socket_without_redis_is_told_to_try_again(
    world: World, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any
) -> None:
    await sync_to_async(credentials.resolve)(
        credentials.Shown(authorization=f"Bearer {world.bob.key}")
    )
    monkeypatch.setattr(event_feed, "OPEN_SECONDS", 0.2)
    settings.REDIS_URL = f"unix://{tmp_path / 'nobody.sock'}"
    client = Client(application, headers=world.bob.headers)
    await client.open()
    assert await client.close_code() == 1013
