"""GET /traces: the tenant gate, filters, pages, one message, and the files."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from django.utils.dateparse import parse_datetime

from mcphub.core import clock
from tenants.principal import Scope
from tests.tracing.conftest import Exchange, record, session_of
from tests.world import Person, World
from tracing import recorder
from tracing.models import Direction

pytestmark = pytest.mark.django_db(transaction=True)


def get(person: Person, path: str = "", **query: Any) -> Any:
    response = Client().get(f"/api/v1/traces{path}", query, headers=dict(person.headers))
    assert response.status_code == 200, response.content
    return response.json()


def status_of(headers: Any, path: str = "", **query: Any) -> tuple[int, str]:
    response = Client().get(f"/api/v1/traces{path}", query, headers=dict(headers))
    return response.status_code, response.json().get("code", "")


def exported(person: Person, **query: Any) -> str:
    async def read() -> str:
        response: Any = await AsyncClient().get(
            "/api/v1/traces/export", query, headers=dict(person.headers)
        )
        assert response.status_code == 200
        return b"".join([part async for part in response.streaming_content]).decode()

    return async_to_sync(read)()


@pytest.fixture
def seen(exchange: Exchange, world: World) -> dict[str, uuid.UUID]:
    """A call that succeeds, one that fails in each plane, a notification; another server."""
    call = uuid.uuid4()
    other = Exchange(session_of(world.bob, "other"))
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "blue_whale"}}
    record(exchange.session, sent, direction=Direction.SENT, method="tools/call", call_id=call)
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
    record(exchange.session, answer, method="tools/call", call_id=call, duration_ms=2.0)
    exchange.answer(exchange.ask("ping"), "ping", error={"code": -32601, "message": "no"})
    exchange.answer(exchange.ask(), result={"isError": True, "content": []})
    exchange.notify()
    other.ask("tools/list")
    assert recorder.flush(10)
    return {"call": call}


def test_messages_come_newest_first_in_pages(seen: Any, world: World) -> None:
    first = get(world.bob, limit=5)
    second = get(world.bob, limit=5, cursor=first["nextCursor"])
    assert [len(first["items"]), len(second["items"])] == [5, 3]
    assert second["nextCursor"] is None
    ids = [item["id"] for item in first["items"] + second["items"]]
    assert ids == sorted(ids, reverse=True)
    assert first["items"][0]["server"] == "other"


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"server": "demo"}, 7),
        ({"server": "nobody"}, 0),
        ({"direction": "sent"}, 4),
        ({"type": "notification"}, 1),
        ({"method": "tools/call"}, 4),
        ({"status": "error"}, 2),
        ({"status": "ok", "type": "response"}, 1),
        ({"text": "BLUE_whale"}, 1),
        ({"text": "100%"}, 0),
        ({"method": "tools/call", "status": "error", "server": "demo"}, 1),
    ],
)
def test_filters_narrow(seen: Any, world: World, query: dict[str, str], count: int) -> None:
    assert len(get(world.bob, **query)["items"]) == count


def test_messages_of_a_call_and_of_a_span_of_time_are_found(seen: Any, world: World) -> None:
    assert len(get(world.bob, call=str(seen["call"]))["items"]) == 2
    later = (clock.now() + timedelta(hours=1)).isoformat()
    assert get(world.bob, since=later)["items"] == []
    assert len(get(world.bob, until=later)["items"]) == 8


@pytest.mark.parametrize(
    "query",
    [
        {"direction": "sideways"},
        {"type": "x"},
        {"status": "maybe"},
        {"call": "no-uuid"},
        {"since": "yesterday"},
        {"text": "x" * 201},
        {"nonsense": "1"},
        {"cursor": "forged"},
        {"limit": "0"},
    ],
)
def test_wrong_filter_is_refused_by_name(world: World, query: dict[str, str]) -> None:
    response = Client().get("/api/v1/traces", query, headers=dict(world.bob.headers))
    assert response.status_code == 422
    assert [e["path"] for e in response.json()["errors"]] == [f"/{next(iter(query))}"]


def test_one_message_is_shown_whole_and_lists_leave_large_content_out(
    exchange: Exchange, world: World
) -> None:
    exchange.ask(text="x" * 20_000)
    assert recorder.flush(10)
    (listed,) = get(world.bob)["items"]
    assert (listed["content"], listed["contentOmitted"]) == (None, True)
    whole = get(world.bob, f"/{listed['id']}")
    assert whole["content"]["params"]["text"] == "x" * 20_000
    assert "contentOmitted" not in whole


def test_colleague_and_stranger_get_the_answer_of_an_unknown_id(seen: Any, world: World) -> None:
    trace_id = get(world.bob)["items"][0]["id"]
    unknown = [status_of(world.bob.headers, f"/{one}") for one in (uuid.uuid4(), "no-uuid")]
    foreign = [status_of(one.headers, f"/{trace_id}") for one in (world.alice, world.charlie)]
    assert {*unknown, *foreign} == {(404, "not_found")}
    assert get(world.alice)["items"] == get(world.charlie)["items"] == []
    assert json.loads(exported(world.charlie)) == []


def test_credential_without_the_scope_is_refused(seen: Any, world: World) -> None:
    headers = world.bob.headers_with(Scope.SERVERS_READ)
    paths = ("", f"/{uuid.uuid4()}", "/export")
    assert {status_of(headers, path) for path in paths} == {(403, "not_permitted")}
    assert {status_of({}, path)[0] for path in paths} == {401}


def test_list_takes_as_many_queries_for_many_messages_as_for_one(
    exchange: Exchange, world: World, django_assert_max_num_queries: Any
) -> None:
    for _ in range(50):
        exchange.ask()
    assert recorder.flush(10)
    get(world.bob)
    with django_assert_max_num_queries(3):
        get(world.bob)


def test_json_and_ndjson_files_hold_every_message_oldest_first(seen: Any, world: World) -> None:
    listed = [item["id"] for item in get(world.bob)["items"]][::-1]
    as_list = json.loads(exported(world.bob, format="json"))
    as_lines = [json.loads(line) for line in exported(world.bob, format="ndjson").splitlines()]
    assert [row["id"] for row in as_list] == listed
    assert as_lines == as_list
    assert [row["method"] for row in json.loads(exported(world.bob, server="other"))] == [
        "tools/list"
    ]
    assert status_of(world.bob.headers, "/export", format="xml") == (422, "invalid_input")


def test_har_file_is_valid_and_pairs_requests_with_answers(seen: Any, world: World) -> None:
    log = json.loads(exported(world.bob, format="har"))["log"]
    assert log["version"] == "1.2"
    assert set(log["creator"]) == {"name", "version"}
    entries = log["entries"]
    assert len(entries) == 5
    for entry in entries:
        assert {"startedDateTime", "time", "request", "response", "cache", "timings"} <= set(entry)
        assert parse_datetime(entry["startedDateTime"]) is not None
        assert {"method", "url", "httpVersion", "cookies", "headers", "queryString"} <= set(
            entry["request"]
        )
        assert {"status", "statusText", "httpVersion", "content", "redirectURL"} <= set(
            entry["response"]
        )
        assert entry["time"] == sum(entry["timings"].values())
    answered = [e for e in entries if e["response"]["status"] == 200]
    assert [e["request"]["url"] for e in answered] == [
        "mcp://demo/tools/call",
        "mcp://demo/ping",
        "mcp://demo/tools/call",
    ]
    assert answered[0]["time"] == 2.0
    assert json.loads(answered[1]["response"]["content"]["text"])["error"]["code"] == -32601


def test_file_is_bounded_to_the_newest_rows(
    exchange: Exchange, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracing.api.streams.MAX_ROWS", 30)
    monkeypatch.setattr("tracing.api.streams.CHUNK", 7)
    for number in range(50):
        exchange.ask(number=number)
    assert recorder.flush(10)
    rows = json.loads(exported(world.bob))
    assert [row["content"]["params"]["number"] for row in rows] == list(range(20, 50))
