"""The rules of 2026-07-28 for envelope and headers, and messages that are none."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, ClassVar

import httpx
import pytest

from connectors.models import ToolCall
from tests.fakes.mcp_servers import Kind
from tests.fakes.raw_modern import RawModern
from tests.fakes.raw_server import Request, Wire, result, text_result
from tests.gateway.hub import (
    ENVELOPE,
    SECONDS,
    Hub,
    Legacy,
    Modern,
    modern_body,
    modern_headers,
)

CALL = {"name": "demo__echo", "arguments": {"text": "x"}}
HEADERS = modern_headers("tools/call", "demo__echo")
CONTRADICTIONS: list[dict[str, str | None]] = [
    {"mcp-protocol-version": None},
    {"mcp-method": "tools/list"},
    {"mcp-method": None},
    {"mcp-name": "demo__add"},
    {"mcp-name": None},
    {"mcp-name": "=?base64?%%?="},
    {"mcp-name": "=?base64?ZGVtb19fYWRk?="},
]
NO_REQUESTS: list[Any] = [
    {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
    {"id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": None, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": True, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": "x" * 1001, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": {}, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1, "method": 7},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []},
    {"jsonrpc": "2.0", "id": 1},
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
    [modern_body("server/discover")],
    "tools/list",
    7,
]
WRONG_PARAMS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": 7}),
    ("tools/call", {"name": ""}),
    ("tools/call", {"name": "demo__echo", "arguments": []}),
    ("resources/read", {"uri": None}),
    ("prompts/get", {}),
    ("completion/complete", {"ref": "x", "argument": {}}),
    ("completion/complete", {"ref": {"type": "ref/prompt"}, "argument": {}}),
    ("tools/list", {"cursor": 7}),
    ("tools/list", {"cursor": "' OR 1=1"}),
]


def test_a_header_that_contradicts_the_body_is_refused(hub: Hub) -> None:
    client = hub.client()
    for changes in CONTRADICTIONS:
        headers = {key: value for key, value in {**HEADERS, **changes}.items() if value is not None}
        answer = client.post("/mcp", json=modern_body("tools/call", CALL), headers=headers)
        assert answer.status_code == 400, changes
        assert (answer.json()["error"]["code"], answer.json()["id"]) == (-32020, 1), changes
    assert not ToolCall.unscoped.exists()


def test_blanks_around_a_header_are_no_part_of_its_value(hub: Hub) -> None:
    hub.add("demo", Kind.MODERN)
    address = httpx.URL(hub.urls[0])
    body = json.dumps(modern_body("tools/call", CALL))
    blank = {name: f" \t{value} \t" for name, value in HEADERS.items()}
    connection = HTTPConnection(address.host, address.port or 0, timeout=SECONDS)
    with closing(connection):
        headers = {**hub.person.headers, **blank, "Content-Type": " application/json "}
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        assert (answer.status, "result" in json.loads(answer.read())) == (200, True)


def test_a_revision_of_the_other_era_says_that_there_is_a_session(hub: Hub) -> None:
    headers = {**HEADERS, "mcp-protocol-version": "2025-11-25"}
    answer = hub.client().post("/mcp", json=modern_body("tools/call", CALL), headers=headers)
    assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (400, "session_needed")


def test_a_routing_header_comes_once(hub: Hub) -> None:
    headers = [*HEADERS.items(), ("mcp-name", "demo__echo")]
    answer = hub.client().post("/mcp", json=modern_body("tools/call", CALL), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020)


def test_a_name_may_be_encoded(hub: Hub) -> None:
    hub.add("demo", Kind.MODERN)
    name = "=?base64?" + base64.b64encode(b"demo__echo").decode() + "?="
    headers = {**HEADERS, "mcp-name": name}
    answer = hub.client().post("/mcp", json=modern_body("tools/call", CALL), headers=headers)
    assert answer.json()["result"]["content"][0]["text"] == "x"


@pytest.mark.parametrize("key", ["protocolVersion", "clientCapabilities"])
def test_the_envelope_is_complete(hub: Hub, key: str) -> None:
    body = modern_body("tools/call", CALL)
    del body["params"]["_meta"][ENVELOPE + key]
    answer = hub.client().post("/mcp", json=body, headers=HEADERS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32602)


def test_a_revision_that_is_not_spoken_is_answered_with_those_that_are(hub: Hub) -> None:
    body = modern_body("server/discover", version="2030-01-01")
    headers = modern_headers("server/discover", version="2030-01-01")
    answer = hub.client().post("/mcp", json=body, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, -32022)
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}


@pytest.mark.parametrize("method", ["tools/none", "initialize", "ping", "x" * 5000])
def test_an_unknown_method_is_not_found(hub: Hub, method: str) -> None:
    answer = Modern(client=hub.client()).post(method)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, -32601)


def test_the_handshake_era_has_no_discovery_and_no_status_for_errors(hub: Hub) -> None:
    client = Legacy(client=hub.client()).open()
    for method in ("server/discover", "subscriptions/listen"):
        answer = client.post(client.request(method))
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32601)


def test_what_is_no_request_is_refused(hub: Hub) -> None:
    client = hub.client()
    for message in NO_REQUESTS:
        answer = client.post("/mcp", json=message, headers=modern_headers("tools/list"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600), message
        assert answer.json()["id"] is None


def test_the_id_comes_back_as_it_was(hub: Hub) -> None:
    client = hub.client()
    for given in (0, -1, 2**60, "", "é", "7"):
        body = modern_body("server/discover", id=given)
        answer = client.post("/mcp", json=body, headers=modern_headers("server/discover"))
        found = answer.json()["id"]
        assert (found, type(found)) == (given, type(given))


def test_a_notification_is_accepted_without_a_word(hub: Hub) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/anything", "params": {}}
    answer = hub.client().post("/mcp", json=note, headers=modern_headers(""))
    assert (answer.status_code, answer.content) == (202, b"")


def test_params_of_a_wrong_shape_are_named(hub: Hub) -> None:
    for client in (Modern(client=hub.client()), Legacy(client=hub.client()).open()):
        for method, params in WRONG_PARAMS:
            assert client.ask(method, params)["error"]["code"] == -32602, (method, params)


def test_an_answer_that_nobody_waits_for_is_accepted_and_lost(hub: Hub) -> None:
    client = Legacy(client=hub.client()).open()
    for answer_id in ("all.x", "0123456789abcdef.0", "x" * 900, 1):
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": answer_id, "result": {}}
        assert client.post(reply).status_code == 202
    assert client.result("ping") == {}


def test_json_alone_is_enough_for_a_client_that_wants_no_stream(hub: Hub) -> None:
    headers = {**modern_headers("server/discover"), "accept": "application/json"}
    answer = hub.client().post("/mcp", json=modern_body("server/discover"), headers=headers)
    assert answer.headers["content-type"] == "application/json"
    headers["accept"] = "text/event-stream"
    answer = hub.client().post("/mcp", json=modern_body("server/discover"), headers=headers)
    assert answer.headers["content-type"] == "text/event-stream"


def test_headers_that_repeat_arguments_agree_with_them(hub: Hub) -> None:
    class Regional(RawModern):
        tools: ClassVar[list[Any]] = [
            {
                "name": "echo",
                "inputSchema": {
                    "type": "object",
                    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
                },
            }
        ]

        async def on_call(self, request: Request, wire: Wire) -> None:
            complete = {**text_result(), "resultType": "complete"}
            await wire.answer(result(request.id, complete))

    server = Regional()
    hub.add_raw("one", server)
    body = modern_body("tools/call", {"name": "one__echo", "arguments": {"region": "eu"}})
    headers = modern_headers("tools/call", "one__echo")
    client = hub.client()
    for told in (None, "us", "=?base64?%%?="):
        wrong = {**headers, "mcp-param-region": told} if told is not None else headers
        answer = client.post("/mcp", json=body, headers=wrong)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32020), told
    assert not server.of("tools/call")
    answer = client.post("/mcp", json=body, headers={**headers, "mcp-param-region": "eu"})
    assert answer.status_code == 200
    assert server.of("tools/call")[0].headers["mcp-param-region"] == "eu"


def test_what_a_client_says_about_itself_is_bounded(hub: Hub) -> None:
    client = Legacy(client=hub.client(), capabilities={"experimental": {"x": "y" * 40_000}})
    params = {"protocolVersion": "2025-11-25", "capabilities": client.capabilities}
    answer = client.post(client.request("initialize", params))
    assert answer.json()["error"]["code"] == -32602
    assert "mcp-session-id" not in answer.headers
