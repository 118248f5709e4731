"""Bad input over REST: the right status, code and paths, and nothing reaches a wrong server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from mcphub.core.types import JSONObject
from tests.factories import unique
from tests.fakes.hostile import tool
from tests.fakes.mcp_servers import RunningServer
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread, text_result
from tests.live.api import Api
from tests.live.newcomer import Newcomer, newcomer_at
from tests.live.stack import RunningHub

pytestmark = pytest.mark.live

BLOCKED = [
    "https://169.254.169.254/latest/meta-data",
    "https://[fd00:ec2::254]/",
    "https://100.100.100.200/",
    "https://10.0.0.1/mcp",
    "https://192.168.1.1/mcp",
    "https://100.64.0.1/mcp",
    "https://[fe80::1]/mcp",
    "https://[::ffff:10.0.0.1]/mcp",
    "https://[64:ff9b::a9fe:a9fe]/mcp",
    "https://0.0.0.0/mcp",
    "https://2852039166/mcp",
    "https://0xa9fea9fe/mcp",
    "https://0xa9.254.169.254/mcp",
    "https://0251.0376.0251.0376/mcp",
    "https://10.1/mcp",
    "http://203.0.113.7/mcp",
    "https://user:secret@example.com/mcp",
    "https://no.such_host-/mcp",
]
LOCAL = [
    "http://127.0.0.1:8000/mcp",
    "https://127.0.0.1/mcp",
    "https://127.1/mcp",
    "https://2130706433/mcp",
    "https://0x7f.1/mcp",
    "https://0177.0.0.1/mcp",
    "https://[::1]/mcp",
    "https://[::ffff:127.0.0.1]/mcp",
    "https://localhost/mcp",
    "https://a.localhost/mcp",
    "https://example.com:22/mcp",
    "http://example.com/mcp",
]
"""Refused where the operator does not allow loopback, to which any of these names could lead."""


class Naming(RawServer):
    """Its tools say which server they are of, and under which name they were called."""

    def __init__(self, label: str, *names: str) -> None:
        super().__init__()
        self.label = label
        self.names = names

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, {"tools": [tool(name) for name in self.names]}))

    async def on_call(self, request: Request, wire: Wire) -> None:
        text = f"{self.label}:{request.params['name']}"
        await wire.answer(result(request.id, text_result(text)))


def problem(response: Any) -> Mapping[str, Any]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    document: dict[str, Any] = response.json()
    assert document["type"] == f"urn:mcphub:problem:{document['code']}"
    assert document["status"] == response.status_code
    return document


def told(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a problem says apart from whose it is."""
    return {k: v for k, v in document.items() if k not in {"instance", "traceId"}}


# --- who and what is called


def test_unknown_server_and_a_strangers_give_the_same_answer(api: Api, stack: RunningHub) -> None:
    stranger = Api(newcomer_at(stack).http)
    theirs = problem(stranger.call("up", "echo", {"text": "x"}))
    nobodys = problem(stranger.call("nosuch", "echo", {"text": "x"}))
    assert (theirs["status"], theirs["code"]) == (404, "not_found")
    assert told(theirs) == told(nobodys)
    pages = [stranger.http.get(f"/api/v1/servers/{slug}") for slug in ("up", "nosuch")]
    assert told(problem(pages[0])) == told(problem(pages[1]))


def test_a_strangers_call_is_not_found_and_cannot_be_cancelled(api: Api, stack: RunningHub) -> None:
    call = api.call("up", "echo", {"text": "x"}).headers["Mcphub-Call-Id"]
    stranger = Api(newcomer_at(stack).http)
    for path in (f"/api/v1/calls/{call}", "/api/v1/calls/00000000-0000-7000-8000-000000000000"):
        assert problem(stranger.http.get(path))["code"] == "not_found"
        assert problem(stranger.http.post(f"{path}/cancel"))["code"] == "not_found"


def test_unknown_tool_is_not_found_and_reaches_nobody(api: Api, demo: RunningServer) -> None:
    before = demo.demo.executions.total()
    found = problem(api.call("up", "nosuch"))
    assert (found["status"], found["code"]) == (404, "unknown_tool")
    assert demo.demo.executions.total() == before


def test_a_tool_that_is_switched_off_cannot_be_called_until_it_is_on(api: Api) -> None:
    path = "/api/v1/servers/up/tools/echo"
    assert api.http.patch(path, json={"enabled": False}).status_code == 200
    found = problem(api.call("up", "echo", {"text": "x"}))
    assert (found["status"], found["code"]) == (403, "tool_disabled")
    assert api.http.patch(path, json={"enabled": True}).status_code == 200
    assert api.text("up", "echo", {"text": "x"}) == "x"


def test_a_server_that_is_not_connected_says_so(api: Api) -> None:
    assert api.http.post("/api/v1/servers/up/disconnect", json={}).status_code == 200
    found = problem(api.call("up", "echo", {"text": "x"}))
    assert (found["status"], found["code"]) == (409, "not_connected")


# --- arguments and bodies


def test_wrong_argument_types_are_named_by_their_paths(api: Api, demo: RunningServer) -> None:
    before = demo.demo.executions["add"]
    found = problem(api.call("up", "add", {"a": "one", "callId": 5}))
    assert (found["status"], found["code"]) == (422, "invalid_arguments")
    assert {each["path"] for each in found["errors"]} == {
        "/arguments/a",
        "/arguments/b",
        "/arguments/callId",
    }
    assert demo.demo.executions["add"] == before


def test_send_anyway_lets_wrong_arguments_reach_the_server(newcomer: Newcomer) -> None:
    api, server = Api(newcomer.http), Naming("one", "strict")
    strict: JSONObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
    server.names = ()
    server.tools = [tool("strict", strict)]  # type: ignore[misc]  # of this server only
    server.on_list_tools = super(Naming, server).on_list_tools  # type: ignore[method-assign]
    with serving_in_thread(server):
        api.connected("strict", server.url)
        refused = api.call("strict", "strict", {"n": "five"})
        assert problem(refused)["errors"][0]["path"] == "/arguments/n"
        assert server.of("tools/call") == []
        sent = api.call("strict", "strict", {"n": "five"}, sendAnyway=True)
    assert sent.status_code == 200, sent.text
    assert [request.arguments for request in server.of("tools/call")] == [{"n": "five"}]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{nope", 400, "malformed_request"),
        (b"\xff\xfe", 400, "malformed_request"),
        (b'{"arguments": NaN}', 400, "malformed_request"),
        (b"[" * 50_000, 400, "malformed_request"),
        (b"[]", 422, "invalid_input"),
        (b'{"arguments": []}', 422, "invalid_input"),
        (b'{"argumets": {}}', 422, "invalid_input"),
        (b'{"timeoutMs": 0}', 422, "invalid_input"),
        (b'{"timeoutMs": 1e99}', 422, "invalid_input"),
        (b'{"sendAnyway": "yes"}', 422, "invalid_input"),
        (b'{"arguments": {"text": "%s"}}' % (b"x" * (1 << 20)), 422, "arguments_too_large"),
        (b'{"arguments": {"text": "%s"}}' % (b"x" * (2 << 20)), 413, "body_too_large"),
    ],
    ids=lambda value: f"{value[:24]!r}" if isinstance(value, bytes) else None,
)
def test_a_body_that_cannot_be_used_is_refused(
    api: Api, body: bytes, status: int, code: str
) -> None:
    response = api.http.post(
        "/api/v1/servers/up/tools/echo/call",
        content=body,
        headers={"Content-Type": "application/json"},
    )
    found = problem(response)
    assert (found["status"], found["code"]) == (status, code)


def test_odd_texts_pass_both_ways_unchanged(api: Api) -> None:
    text = 'NUL \x00, quote ", \u202e bidi, \U0001f600, \u2028'
    assert api.text("up", "echo", {"text": text}) == text


def test_a_tool_error_and_a_peer_error_stay_what_they_are(api: Api) -> None:
    failed = api.call("up", "fail")
    assert (failed.status_code, failed.json()["isError"]) == (200, True)
    peer = api.http.post("/api/v1/servers/up/prompts/get", json={"name": "nosuch"})
    assert peer.status_code in {200, 502}
    unknown = problem(api.http.post("/api/v1/servers/up/resources/read", json={"uri": 5}))
    assert (unknown["status"], unknown["errors"][0]["path"]) == (422, "/uri")


# --- names and addresses


def test_same_tool_names_of_two_servers_reach_each_their_own(newcomer: Newcomer) -> None:
    """F18."""
    api = Api(newcomer.http)
    odd = ("do.it", "do it", "do/it", "do_it", "DO_IT", "é")
    with ExitStack() as running:
        for label in ("one", "two"):
            server = running.enter_context(serving_in_thread(Naming(label, "echo", *odd)))
            api.connected(label, server.url)
        listed = api.get("/tools", server="one,two")["tools"]
        names = [each["publicName"] for each in listed]
        assert len(set(names)) == len(names) == 2 * (1 + len(odd))
        for each in listed:
            source = each["source"]
            expected = f"{source['serverId']}:{each['name']}"
            assert api.text(source["serverId"], each["name"]) == expected
            asked = {"id": "c1", "function": {"name": each["publicName"], "arguments": "{}"}}
            response = api.http.post("/api/v1/tool-calls?format=openai", json=asked)
            assert response.status_code == 200, response.text
            assert response.json()["content"] == expected
    bare = api.http.post(
        "/api/v1/tool-calls?format=openai",
        json={"id": "c1", "function": {"name": "echo", "arguments": "{}"}},
    )
    assert problem(bare)["code"] == "unknown_tool"


@pytest.mark.parametrize("url", BLOCKED)
def test_an_address_that_may_not_be_called_cannot_be_added(newcomer: Newcomer, url: str) -> None:
    """G09."""
    body = {"name": "x", "url": url, "auth": {"type": "none"}}
    found = problem(newcomer.http.post("/api/v1/servers", json=body))
    assert (found["status"], found["code"]) == (400, "blocked_url")


@pytest.mark.parametrize("url", ["ftp://a.test/", "file:///etc/passwd", "https:///mcp", "", 5])
def test_what_is_no_web_address_is_named_by_its_path(newcomer: Newcomer, url: object) -> None:
    body = {"name": "x", "url": url, "auth": {"type": "none"}}
    found = problem(newcomer.http.post("/api/v1/servers", json=body))
    assert (found["status"], found["code"]) == (422, "invalid_input")
    assert [each["path"] for each in found["errors"]] == ["/url"]


@pytest.mark.parametrize("url", LOCAL)
def test_loopback_cannot_be_added_where_the_operator_does_not_allow_it(
    newcomer: Newcomer, settings: Settings, url: str
) -> None:
    settings.EGRESS_ALLOW_LOOPBACK = False
    response = Client(HTTP_AUTHORIZATION=f"Bearer {newcomer.api_key}").post(
        "/api/v1/servers",
        {"name": "x", "url": url, "auth": {"type": "none"}},
        content_type="application/json",
        HTTP_HOST="127.0.0.1:8000",
    )
    assert (response.status_code, response.json()["code"]) == (400, "blocked_url")


@pytest.mark.parametrize("host", ["metadata.google.internal", "metadata.test", "no.invalid"])
def test_a_name_that_leads_nowhere_allowed_ends_in_one_code_of_two(
    newcomer: Newcomer, host: str
) -> None:
    api, slug = Api(newcomer.http), unique("name")[:24]
    api.add_server(slug, f"https://{host}/mcp", connectionTimeout=3000)
    server = api.http.post(f"/api/v1/servers/{slug}/connect", json={}).json()
    assert server["connectionState"] in {"connecting", "error"}
    assert server["lastError"]["code"] in {"upstream_unreachable", "blocked_url"}
    assert host not in server["lastError"]["message"]
