"""Streams: what is said meanwhile, cancellation, the HTTP+SSE transport, and how streams end."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from connectors.models import CallStatus, ToolCall
from connectors.services import notices
from tenants import api_keys
from tenants.models import ApiKey
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import SECONDS, Hub, Legacy, Modern, modern_body, modern_headers
from tests.gateway.streams import STREAM, Stream, hearing, listening, opened
from tests.waiting import eventually
from tests.world import World

SLEEP = {"name": "demo__sleep", "arguments": {"ms": 30_000}}


def until(status: CallStatus) -> None:
    eventually(lambda: ToolCall.unscoped.get().status == status, what=f"the call is {status}")


def test_a_message_is_one_line_by_anybodys_reading(hub: Hub) -> None:
    hub.add("demo", Kind.MODERN)
    text = "a\u2028b\u2029c\x85d \u2013 e"
    call = {"name": "echo", "arguments": {"text": text}}
    headers = modern_headers("tools/call", "echo")
    client = hub.client()
    answers = [
        client.post(
            "/mcp/s/demo",
            json=modern_body("tools/call", call),
            headers={**headers, "accept": accept},
        )
        for accept in ("text/event-stream", "application/json")
    ]
    event, data, end = answers[0].text.splitlines()
    assert (event, end) == ("event: message", "")
    assert json.loads(data.removeprefix("data: ")) == answers[1].json()
    assert answers[1].json()["result"]["content"][0]["text"] == text


# --- what is said meanwhile ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.MODERN, Kind.LEGACY])
def test_progress_comes_in_order_under_the_clients_own_token(hub: Hub, kind: Kind) -> None:
    hub.add("demo", kind)
    call = {"name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "mine"}}
    body = modern_body("tools/call", call)
    headers = modern_headers("tools/call", "progress")
    with hub.client().stream("POST", "/mcp/s/demo", json=body, headers=headers) as response:
        stream = Stream(response)
        told = [stream.message()["params"] for _ in range(3)]
        assert [each["progress"] for each in told] == [1, 2, 3]
        assert {each["progressToken"] for each in told} == {"mine"}
        assert stream.message()["result"]["content"][0]["text"] == "3 steps"
        assert stream.has_ended()


def test_without_a_token_nothing_is_told_and_the_answer_is_plain_json(hub: Hub) -> None:
    hub.add("demo", Kind.MODERN)
    call = {"name": "progress", "arguments": {"steps": 3}}
    answer = Modern(client=hub.client(), path="/mcp/s/demo").post("tools/call", call)
    assert answer.headers["content-type"] == "application/json"


def test_log_messages_come_where_the_request_asks_for_them(hub: Hub) -> None:
    hub.add("demo", Kind.LEGACY)
    call = {"name": "notify", "arguments": {"n": 2}}
    client = Legacy(client=hub.client(), path="/mcp/s/demo").open()
    events: list[dict[str, Any]] = []
    client.call_answering(call, lambda method, params: None, events=events)
    assert [each["params"]["data"] for each in events[:-1]] == [0, 1]
    silent = Modern(client=hub.client(), path="/mcp/s/demo").post("tools/call", call)
    assert silent.headers["content-type"] == "application/json"


# --- cancellation -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.MODERN, Kind.LEGACY])
def test_a_modern_client_that_closes_its_stream_cancels_the_call(hub: Hub, kind: Kind) -> None:
    hub.add("demo", kind)
    client = hub.client()
    with pytest.raises(httpx.ReadTimeout):
        client.post(
            "/mcp",
            json=modern_body("tools/call", SLEEP),
            headers=modern_headers("tools/call", "demo__sleep"),
            timeout=1.0,
        )
    until(CallStatus.CANCELLED)


def test_a_client_of_the_handshake_era_that_loses_its_stream_cancels_nothing(hub: Hub) -> None:
    hub.add("demo", Kind.LEGACY)
    client = Legacy(client=hub.client()).open()
    call = {"name": "demo__sleep", "arguments": {"ms": 1500}}
    with pytest.raises(httpx.ReadTimeout):
        client.client.post(
            "/mcp", json=client.request("tools/call", call), headers=client.headers, timeout=0.7
        )
    until(CallStatus.SUCCEEDED)


def test_a_cancellation_may_come_to_another_process(two: Hub) -> None:
    two.add("demo", Kind.LEGACY)
    client = Legacy(client=two.client(), capabilities={}).open()
    other = Legacy(client=two.client(process=1), session=client.session)
    body = client.request("tools/call", SLEEP)
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(client.post, body)
        sent = ToolCall.unscoped.filter(status=CallStatus.SENT)
        eventually(sent.exists, what="the call is sent")
        other.notify("notifications/cancelled", {"requestId": body["id"], "reason": "enough"})
        answer = answered.result(SECONDS)
    assert (answer.status_code, answer.content) == (202, b"")
    until(CallStatus.CANCELLED)


def test_nobody_else_can_cancel(hub: Hub) -> None:
    hub.add("demo", Kind.LEGACY)
    client = Legacy(client=hub.client()).open()
    other = Legacy(client=hub.client()).open()
    call = {"name": "demo__sleep", "arguments": {"ms": 700}}
    body = client.request("tools/call", call)
    other.notify("notifications/cancelled", {"requestId": body["id"]})
    assert "result" in client.post(body).json()


# --- the stream of a session --------------------------------------------------------------------


def test_the_stream_of_a_session_ends_with_the_session(two: Hub) -> None:
    client = Legacy(client=two.client()).open()
    with opened(client.client, "/mcp", client.headers) as stream:
        there = two.client(process=1)
        assert there.delete("/mcp", headers=client.headers).status_code == 204
        assert stream.has_ended()


def test_the_stream_of_a_session_ends_with_the_credential(hub: Hub) -> None:
    client = Legacy(client=hub.client()).open()
    key = ApiKey.unscoped.get(member=hub.person.member)
    with opened(client.client, "/mcp", client.headers) as stream:
        api_keys.revoke(hub.person.principal, api_key_id=str(key.pk))
        assert stream.has_ended()
    answer = client.post(client.request("ping"))
    assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (
        401,
        "credential_revoked",
    )


def test_a_session_has_one_stream_the_newest_in_whichever_process(two: Hub) -> None:
    server = two.add_relay("demo", is_modern=False)
    client = Legacy(client=two.client()).open()
    there = Legacy(client=two.client(process=1), session=client.session)
    with hearing(client) as first, hearing(client) as second, hearing(there) as newest:
        server.emit("notifications/tools/list_changed")
        assert newest.message()["method"] == "notifications/tools/list_changed"
        assert first.has_ended()
        assert second.has_ended()


def test_streams_of_a_member_are_bounded(
    hub: Hub, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST_LISTENERS", 2)
    hub.add_relay("demo", is_modern=True)
    old, new = Legacy(client=hub.client()).open(), Modern(client=hub.client())
    wanted = {"notifications": {"toolsListChanged": True}}
    with hearing(old), listening(new, wanted["notifications"]) as stream:
        stream.message()
        refused = hub.client().get("/mcp", headers={**old.headers, **STREAM})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
        assert new.ask("subscriptions/listen", wanted)["error"]["data"]["code"] == "limit_reached"
        with hearing(Legacy(client=hub.client(world.bob)).open()):
            pass  # another member is not concerned


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "application/json"}, 406),
        ({"mcp-session-id": "unknown"}, 404),
        ({"mcp-session-id": ""}, 404),
        ({"mcp-protocol-version": "2026-07-28"}, 405),
    ],
)
def test_a_stream_needs_a_session(hub: Hub, headers: dict[str, str], status: int) -> None:
    assert hub.client().get("/mcp", headers={**STREAM, **headers}).status_code == status


def test_without_a_session_there_is_no_stream(hub: Hub) -> None:
    assert hub.client().get("/mcp", headers=STREAM).status_code == 400


# --- HTTP+SSE (2024-11-05) ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_a_client_of_the_first_transport_does_everything_on_one_stream(two: Hub, path: str) -> None:
    two.add("demo", Kind.MODERN, AskingServer())
    client = two.client()
    prefix = "demo__" if path == "/mcp" else ""
    with opened(client, f"{path}/sse", {}) as stream:
        name, address = stream.next()
        assert (name, address.partition("?")[0]) == ("endpoint", f"{path}/sse/messages")
        posting = [client, two.client(process=1)]

        def send(message: dict[str, Any], process: int = 0) -> None:
            answer = posting[process].post(address, json={"jsonrpc": "2.0", **message})
            assert (answer.status_code, answer.content) == (202, b"")

        params: dict[str, Any] = {"protocolVersion": "2024-11-05"}
        params["capabilities"] = {"elicitation": {}}
        send({"id": 1, "method": "initialize", "params": params})
        assert stream.message()["result"]["protocolVersion"] == "2024-11-05"
        send({"method": "notifications/initialized"})
        for process in (0, 1):
            params = {"name": f"{prefix}echo", "arguments": {"text": f"{process}"}}
            send({"id": "two", "method": "tools/call", "params": params}, process)
            found = stream.message()
            assert (found["id"], found["result"]["content"][0]["text"]) == ("two", f"{process}")
        send({"id": 3, "method": "tools/call", "params": {"name": f"{prefix}ask"}})
        question = stream.message()
        assert question["method"] == "elicitation/create"
        reply = {"action": "accept", "content": {"name": "Ada"}}
        send({"id": question["id"], "result": reply}, 1)
        assert json.loads(stream.message()["result"]["content"][0]["text"]) == reply
    eventually(
        lambda: posting[1].post(address, json={}).status_code == 404,
        what="the session has ended with its stream",
    )


def test_the_first_transport_takes_messages_of_its_own_member_only(hub: Hub, world: World) -> None:
    client = hub.client()
    with opened(client, "/mcp/sse", {}) as stream:
        _, address = stream.next()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert hub.client(world.bob).post(address, json=ping).status_code == 404
        assert client.post("/mcp/sse/messages", json=ping).status_code == 400
        assert client.post(address, json=[ping]).status_code == 400
        assert client.post(address, json=ping).status_code == 202
        assert stream.message() == {"jsonrpc": "2.0", "id": 1, "result": {}}
