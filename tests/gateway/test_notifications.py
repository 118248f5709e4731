"""What servers announce, as clients of both eras hear of it: each what concerns it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from connectors.started_tasks import TASKS_EXTENSION
from tests.fakes.raw_server import RawServer, Request, Wire, error
from tests.fakes.relay.server import RelayServer
from tests.gateway.hub import Hub, Legacy, Modern, events_of
from tests.gateway.streams import Stream, hearing, listening
from tests.waiting import eventually
from tests.world import World

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"
ELICITED = "notifications/elicitation/complete"
STATUS = "notifications/tasks/status"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
NOTE = "note://one"
SERVERS = pytest.mark.parametrize("is_modern", [False, True], ids=["handshake", "2026-07-28"])


def legacy(hub: Hub, path: str = "/mcp", **fields: Any) -> Legacy:
    return Legacy(client=hub.client(**fields), path=path).open()


def modern(hub: Hub, path: str = "/mcp", **fields: Any) -> Modern:
    return Modern(client=hub.client(), path=path, **fields)


@contextmanager
def acknowledged(client: Modern, wanted: dict[str, Any], **fields: Any) -> Iterator[Stream]:
    """Listen; what is wanted is honored."""
    with listening(client, wanted, **fields) as stream:
        assert stream.message()["params"]["notifications"] == wanted
        yield stream


def announce(server: RelayServer, method: str, params: dict[str, Any] | None = None) -> None:
    server.emit(method, params)


def public(path: str, uri: str) -> str:
    return f"mcphub://demo/{uri}" if path == "/mcp" else uri


def until_subscribed(server: RelayServer, uri: str = NOTE) -> None:
    eventually(lambda: server.is_subscribed(uri), what="the server knows the subscription")


# --- list changes


@SERVERS
@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_list_changes_reach_clients_of_both_eras(hub: Hub, is_modern: bool, path: str) -> None:
    server = hub.add_relay("demo", is_modern=is_modern)
    wanted = {"toolsListChanged": True}
    with hearing(legacy(hub, path)) as old, acknowledged(modern(hub, path), wanted) as new:
        announce(server, TOOLS)
        assert old.message() == {"jsonrpc": "2.0", "method": TOOLS}
        told = new.message()
        assert (told["method"], told["params"]["_meta"]) == (TOOLS, {SUBSCRIPTION: "sub 1"})


@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_who_is_told_of_a_new_tool_finds_and_calls_it_at_once(two: Hub, path: str) -> None:
    server = two.add_relay("demo", is_modern=True)
    prefix = "demo__" if path == "/mcp" else ""
    here, elsewhere = (Modern(client=two.client(process=number), path=path) for number in (0, 1))
    before = [names_of(client) for client in (here, elsewhere)]
    assert before[0] == before[1]
    with acknowledged(here, {"toolsListChanged": True}) as stream:
        for added in ("first", "second"):
            new = f"{prefix}{added}"
            assert new not in names_of(elsewhere)
            server.methods.tools.append({"name": added, "inputSchema": {"type": "object"}})
            announce(server, TOOLS)
            assert stream.message()["method"] == TOOLS
            elsewhere.result("tools/call", {"name": new})
            assert new in names_of(here)
            assert new in names_of(elsewhere)


def names_of(client: Modern) -> list[str]:
    return [each["name"] for each in client.result("tools/list")["tools"]]


def test_a_subscription_hears_of_nothing_that_it_did_not_ask_for(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=True)
    wanted = {"promptsListChanged": True}
    with acknowledged(modern(hub), wanted, subscription=7) as stream:
        announce(server, TOOLS)
        announce(server, UPDATED, {"uri": NOTE})
        announce(server, PROMPTS)
        told = stream.message()
        assert (told["method"], told["params"]) == (PROMPTS, {"_meta": {SUBSCRIPTION: 7}})


def test_what_no_server_offers_is_not_honored(hub: Hub) -> None:
    hub.add_relay("demo", is_modern=False)
    wanted = {
        "toolsListChanged": True,
        "resourceSubscriptions": [f"mcphub://demo/{NOTE}", "mcphub://nobody/x", NOTE],
        "taskIds": ["demo:1"],
        "com.example/odd": True,
    }
    with listening(modern(hub), wanted) as stream:
        honored = stream.message()["params"]["notifications"]
    assert honored == {
        "toolsListChanged": True,
        "resourceSubscriptions": [f"mcphub://demo/{NOTE}"],
    }


def test_a_server_that_comes_or_goes_changes_the_lists_of_the_aggregate(hub: Hub) -> None:
    hub.add_relay("demo", is_modern=True)
    with acknowledged(modern(hub), {"toolsListChanged": True}) as stream:
        hub.add_relay("other", is_modern=False)
        assert stream.message()["method"] == TOOLS


def test_a_storm_of_list_changes_is_few_for_the_client(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    client = legacy(hub)
    client.result("resources/subscribe", {"uri": public("/mcp", NOTE)})
    until_subscribed(server)
    with hearing(client) as stream:
        for number in range(1000):
            announce(server, TOOLS)
            announce(server, UPDATED, {"uri": NOTE, "n": number})
        heard = [stream.message()]
        while heard[-1].get("params", {}).get("n") != 999:
            heard.append(stream.message())
        assert len(heard) < 100


# --- resources


@SERVERS
@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_updates_reach_who_subscribed_with_the_uri_that_it_knows(
    hub: Hub, is_modern: bool, path: str
) -> None:
    server, uri = hub.add_relay("demo", is_modern=is_modern), public(path, NOTE)
    client, other = legacy(hub, path), legacy(hub, path)
    assert client.result("resources/subscribe", {"uri": uri}) == {}
    with (
        hearing(client) as stream,
        hearing(other) as quiet,
        acknowledged(modern(hub, path), {"resourceSubscriptions": [uri]}) as new,
    ):
        until_subscribed(server)
        announce(server, UPDATED, {"uri": NOTE, "title": "é", "x": None})
        told = stream.message()
        assert told["params"] == {"uri": uri, "title": "é", "x": None}
        assert new.message()["params"] == {**told["params"], "_meta": {SUBSCRIPTION: "sub 1"}}
        announce(server, TOOLS)
        assert quiet.message()["method"] == TOOLS
    client.result("resources/unsubscribe", {"uri": uri})
    eventually(lambda: not server.is_subscribed(NOTE), what="nobody is subscribed")


class Refusing(RawServer):
    capabilities = {"tools": {}, "resources": {"subscribe": True}}

    async def on_message(self, request: Request, wire: Wire) -> None:
        if request.rpc_method != "resources/subscribe":
            await super().on_message(request, wire)
            return
        await wire.answer(error(request.id, -32002, "no", {"uri": request.params["uri"]}))


def test_a_servers_refusal_of_a_subscription_is_its_own_error(hub: Hub) -> None:
    hub.add_raw("demo", server := Refusing())
    answer = legacy(hub, "/mcp/s/demo").ask("resources/subscribe", {"uri": "note://missing"})
    assert answer["error"] == {"code": -32002, "message": "no", "data": {"uri": "note://missing"}}
    assert legacy(hub, "/mcp/s/demo").ask("resources/subscribe", {"uri": "note://missing"})["error"]
    assert server.counts["POST resources/subscribe"] == 2


def test_a_session_that_ends_leaves_no_subscription(hub: Hub) -> None:
    server, uri = hub.add_relay("demo", is_modern=False), public("/mcp", NOTE)
    client = legacy(hub)
    client.result("resources/subscribe", {"uri": uri})
    until_subscribed(server)
    assert client.client.delete("/mcp", headers=client.headers).status_code == 204
    eventually(lambda: not server.is_subscribed(NOTE), what="nobody is subscribed")


def test_a_subscription_made_in_one_process_is_heard_in_the_other(two: Hub) -> None:
    server, uri = two.add_relay("demo", is_modern=False), public("/mcp", NOTE)
    client = legacy(two)
    elsewhere = Legacy(client=two.client(process=1), session=client.session)
    with hearing(elsewhere) as stream:
        client.result("resources/subscribe", {"uri": uri})
        until_subscribed(server)
        announce(server, UPDATED, {"uri": NOTE})
        assert stream.message()["params"] == {"uri": uri}


# --- log messages and tasks


def test_a_session_hears_of_messages_from_its_own_level_on(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    loud, calm = legacy(hub), legacy(hub)
    loud.result("logging/setLevel", {"level": "debug"})
    calm.result("logging/setLevel", {"level": "error"})
    eventually(
        lambda: '"debug"' in json.dumps(server.of("logging/setLevel")),
        what="the server logs what the loudest wants",
    )
    with hearing(loud) as all_, hearing(calm) as few:
        announce(server, MESSAGE, {"level": "info", "logger": "db", "data": {"n": 1}})
        announce(server, MESSAGE, {"level": "error", "logger": "db", "data": {"n": 2}})
        assert [all_.message()["params"]["data"]["n"] for _ in range(2)] == [1, 2]
        told = few.message()["params"]
        assert (told["data"], told["logger"]) == ({"n": 2}, "db")


def levels(server: RelayServer) -> list[Any]:
    """Return what the server was told, in order, with the calls in between."""
    seen = tuple(server.seen)
    told = [each for each in seen if each.get("method") in {"logging/setLevel", "tools/call"}]
    return [each["params"].get("level", "call") for each in told]  # type: ignore[union-attr]


def test_the_level_of_a_request_of_2026_holds_at_an_older_server_during_the_call(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    client, session = modern(hub, "/mcp/s/demo"), legacy(hub, "/mcp/s/demo")
    session.result("logging/setLevel", {"level": "error"})
    eventually(lambda: levels(server) == ["error"], what="the wish of the session is met")
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    answer = client.post("tools/call", {"name": "log", "arguments": {}, "_meta": meta})
    heard = [each["params"]["data"] for each in events_of(answer.text) if each.get("method")]
    assert heard == [{"n": None, "deep": [1]}, "a line"]
    eventually(
        lambda: levels(server) == ["error", "info", "call", "error"], what="the level is as before"
    )


def test_a_quieter_client_changes_nothing_of_a_level_that_was_set_by_rest(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    rest = hub.client().post("/api/v1/servers/demo/logging-level", json={"level": "debug"})
    assert rest.status_code == 200, rest.text
    client = legacy(hub, "/mcp/s/demo")
    client.result("logging/setLevel", {"level": "error"})
    meta = {"io.modelcontextprotocol/logLevel": "warning"}
    modern(hub, "/mcp/s/demo").ask("tools/call", {"name": "log", "arguments": {}, "_meta": meta})
    client.result("resources/subscribe", {"uri": NOTE})  # wishes are looked at in any case
    until_subscribed(server)
    assert levels(server) == ["debug", "call"]


def test_an_unknown_level_is_refused(hub: Hub) -> None:
    hub.add_relay("demo", is_modern=False)
    answer = legacy(hub).ask("logging/setLevel", {"level": "loud"})
    assert answer["error"]["code"] == -32602


def test_the_status_of_a_task_reaches_the_session_that_began_it(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    beginner, other = legacy(hub, "/mcp/s/demo"), legacy(hub, "/mcp/s/demo")
    params = {"name": "job", "arguments": {}, "task": {"ttl": 60_000}}
    task = beginner.result("tools/call", params)["task"]
    with hearing(beginner) as stream, hearing(other) as quiet:
        told = {"taskId": task["taskId"], "status": "working", "x": [None]}
        announce(server, STATUS, told)
        announce(server, TOOLS)
        assert stream.message()["params"] == told
        assert quiet.message()["method"] == TOOLS


def test_task_ids_of_a_filter_are_watched_at_the_server(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=True)
    client = modern(hub, capabilities={"extensions": {TASKS_EXTENSION: {}}})
    task = client.result("tools/call", {"name": "demo__job", "arguments": {}})["taskId"]
    own = task.removeprefix("demo:")
    with listening(client, {"taskIds": [task, "demo:somebody-elses"]}) as stream:
        assert stream.message()["params"]["notifications"] == {"taskIds": [task]}
        eventually(lambda: server.is_watched(own), what="the server knows the task")
        announce(server, "notifications/tasks", {"taskId": own, "status": "odd", "x": [1]})
        told = stream.message()["params"]
        while "x" not in told:
            told = stream.message()["params"]
    assert (told["taskId"], told["status"], told["x"]) == (task, "odd", [1])
    assert not server.is_watched("somebody-elses")
    eventually(lambda: not server.is_watched(own), what="nobody watches")


def test_the_end_of_what_happens_on_a_page_is_told_to_who_was_asked_to_show_it(hub: Hub) -> None:
    server = hub.add_relay("demo", is_modern=False)
    fields: dict[str, Any] = {"capabilities": {"elicitation": {"url": {}}}}
    asked, other = (
        Legacy(client=hub.client(), path="/mcp/s/demo", **fields).open() for _ in range(2)
    )
    call = {"name": "ask_url", "arguments": {}}
    assert "result" in asked.call_answering(call, lambda method, params: {"action": "accept"})
    with hearing(asked) as stream, hearing(other) as quiet:
        announce(server, ELICITED, {"elicitationId": "somebody-elses"})
        announce(server, ELICITED, {"elicitationId": "pay-1"})
        assert stream.message()["params"] == {"elicitationId": "pay-1"}
        announce(server, TOOLS)
        assert quiet.message()["method"] == TOOLS


# --- somebody else


def test_nothing_of_another_member_ever_arrives(hub: Hub, world: World) -> None:
    """Both have a server of the same name and subscribe to the same URI."""
    mine = hub.add_relay("demo", is_modern=False)
    theirs = hub.add_relay("demo", is_modern=False, person=world.bob)
    uri = public("/mcp", NOTE)
    alice, bob = legacy(hub), legacy(hub, person=world.bob)
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [uri]}
    for client, server in ((alice, mine), (bob, theirs)):
        client.result("resources/subscribe", {"uri": uri})
        until_subscribed(server)
    with (
        hearing(alice) as old,
        acknowledged(modern(hub), wanted) as new,
        hearing(bob) as control,
    ):
        for number in range(20):
            announce(theirs, UPDATED, {"uri": NOTE, "of": "bob", "n": number})
            announce(theirs, MESSAGE, {"level": "error", "data": f"bob {number}"})
        announce(theirs, TOOLS)
        heard: list[dict[str, Any]] = []
        while {TOOLS, UPDATED, MESSAGE} - {each["method"] for each in heard}:
            heard.append(control.message())
        announce(mine, UPDATED, {"uri": NOTE, "of": "alice"})
        for stream in (old, new):
            told = stream.message()
            assert (told["method"], told["params"]["of"]) == (UPDATED, "alice")
            assert "bob" not in json.dumps(told)
