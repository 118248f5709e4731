"""Calls over REST through the lean chain: the answer's bytes, the ledger, and every refusal."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any
from unittest.mock import ANY

import httpx
import pytest

from connectors.models import CatalogTool, Connection, ToolCall
from connectors.upstream.contract import UpstreamRequest
from mcphub.core.errors import ProtocolError, UpstreamError
from mcphub.core.types import JSONObject
from tenants.principal import Scope
from tests.connectors.call_stack import RESULT, Gate, Stack
from tests.problems import problem, wrong
from tests.world import World

CALL = "/api/v1/servers/linear/tools/search/call"
BODY = {"arguments": {"q": "x"}}

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_result_arrives_as_the_server_gave_it(web: httpx.AsyncClient, stack: Stack) -> None:
    answer = await web.post(CALL, json={**BODY, "_meta": {"k": 1}, "timeoutMs": 5000})

    (request,) = stack.sessions.requests
    row = await stack.row(uuid.UUID(answer.headers["mcphub-call-id"]))
    assert answer.status_code == 200
    assert answer.content == json.dumps(RESULT, separators=(",", ":")).encode()
    assert request.params == {"name": "search", "arguments": {"q": "x"}, "_meta": {"k": 1}}
    assert (row.status, row.timeout_ms, row.target) == ("succeeded", 5000, "search")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"


async def test_a_tool_error_is_a_result(web: httpx.AsyncClient, stack: Stack) -> None:
    failed: JSONObject = {"content": [], "isError": True}
    stack.sessions.answer = Gate(failed)
    stack.sessions.answer.may_answer.set()

    answer = await web.post(CALL, json=BODY)

    assert (answer.status_code, answer.json()) == (200, failed)


async def test_the_peers_error_stays_the_peers(web: httpx.AsyncClient, stack: Stack) -> None:
    async def refuse(request: UpstreamRequest) -> JSONObject:
        raise ProtocolError(rpc_code=-32602, rpc_message="no such issue", rpc_data={"at": 1})

    stack.sessions.answer = refuse

    answer = await web.post(CALL, json=BODY)

    assert answer.status_code == 502
    assert answer.json() == problem(
        "protocol_error",
        CALL,
        callId=ANY,
        callStatus="failed",
        rpc={"code": -32602, "message": "no such issue", "data": {"at": 1}},
    )


async def test_no_answer_is_told_as_an_unknown_outcome(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    """E10, G08: the row is what counts, and nobody sends it again."""

    async def vanish(request: UpstreamRequest) -> JSONObject:
        raise UpstreamError("The stream broke.", was_sent=True)

    stack.sessions.answer = vanish

    answer = await web.post(CALL, json=BODY)
    told = await web.get(f"/api/v1/calls/{answer.json()['callId']}")

    assert answer.status_code == 502
    assert answer.json()["callStatus"] == "outcome_unknown"
    assert told.json()["delivery"] == "outcome_unknown"


async def test_respond_async_answers_at_once_and_the_call_can_be_waited_for(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    gate = Gate()
    stack.sessions.answer = gate

    accepted = await web.post(CALL, json=BODY, headers={"Prefer": "respond-async"})
    await gate.is_asked.wait()
    running = await web.get(accepted.headers["location"])
    waiting = asyncio.create_task(web.get(accepted.headers["location"], params={"wait": 5}))
    gate.may_answer.set()
    ended = await waiting

    call_id = accepted.json()["id"]
    call = {
        "id": call_id,
        "server": "linear",
        "method": "tools/call",
        "target": "search",
        "status": "running",
        "attempt": 1,
        "isToolError": False,
        "problem": None,
        "delivery": None,
        "progress": None,
        "timeoutMs": 60000,
        "isCancelRequested": False,
        "createdAt": ANY,
        "sentAt": ANY,
        "finishedAt": None,
        "outcome": None,
    }
    assert accepted.status_code == 202
    assert accepted.json() == {"id": call_id, "status": "queued"}
    assert accepted.headers["location"] == f"/api/v1/calls/{call_id}"
    assert running.json() == call
    assert ended.json() == {
        **call,
        "status": "succeeded",
        "delivery": "answered",
        "finishedAt": ANY,
        "outcome": {"result": RESULT},
    }


async def test_an_idempotency_key_makes_a_second_request_the_same_call(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    key = {"Idempotency-Key": "k1"}

    first = await web.post(CALL, json=BODY, headers=key)
    again = await web.post(CALL, json=BODY, headers=key)
    other = await web.post(CALL, json={"arguments": {"q": "y"}}, headers=key)

    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["mcphub-call-id"] == first.headers["mcphub-call-id"]
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert len(stack.sessions.requests) == 1


async def test_wrong_arguments_are_refused_with_paths_unless_sent_anyway(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    refused = await web.post(CALL, json={"arguments": {"q": 7}})
    sent = await web.post(CALL, json={"arguments": {"q": 7}, "sendAnyway": True})

    assert refused.status_code == 422
    assert refused.json() == problem(
        "invalid_arguments",
        CALL,
        errors=[wrong("/arguments/q", "is not of type string", "wrong_type")],
    )
    assert sent.status_code == 200
    assert len(stack.sessions.requests) == 1


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (
            {"arguments": [], "_meta": 1, "sendAnyway": "x", "timeoutMs": 0, "what": 1},
            ["/what", "/arguments", "/_meta", "/sendAnyway", "/timeoutMs"],
        ),
        ({"timeoutMs": True}, ["/timeoutMs"]),
        ({"timeoutMs": 10_000_000}, ["/timeoutMs"]),
    ],
)
async def test_bodies_of_a_wrong_shape_name_each_place(
    web: httpx.AsyncClient, body: JSONObject, errors: list[str]
) -> None:
    answer = await web.post(CALL, json=body)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == errors


@pytest.mark.parametrize(
    ("path", "code", "status"),
    [
        ("/api/v1/servers/linear/tools/nothing/call", "unknown_tool", 404),
        ("/api/v1/servers/unknown/tools/search/call", "not_found", 404),
        ("/api/v1/calls/00000000-0000-0000-0000-000000000000", "method_not_allowed", 405),
    ],
)
async def test_what_is_not_there_is_said_in_one_way(
    web: httpx.AsyncClient, path: str, code: str, status: int
) -> None:
    answer = await web.post(path, json=BODY)

    assert answer.status_code == status
    assert answer.json() == problem(code, path)


async def test_a_tool_that_is_off_is_not_called(
    web: httpx.AsyncClient, stack: Stack, connection: Connection
) -> None:
    await stack.threads.run(CatalogTool.unscoped.update, is_enabled=False)

    answer = await web.post(CALL, json=BODY)

    assert (answer.status_code, answer.json()) == (403, problem("tool_disabled", CALL))
    assert not stack.sessions.requests


async def test_strangers_and_read_only_keys_call_nothing(
    web: httpx.AsyncClient, stack: Stack, world: World
) -> None:
    def headers() -> dict[str, str]:
        return dict(world.alice.headers_with(Scope.SERVERS_READ))

    read_only = await web.post(CALL, json=BODY, headers=await stack.threads.run(headers))
    stranger = await web.post(CALL, json=BODY, headers=dict(world.charlie.headers))
    nobody = await web.post(CALL, json=BODY, headers={"Authorization": ""})

    assert (read_only.status_code, read_only.json()["requiredScope"]) == (403, "tools:call")
    assert (stranger.status_code, stranger.json()) == (404, problem("not_found", CALL))
    assert nobody.status_code == 401
    assert not stack.sessions.requests


@pytest.mark.parametrize(
    ("path", "body", "method", "target"),
    [
        ("resources/read", {"uri": "file:///a"}, "resources/read", "file:///a"),
        ("prompts/get", {"name": "p", "arguments": {"a": "b"}}, "prompts/get", "p"),
        (
            "complete",
            {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
            "completion/complete",
            "",
        ),
    ],
)
async def test_other_requests_are_relayed_whole(
    web: httpx.AsyncClient, stack: Stack, path: str, body: JSONObject, method: str, target: str
) -> None:
    answer = await web.post(f"/api/v1/servers/linear/{path}", json=body)

    (request,) = stack.sessions.requests
    row = await stack.row(uuid.UUID(answer.headers["mcphub-call-id"]))
    assert (answer.status_code, answer.json()) == (200, RESULT)
    assert (request.method, request.params) == (method, body)
    assert (row.method, row.target) == (method, target)


@pytest.mark.parametrize(
    ("path", "body", "errors"),
    [
        ("resources/read", {}, ["/uri"]),
        ("prompts/get", {"arguments": {"a": 1}}, ["/name", "/arguments"]),
        ("complete", {"ref": 1, "_meta": 1}, ["/ref", "/argument", "/_meta"]),
    ],
)
async def test_other_requests_of_a_wrong_shape_are_refused(
    web: httpx.AsyncClient, path: str, body: JSONObject, errors: list[str]
) -> None:
    answer = await web.post(f"/api/v1/servers/linear/{path}", json=body)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == errors


async def test_a_batch_has_one_outcome_for_each_call(web: httpx.AsyncClient, stack: Stack) -> None:
    calls: list[Any] = [
        {"server": "linear", "tool": "search", **BODY},
        {"server": "linear", "tool": "search", "arguments": {}},
        {"server": "nobodys", "tool": "search"},
        {"server": "linear", "tool": "linear__search", **BODY, "idempotencyKey": "b1"},
        {"tool": 1, "odd": 1},
        {"server": "linear"},
        7,
    ]

    answer = await web.post("/api/v1/tool-calls/batch", json={"calls": calls, "parallel": 2})

    results = answer.json()["results"]
    path = "/api/v1/tool-calls/batch"
    assert answer.status_code == 200
    assert results[0] == {
        "server": "linear",
        "tool": "search",
        "id": ANY,
        "status": "succeeded",
        "result": RESULT,
    }
    assert results[2] == {
        "server": "nobodys",
        "tool": "search",
        "id": None,
        "status": "refused",
        "problem": problem("not_found", path),
    }
    assert [(one["status"], one.get("problem", {}).get("code")) for one in results] == [
        ("succeeded", None),
        ("refused", "invalid_arguments"),
        ("refused", "not_found"),
        ("succeeded", None),
        *[("refused", "invalid_input")] * 3,
    ]
    assert [(one["server"], one["tool"]) for one in results[4:]] == [
        (None, None),
        ("linear", None),
        (None, None),
    ]
    assert len(stack.sessions.requests) == 2


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, ["/calls"]),
        ({"calls": 1, "parallel": 0}, ["/calls", "/parallel"]),
        ({"calls": [{}] * 101}, ["/calls"]),
    ],
)
async def test_a_batch_of_a_wrong_shape_is_refused(
    web: httpx.AsyncClient, body: JSONObject, errors: list[str]
) -> None:
    answer = await web.post("/api/v1/tool-calls/batch", json=body)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == errors


async def test_the_key_of_a_batch_stands_for_each_of_its_calls(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    path, headers = "/api/v1/tool-calls/batch", {"Idempotency-Key": "k1"}
    one = {"server": "linear", "tool": "search", **BODY}
    body = {"calls": [one, one, {**one, "idempotencyKey": "own"}]}
    other = {"calls": [one, one]}

    first = (await web.post(path, json=body, headers=headers)).json()["results"]
    again = (await web.post(path, json=body, headers=headers)).json()["results"]
    mismatch = (await web.post(path, json=other, headers=headers)).json()["results"]
    bad = [await web.post(path, json=body, headers={"Idempotency-Key": k}) for k in ("", "k" * 251)]

    assert again == first
    assert len({call["id"] for call in first}) == 3
    assert [call["problem"]["code"] for call in mismatch] == ["idempotency_mismatch"] * 2
    assert [answer.status_code for answer in bad] == [422, 422]
    assert len(stack.sessions.requests) == 3


async def test_a_models_call_comes_back_as_the_message_for_the_model(
    web: httpx.AsyncClient, stack: Stack
) -> None:
    called = {"id": "c1", "function": {"name": "linear__search", "arguments": '{"q":"x"}'}}

    answer = await web.post("/api/v1/tool-calls?format=openai", json=called)
    unknown = await web.post("/api/v1/tool-calls?format=mcp", json={"name": "search"})
    odd = await web.post("/api/v1/tool-calls?format=odd", json={"name": "search"})

    (request,) = stack.sessions.requests
    assert answer.json() == {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    assert request.params == {"name": "search", "arguments": {"q": "x"}}
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_tool")
    assert (odd.status_code, odd.json()["errors"][0]["path"]) == (422, "/format")


async def test_a_body_over_the_limit_is_not_read(web: httpx.AsyncClient) -> None:
    answer = await web.post(CALL, content=b" " * (3 << 20))

    assert answer.status_code == 413
    assert answer.json()["code"] == "body_too_large"


async def test_hosts_that_are_not_ours_are_refused(web: httpx.AsyncClient, stack: Stack) -> None:
    answer = await web.post(CALL, json=BODY, headers={"Host": "evil.example"})

    assert answer.status_code == 400
    assert not await stack.threads.run(ToolCall.unscoped.count)
