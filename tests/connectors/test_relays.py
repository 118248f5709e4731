"""What passes between a server and the downstream client whose call it has, in both eras."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from redis import Redis

from connectors.queue import tick_pipeline, workers
from connectors.server_spec import Era
from connectors.services import call_notes, relays, replies, tool_calls
from connectors.services.outcomes import reply_channel
from connectors.services.relays import RelayTerms
from connectors.services.tool_calls import CallRequest
from connectors.upstream.contract import UpstreamRequest
from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONObject
from tests.connectors.call_stack import RESULT, Gate, Stack
from tests.connectors.relay_stack import Heard, relaying
from tests.fakes.raw_modern import RawModern
from tests.fakes.raw_server import RawServer, Request, Wire, note, result, text_result
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

PROGRESS = "notifications/progress"
MESSAGE = "notifications/message"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"
BOTH: JSONObject = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}}
TASK: JSONObject = {"taskId": "t/1", "status": "working", "ttlMs": None, "x-odd": [None, 1.5]}


def calling(relay: RelayTerms | None, **fields: Any) -> CallRequest:
    params = {"name": "echo", "arguments": {}}
    request = {"method": "tools/call", "target": "echo", "params": params, **fields}
    return CallRequest(**request, relay=relay)


def meta_of(request: Request) -> Any:
    return request.params["_meta"]


# --- on the way from the worker to the web process


async def test_what_a_server_says_arrives_in_order_and_before_the_result(stack: Stack) -> None:
    async def answer(request: UpstreamRequest) -> JSONObject:
        assert request.on_notification is not None
        for number in range(200):
            request.on_notification(PROGRESS, {"progress": number, "x": [None]})
            if number % 50 == 0:
                await tick_pipeline().call("PING")  # so that some leave on their own
        return RESULT

    stack.sessions.answer = answer
    await stack.start_worker()
    heard = Heard()
    made = await stack.submit(relay=heard.terms())
    assert await tool_calls.wait(made.id, 5) is not None
    assert heard.notes == [(PROGRESS, {"progress": n, "x": [None]}) for n in range(200)]
    assert heard.dropped == 0


async def test_of_a_flood_the_newest_arrive_and_the_rest_is_counted(stack: Stack) -> None:
    count = call_notes.MOST_WAITING * 4

    async def answer(request: UpstreamRequest) -> JSONObject:
        assert request.on_notification is not None
        for number in range(count):  # in one turn of the loop: nothing can leave in between
            request.on_notification(MESSAGE, {"data": number})
        return RESULT

    stack.sessions.answer = answer
    await stack.start_worker()
    heard = Heard()
    made = await stack.submit(relay=heard.terms())
    assert await tool_calls.wait(made.id, 5) is not None
    numbers = [params["data"] for _, params in heard.notes]
    assert numbers == list(range(count - call_notes.MOST_WAITING, count))
    assert heard.dropped == count - len(numbers)


async def test_a_batch_that_travels_twice_is_told_once(stack: Stack) -> None:
    await stack.register()
    heard = Heard()
    made = await stack.submit(relay=heard.terms())
    first = call_notes.encode(made.id, 1, 0, [json.dumps([MESSAGE, {"data": 0}]).encode()])
    channel = reply_channel(replies.current().address)
    pipeline = tick_pipeline()
    second = call_notes.encode(made.id, 1, 1, [json.dumps([MESSAGE, {"data": 1}]).encode()])
    for message in (first, first, second):
        await pipeline.call("PUBLISH", channel, message)
    async with asyncio.timeout(5):
        while len(heard.notes) < 2:
            heard.is_due.clear()
            await heard.is_due.wait()
    assert [params["data"] for _, params in heard.notes] == [0, 1]
    assert heard.dropped == 0


async def test_a_call_without_a_relay_tells_nobody_and_publishes_nothing(stack: Stack) -> None:
    await stack.start_worker()
    made = await stack.submit()
    await tool_calls.wait(made.id, 5)
    assert stack.sessions.requests[0].on_notification is None
    assert stack.sessions.requests[0].client_capabilities is None
    assert (await stack.row(made.id)).relay is None


async def test_another_process_that_follows_a_parked_call_is_told_the_rest(stack: Stack) -> None:
    gate = Gate()
    stack.sessions.answer = gate
    await stack.start_worker()
    first, second = Heard(), Heard()
    made = await stack.submit(relay=first.terms())
    await asyncio.wait_for(gate.is_asked.wait(), 5)
    own = replies.current.take()
    assert own is not None
    try:
        await tool_calls.follow(made.id, second.terms())
        row = await stack.row(made.id)
        assert row.reply_to == replies.current().address != own.address
        stack.executor.move(made.id, row.reply_to)
        told = stack.sessions.requests[0].on_notification
        assert told is not None
        told(MESSAGE, {"data": "late"})
        gate.may_answer.set()
        assert await tool_calls.wait(made.id, 5) is not None
    finally:
        await own.aclose()
    assert first.notes == []
    assert second.notes == [(MESSAGE, {"data": "late"})]


async def test_capabilities_that_are_too_large_are_refused_before_anything_is_stored(
    stack: Stack,
) -> None:
    await stack.register()
    large: JSONObject = {"extensions": {TASKS: {"x": "y" * relays.CAPABILITY_BYTES}}}
    with pytest.raises(InvalidInputError):
        await stack.submit(relay=RelayTerms(client_capabilities=large))


# --- what a server may ask


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ({}, {}),
        ({"elicitation": {}}, {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, {"elicitation": {"url": {}}}),
        ({"sampling": {}}, {"sampling": {}}),
        ({"sampling": {"tools": {}, "context": {}}}, {"sampling": {"tools": {}}}),
        ({"roots": {"listChanged": True}}, {}),
        ({"experimental": {"x": {}}, "tasks": {"list": {}}}, {}),
        (
            {"extensions": {TASKS: {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["a"]}}},
            {"extensions": {TASKS: {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["a"]}}},
        ),
        ({"extensions": {"com.example/own": {}}}, {}),
    ],
)
def test_a_modern_server_may_ask_what_both_the_hub_and_this_client_can(
    client: JSONObject, expected: JSONObject
) -> None:
    stored = relays.stored(RelayTerms(client_capabilities=client))
    assert relays.declared(BOTH, Era.MODERN, stored) == expected
    assert relays.declared(BOTH, Era.LEGACY, stored) == BOTH
    assert relays.declared(BOTH, Era.MODERN, None) == BOTH
    assert relays.declared(BOTH, Era.MODERN, relays.stored(RelayTerms())) == BOTH


class Telling:
    """Says three things during a call, and one that is not about it."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        token = meta_of(request)["progressToken"]
        await wire.open_stream()
        await wire.event(note(MESSAGE, {"level": "info", "data": {"n": 1}, "x": None}))
        await wire.event(note(PROGRESS, {"progressToken": token, "progress": 0.5}))
        await wire.event(note("notifications/tools/list_changed"))
        await wire.event(note("notifications/vendor/odd", {"keep": [1]}))
        await wire.event(result(request.id, text_result()))


class LegacyTelling(Telling, RawServer):
    pass


class ModernTelling(Telling, RawModern):
    pass


@pytest.mark.parametrize("server", [LegacyTelling, ModernTelling])
def test_notifications_of_a_call_reach_the_client_that_made_it_in_both_eras(
    world: World, ledger_threads: None, redis: Redis, server: type[RawServer]
) -> None:
    workers.forget_known()
    heard = Heard()
    with relaying(world.alice, server()) as hub:
        hub.call(calling(heard.terms()))
        token = meta_of(hub.server.of("tools/call")[0])["progressToken"]
    assert heard.notes == [
        (MESSAGE, {"level": "info", "data": {"n": 1}, "x": None}),
        (PROGRESS, {"progressToken": token, "progress": 0.5}),
        ("notifications/vendor/odd", {"keep": [1]}),
    ]


def test_each_request_of_the_modern_era_declares_what_its_own_client_can(
    world: World, ledger_threads: None, redis: Redis
) -> None:
    workers.forget_known()
    with relaying(world.alice, RawModern()) as hub:
        clients: list[JSONObject | None] = [
            None,
            {},
            {"elicitation": {"form": {}}, "extensions": {TASKS: {}}},
        ]
        for client in clients:
            hub.call(calling(RelayTerms(client_capabilities=client)))
        told = [meta_of(request)[CAPABILITIES] for request in hub.server.of("tools/call")]
    assert told == [
        {"elicitation": {"form": {}, "url": {}}},
        {},
        {"elicitation": {"form": {}}, "extensions": {TASKS: {}}},
    ]


class TasksServer(RawModern):
    """Answers a call with a task, and every `tasks/…` request with what it got."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, {"resultType": "task", "task": TASK}))

    async def on_message(self, request: Request, wire: Wire) -> None:
        if request.rpc_method.startswith("tasks/"):
            await wire.answer(result(request.id, {"resultType": "complete", "task": TASK}))
        else:
            await super().on_message(request, wire)


def test_tasks_travel_unchanged_with_their_routing_header(
    world: World, ledger_threads: None, redis: Redis
) -> None:
    workers.forget_known()
    with relaying(world.alice, TasksServer()) as hub:
        params = {"name": "echo", "arguments": {}, "task": {"ttl": 60000}}
        made = hub.call(calling(None, params=params))
        assert json.loads(made.outcome_json or b"") == {
            "result": {"resultType": "task", "task": TASK}
        }
        assert hub.server.of("tools/call")[0].params["task"] == {"ttl": 60000}
        for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"):
            params = {"taskId": "t/1", "inputResponses": {"a": {"action": "accept"}}}
            ended = hub.call(calling(None, method=method, target="t/1", params=params))
            assert json.loads(ended.outcome_json or b"")["result"]["task"] == TASK
            request = hub.server.of(method)[0]
            assert request.headers["mcp-name"] == "t/1"
            assert {name: request.params[name] for name in params} == params
