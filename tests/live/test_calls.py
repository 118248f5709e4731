"""Calls over REST: idempotency keys, batches, cancellation, long polls, many at once."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.fakes.mcp_servers import Kind, RunningServer
from tests.fakes.mcp_servers import running as serving
from tests.fakes.raw_server import RawServer, Request, Wire, serving_in_thread
from tests.live.api import Api
from tests.live.newcomer import Newcomer
from tests.live.stack import RunningHub
from tests.waiting import eventually

pytestmark = pytest.mark.live

MANY = 200
MANY_SECONDS = 15.0
ASYNC = {"Prefer": "respond-async"}


class Hanging(RawServer):
    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.until_gone()


# --- idempotency keys


def test_same_key_and_body_give_the_same_call_without_a_second_execution(
    api: Api, demo: RunningServer
) -> None:
    arguments, headers = {"text": "once", "callId": "key-1"}, {"Idempotency-Key": "k1"}
    first = api.call("up", "echo", arguments, headers=headers)
    second = api.call("up", "echo", arguments, headers=headers)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()
    assert first.headers["Mcphub-Call-Id"] == second.headers["Mcphub-Call-Id"]
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert demo.demo.executions["key-1"] == 1


@pytest.mark.parametrize("other", [{"text": "two", "callId": "key-2"}, {"text": "one"}])
def test_same_key_with_another_body_is_refused(
    api: Api, demo: RunningServer, other: dict[str, str]
) -> None:
    demo.demo.executions.pop("key-2", None)
    headers = {"Idempotency-Key": "k2"}
    api.call("up", "echo", {"text": "one", "callId": "key-2"}, headers=headers)
    response = api.call("up", "echo", other, headers=headers)
    assert (response.status_code, response.json()["code"]) == (422, "idempotency_mismatch")
    assert demo.demo.executions["key-2"] == 1


def test_same_key_for_another_tool_is_refused(api: Api) -> None:
    headers = {"Idempotency-Key": "k3"}
    assert api.call("up", "echo", {"text": "1"}, headers=headers).status_code == 200
    response = api.call("up", "fail", {"text": "1"}, headers=headers)
    assert (response.status_code, response.json()["code"]) == (422, "idempotency_mismatch")


def test_key_of_a_call_in_flight_is_a_conflict_that_names_the_call(
    api: Api, demo: RunningServer
) -> None:
    arguments = {"ms": 1500, "callId": "key-4"}
    headers = {"Idempotency-Key": "k4"}
    queued = api.call("up", "sleep", arguments, headers={**headers, **ASYNC})
    assert queued.status_code == 202
    response = api.call("up", "sleep", arguments, headers=headers)
    assert (response.status_code, response.json()["code"]) == (409, "idempotency_in_flight")
    assert response.json()["callId"] == queued.json()["id"]
    assert int(response.headers["Retry-After"]) >= 1
    assert api.get(f"/calls/{queued.json()['id']}", wait=10)["status"] == "succeeded"
    assert api.call("up", "sleep", arguments, headers=headers).status_code == 200
    assert demo.demo.executions["key-4"] == 1


def test_twenty_at_once_with_one_key_are_one_execution(api: Api, demo: RunningServer) -> None:
    arguments, headers = {"ms": 500, "callId": "key-5"}, {"Idempotency-Key": "k5"}
    with ThreadPoolExecutor(20) as threads:
        asked = [
            threads.submit(api.call, "up", "sleep", arguments, headers=headers) for _ in range(20)
        ]
        answers = [each.result() for each in asked]
    done = [answer for answer in answers if answer.status_code == 200]
    assert len({answer.headers["Mcphub-Call-Id"] for answer in done}) == 1
    refused = {answer.json()["code"] for answer in answers if answer not in done}
    assert refused <= {"idempotency_in_flight"}
    assert demo.demo.executions["key-5"] == 1


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_cannot_be_used_is_refused(api: Api, key: str) -> None:
    response = api.call("up", "echo", {"text": "1"}, headers={"Idempotency-Key": key})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert response.json()["errors"][0]["path"] == "/Idempotency-Key"


# --- batches


def batch(api: Api, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    response = api.http.post("/api/v1/tool-calls/batch", json={"calls": list(calls)})
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    return results


def test_a_batch_gives_each_call_its_own_outcome_in_order(api: Api, demo: RunningServer) -> None:
    results = batch(
        api,
        {"server": "up", "tool": "echo", "arguments": {"text": "a"}},
        {"server": "up", "tool": "fail"},
        {"server": "up", "tool": "nosuch"},
        {"server": "nosuch", "tool": "echo"},
        {"server": "up", "tool": "add", "arguments": {"a": "x"}},
        {"server": "up", "tool": "echo", "arguments": []},
        {"server": "up", "tool": "echo", "arguments": {"text": "b"}},
    )
    assert [each["status"] for each in results] == [
        "succeeded",
        "succeeded",
        *["refused"] * 4,
        "succeeded",
    ]
    codes = [each["problem"]["code"] for each in results if "problem" in each]
    assert codes == ["unknown_tool", "not_found", "invalid_arguments", "invalid_input"]
    assert results[0]["result"]["content"][0]["text"] == "a"
    assert results[1]["result"]["isError"] is True
    assert results[6]["result"]["content"][0]["text"] == "b"


def test_a_call_that_hangs_delays_the_others_of_its_batch_by_no_more_than_its_deadline(
    api: Api, demo: RunningServer
) -> None:
    started = time.monotonic()
    with serving_in_thread(Hanging()) as hanging:
        api.connected("hang", hanging.url)
        results = batch(
            api,
            {"server": "hang", "tool": "echo", "timeoutMs": 1000},
            {"server": "up", "tool": "echo", "arguments": {"text": "a", "callId": "fast"}},
        )
    assert [each["status"] for each in results] == ["outcome_unknown", "succeeded"]
    assert results[0]["problem"]["code"] == "timeout"
    assert time.monotonic() - started < 5
    rows = {row["server"]: row for row in api.get("/calls")["items"]}
    assert rows["up"]["finishedAt"] < rows["hang"]["finishedAt"]


def test_a_batch_with_keys_is_repeated_without_a_second_execution(
    api: Api, demo: RunningServer
) -> None:
    one = {"server": "up", "tool": "echo", "arguments": {"text": "a", "callId": "b1"}}
    first, second = (batch(api, {**one, "idempotencyKey": "b1"})[0] for _ in range(2))
    assert (first["id"], first["result"]) == (second["id"], second["result"])
    assert demo.demo.executions["b1"] == 1


# --- cancelling, waiting


@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.MODERN])
def test_a_running_call_is_cancelled_up_to_the_server(newcomer: Newcomer, kind: Kind) -> None:
    api = Api(newcomer.http)
    with serving(kind) as server, ThreadPoolExecutor(1) as threads:
        api.connected("slow", server.url)
        asked = threads.submit(api.call, "slow", "sleep", {"ms": 30_000, "callId": "c"})
        eventually(lambda: server.demo.executions["c"], 10.0, "the call runs")
        call = api.get("/calls", server="slow")["items"][0]
        cancelled = api.http.post(f"/api/v1/calls/{call['id']}/cancel")
        assert cancelled.status_code == 200, cancelled.text
        response = asked.result(10)
        eventually(lambda: server.demo.cancelled["c"], 10.0, "the server has seen the end")
        assert api.text("slow", "echo", {"text": "on"}) == "on"
    assert (response.status_code, response.json()["code"]) == (409, "cancelled")
    assert response.json()["callStatus"] == "cancelled"
    ended = api.get(f"/calls/{call['id']}")
    assert (ended["status"], ended["isCancelRequested"]) == ("cancelled", True)
    again = api.http.post(f"/api/v1/calls/{call['id']}/cancel")
    assert (again.status_code, again.json()["status"]) == (200, "cancelled")


def test_respond_async_answers_at_once_and_the_end_is_polled(api: Api) -> None:
    started = time.monotonic()
    queued = api.call("up", "sleep", {"ms": 3000}, headers=ASYNC)
    assert time.monotonic() - started < 2.5
    assert queued.status_code == 202
    path = queued.headers["Location"]
    assert path == f"/api/v1/calls/{queued.json()['id']}"
    assert api.http.get(path).json()["status"] in {"queued", "running"}
    short = api.http.get(path, params={"wait": "0.1"}).json()
    assert (short["status"] in {"queued", "running"}, short["outcome"]) == (True, None)
    done = api.http.get(path, params={"wait": "10"}).json()
    assert (done["status"], done["delivery"]) == ("succeeded", "answered")
    assert done["outcome"]["result"]["content"][0]["text"] == "slept 3000"


def test_a_wait_that_is_too_short_answers_202_and_the_call_goes_on(api: Api) -> None:
    queued = api.call("up", "sleep", {"ms": 3000}, headers={"Prefer": "wait=1"})
    assert (queued.status_code, queued.json()["status"]) == (202, "running")
    assert api.get(f"/calls/{queued.json()['id']}", wait=10)["status"] == "succeeded"


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf"])
def test_a_wait_that_is_no_time_is_refused(api: Api, wait: str) -> None:
    call = api.call("up", "echo", {"text": "1"}).headers["Mcphub-Call-Id"]
    response = api.http.get(f"/api/v1/calls/{call}", params={"wait": wait})
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "/wait")


async def many(hub: RunningHub, newcomer: Newcomer) -> list[httpx.Response]:
    async with hub.async_client(newcomer.api_key) as http:
        path = "/api/v1/servers/up/tools/sleep/call"
        return await asyncio.gather(
            *(http.post(path, json={"arguments": {"ms": 1000}}) for _ in range(MANY))
        )


def test_two_hundred_calls_of_one_connection_run_at_once(
    api: Api, newcomer: Newcomer, stack: RunningHub
) -> None:
    started = time.monotonic()
    responses = asyncio.run(many(stack, newcomer))
    assert {response.status_code for response in responses} == {200}
    assert time.monotonic() - started < MANY_SECONDS
    rows = api.get("/calls", server="up", limit=MANY)["items"]
    assert [row["status"] for row in rows] == ["succeeded"] * MANY
    assert {row["attempt"] for row in rows} == {1}


def test_a_large_result_passes_intact(api: Api) -> None:
    text = api.text("up", "big", {"kb": 1024})
    assert text == "0123456789abcdef" * 64 * 1024
