"""REST of a session itself: pings, and how much the server is to log."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from connectors.models import Connection
from connectors.upstream.contract import UpstreamRequest
from mcphub.core.errors import ProtocolError
from mcphub.core.types import JSONObject
from tests.connectors.call_stack import Stack
from tests.problems import problem

SERVER = "/api/v1/servers/linear"
LEVEL, PING = f"{SERVER}/logging-level", f"{SERVER}/ping"
CALL = f"{SERVER}/tools/search/call"
META = "io.modelcontextprotocol/logLevel"

pytestmark = pytest.mark.django_db(transaction=True)


async def change(stack: Stack, **fields: Any) -> None:
    rows = Connection.unscoped.filter(pk=stack.connection.id)
    await stack.threads.run(lambda: rows.update(**fields))


def asked(stack: Stack) -> list[tuple[str, JSONObject]]:
    return [(request.method, request.params) for request in stack.sessions.requests]


@pytest.mark.parametrize(("era", "method"), [("legacy", "ping"), ("modern", "server/discover")])
async def test_a_ping_says_how_long_the_server_took(
    web: httpx.AsyncClient, stack: Stack, era: str, method: str
) -> None:
    await change(stack, era=era)

    answer = await web.post(PING)

    assert answer.status_code == 200
    assert list(answer.json()) == ["durationMs"]
    assert 0 < answer.json()["durationMs"] < 10_000
    assert asked(stack) == [(method, {})]


async def test_a_ping_that_fails_tells_why(web: httpx.AsyncClient, stack: Stack) -> None:
    async def refuse(request: UpstreamRequest) -> JSONObject:
        raise ProtocolError(rpc_code=-32601, rpc_message="no")

    stack.sessions.answer = refuse

    answer = await web.post(PING)

    assert (answer.status_code, answer.json()["code"]) == (502, "protocol_error")


async def test_a_server_of_the_handshake_era_is_told_the_level_at_once(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    await change(stack, capabilities={"logging": {}})

    answer = await web.post(LEVEL, json={"level": "warning"})
    await web.post(CALL, json={"arguments": {"q": "x"}})

    assert (answer.status_code, answer.json()) == (200, {"level": "warning"})
    assert asked(stack) == [
        ("logging/setLevel", {"level": "warning"}),
        ("tools/call", {"name": "search", "arguments": {"q": "x"}}),
    ]


async def test_a_modern_server_is_told_the_level_with_every_request(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    await change(stack, capabilities={"logging": {}}, era="modern")

    answer = await web.post(LEVEL, json={"level": "debug"})
    await web.post(CALL, json={"arguments": {"q": "x"}, "_meta": {"k": 1}})
    await web.post(CALL, json={"arguments": {"q": "x"}, "_meta": {META: "error"}})

    assert answer.json() == {"level": "debug"}
    assert [params["_meta"] for _, params in asked(stack)] == [
        {META: "debug", "k": 1},
        {META: "error"},
    ]


async def test_a_level_that_cannot_be_set_is_refused(web: httpx.AsyncClient, stack: Stack) -> None:
    unknown = await web.post(LEVEL, json={"level": "loud"})
    not_offered = await web.post(LEVEL, json={"level": "debug"})
    await change(stack, state="disconnected", capabilities={"logging": {}})
    not_connected = await web.post(LEVEL, json={"level": "debug"})

    assert unknown.status_code == 422
    assert [one["path"] for one in unknown.json()["errors"]] == ["/level"]
    assert not_offered.json() == problem(
        "not_offered", LEVEL, "The server does not declare the capability `logging`."
    )
    assert (not_connected.status_code, not_connected.json()["code"]) == (409, "not_connected")
    assert asked(stack) == []
