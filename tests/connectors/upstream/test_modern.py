"""The 2026-07-28 revision: envelope, headers that mirror the request, listening."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from connectors.upstream import reconnect
from connectors.upstream.session import UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.errors import InvalidInputError, ProtocolError
from mcphub.core.types import JSONObject
from tests.connectors.upstream.support import (
    Listener,
    ask,
    call_of,
    connect_failure,
    failure_of,
    opened,
    talking_to,
    text_of,
)
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_modern import RawModern, acknowledged
from tests.fakes.raw_server import Request, Wire, error, event, note, result, serving, text_result

OK = text_result()
META = "io.modelcontextprotocol/"
ANNOTATED: JSONObject = {
    "name": "route",
    "inputSchema": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "nested": {
                "type": "object",
                "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}},
            },
        },
    },
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "MIN_SECONDS", 0.01)
    monkeypatch.setattr(reconnect, "MAX_SECONDS", 0.05)


class Quiet(RawModern):
    """Announces no changes, so that nothing listens."""

    capabilities = {"tools": {}}


class Annotating(Quiet):
    tools = [ANNOTATED]


class Strict(Annotating):
    """Refuses calls that do not mirror the argument."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        if "mcp-param-region" in request.headers:
            await wire.answer(result(request.id, OK))
        else:
            await wire.answer(error(request.id, -32020, "mismatch"), status=400)


async def test_every_request_carries_the_envelope_and_the_routing_headers() -> None:
    server = Quiet()
    async with talking_to(server, Listener(elicitation={"form": {}})) as session:
        assert session.opened.server_info == {"name": "raw-modern", "version": "0"}
        await session.request(call_of("echo"))
    for request in server.requests:
        meta: Any = request.params["_meta"]
        assert meta[META + "protocolVersion"] == "2026-07-28"
        assert meta[META + "clientCapabilities"] == {"elicitation": {"form": {}}}
        assert meta[META + "clientInfo"]["name"] == "mcphub"
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["mcp-method"] == request.rpc_method
        assert "mcp-session-id" not in request.headers
    assert server.of("tools/call")[0].headers["mcp-name"] == "echo"


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("plain name", "plain name"),
        ("a\r\nX: 1", "=?base64?YQ0KWDogMQ==?="),
        ("é", "=?base64?w6k=?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        (" edge", "=?base64?IGVkZ2U=?="),
    ],
)
async def test_p10_names_and_arguments_never_add_a_header(name: str, wire: str) -> None:
    server = Annotating()
    async with talking_to(server) as session:
        session.learn_tools([ANNOTATED | {"name": name}])
        await session.request(call_of(name, region=name, nested={"on": True}))
    call = server.of("tools/call")[0]
    assert call.headers["mcp-name"] == wire
    assert call.headers["mcp-param-region"] == wire
    assert call.headers["mcp-param-on"] == "true"
    assert "x" not in call.headers


@pytest.mark.parametrize("value", ["x" * 20_000, "\ud800"], ids=["long", "surrogate"])
async def test_p10_argument_that_no_header_can_hold_is_the_callers_fault(value: str) -> None:
    async with talking_to(Annotating()) as session:
        await session.request(ask("tools/list"))
        assert isinstance(
            await failure_of(session, call_of("route", region=value)), InvalidInputError
        )
        assert await session.request(call_of("route", region="eu")) == OK


async def test_mirrored_arguments_are_learnt_from_a_listing() -> None:
    server = Annotating()
    async with talking_to(server) as session:
        await session.request(ask("tools/list"))
        await session.request(call_of("route", region="eu"))
    assert server.of("tools/call")[0].headers["mcp-param-region"] == "eu"


async def test_header_mismatch_lists_the_tools_and_tries_once_more() -> None:
    server = Strict()
    async with talking_to(server) as session:
        assert await session.request(call_of("route", region="eu")) == OK
        failed = await failure_of(session, call_of("route"))
    assert isinstance(failed, ProtocolError)
    assert failed.rpc.code == -32020
    assert server.counts["POST tools/call"] == 4


async def test_server_requests_have_no_place_on_the_modern_wire() -> None:
    class Asking(Quiet):
        async def on_call(self, request: Request, wire: Wire) -> None:
            await wire.open_stream()
            await wire.send(event({"jsonrpc": "2.0", "id": 9, "method": "ping"}))
            await wire.event(result(request.id, OK))

    server, listener = Asking(), Listener()
    async with talking_to(server, listener) as session:
        await session.request(call_of("echo"))
    assert "peer_request_dropped" in listener.kinds
    assert [request for request in server.requests if not request.rpc_method] == []


async def test_broken_modern_stream_is_not_resumed() -> None:
    class Breaking(Quiet):
        async def on_call(self, request: Request, wire: Wire) -> None:
            await wire.open_stream()
            await wire.send(b"id: 1\ndata:\n\n")

    server = Breaking()
    async with talking_to(server) as session:
        failed = await failure_of(session, call_of("echo"))
    assert failed.problem_code == "upstream_unreachable"
    assert server.counts["GET"] == 0


async def test_p14_input_required_is_passed_on_with_its_state_byte_exact() -> None:
    state = "s\u00e9 \u0000" * 1000
    rounds: JSONObject = {"resultType": "input_required", "requestState": state}

    class Rounds(Quiet):
        async def on_call(self, request: Request, wire: Wire) -> None:
            await wire.answer(result(request.id, rounds))

    server = Rounds()
    async with talking_to(server) as session:
        first = await session.request(call_of("echo"))
        await session.request(
            UpstreamRequest(
                method="tools/call",
                params={"name": "echo", "requestState": first["requestState"]},
                deadline=Deadline.after(5),
            )
        )
    assert first == rounds
    assert server.of("tools/call")[1].params["requestState"] == state
    assert server.of("tools/call")[0].id != server.of("tools/call")[1].id


class Changing(RawModern):
    """Announces a change to every listener; the first listener's stream breaks then."""

    async def on_listen(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event(acknowledged(request))
        if self.counts["POST subscriptions/listen"] > 1:
            await wire.until_gone()
        await wire.event(note("notifications/tools/list_changed"))


async def test_lost_listen_stream_is_opened_again_and_what_it_missed_is_announced() -> None:
    server, listener = Changing(), Listener()
    async with talking_to(server, listener):
        await server.saw("POST subscriptions/listen", 2)
        await listener.until(lambda: listener.kinds.count("listen_open") == 2)
    changed = [n for n in listener.notifications if n[0] == "notifications/tools/list_changed"]
    assert changed == [("notifications/tools/list_changed", {}, None)] * 2
    wanted = server.of("subscriptions/listen")[0].params["notifications"]
    assert wanted == {"toolsListChanged": True}


class Deaf(RawModern):
    async def on_listen(self, request: Request, wire: Wire) -> None:
        await wire.answer(error(request.id, -32601), status=404)


async def test_server_that_refuses_listeners_is_fine() -> None:
    server, listener = Deaf(), Listener()
    async with talking_to(server, listener) as session:
        await listener.until(lambda: "listen_refused" in listener.kinds)
        assert await session.request(call_of("echo")) == OK
    assert (server.counts["POST subscriptions/listen"], listener.lost) == (1, [])


@pytest.mark.parametrize(
    ("kind", "ready"),
    [
        (Kind.MODERN, "listen_open"),
        (Kind.LEGACY, "stream_open"),
        (Kind.LEGACY_JSON, "stream_open"),
        (Kind.SSE, "initialized"),
    ],
    ids=lambda value: getattr(value, "value", value),
)
async def test_list_changes_arrive_in_both_eras(kind: Kind, ready: str) -> None:
    listener = Listener()
    with running(kind) as server:
        async with opened(server.url, listener) as session:
            await listener.until(lambda: ready in listener.kinds)
            assert text_of(await session.request(call_of("change"))) == "9 tools"
            await listener.until(
                lambda: "notifications/tools/list_changed" in [n[0] for n in listener.notifications]
            )
            listed: Any = await session.request(ask("tools/list"))
            assert listed["tools"][-1]["name"] == "extra1"


async def test_incompatible_modern_server_gets_no_handshake() -> None:
    class Future(RawModern):
        supported = ["2030-01-01"]

        async def on_discover(self, request: Request, wire: Wire) -> None:
            await self.on_initialize(request, wire)

    server = Future()
    async with serving(server), asyncio.timeout(3):
        assert (await connect_failure(server.url)).problem_code == "incompatible_version"
    assert server.counts["POST initialize"] == 0
