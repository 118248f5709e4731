"""record(): rows in order, counted losses, poison rows, a database that is away, live events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError
from redis import Redis

from mcphub.core import broadcast
from mcphub.core.broadcast import EventGroup
from mcphub.core.types import JSONObject
from tests.tracing.conftest import Exchange, record, session_of
from tests.waiting import eventually
from tests.world import World
from tracing import recorder, rows, store
from tracing.models import Direction, TraceEvent
from tracing.rows import RowIds, TraceRow

pytestmark = pytest.mark.django_db(transaction=True)


def stored(session: rows.TracedSession) -> list[TraceEvent]:
    """Return the rows of a session in order, when everything recorded is written."""
    assert recorder.flush(20)
    found = TraceEvent.unscoped.filter(connection_id=session.connection_id)
    return list(found.order_by("pk"))


def test_messages_become_rows_in_the_order_they_were_seen(exchange: Exchange) -> None:
    call = uuid.uuid4()
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"content": [], "isError": False}}
    session = exchange.session
    record(session, request, direction=Direction.SENT, call_id=call, attempt=2, size=91)
    record(session, answer, call_id=call, method="tools/call", duration_ms=3.25, size=63)
    sent, received = stored(session)
    assert (sent.seq, received.seq) == (1, 2)
    assert rows.wire(sent) == {
        "id": str(sent.id),
        "seq": 1,
        "at": sent.at.isoformat(timespec="milliseconds"),
        "server": "demo",
        "call": str(call),
        "attempt": 2,
        "direction": "sent",
        "type": "request",
        "method": "tools/call",
        "rpcId": "7",
        "content": request,
        "error": None,
        "size": 91,
        "truncated": False,
        "redacted": False,
        "synthetic": False,
        "durationMs": None,
        "http": None,
    }
    assert rows.wire(received)["type"] == "response"
    assert rows.wire(received)["durationMs"] == 3.25
    assert sent.tenant_id == session.tenant_id
    assert sent.member_id == session.member_id


def test_known_secrets_are_hidden_in_headers_too(exchange: Exchange) -> None:
    session = exchange.session
    session.know(["hunter2-hunter2"])
    headers: JSONObject = {"user-agent": "hunter2-hunter2", "content-type": "application/json"}
    http: JSONObject = {
        "method": "POST",
        "status": 200,
        "durationMs": 1.5,
        "requestHeaders": headers,
        "responseHeaders": {},
    }
    record(session, {"jsonrpc": "2.0", "id": 7, "result": {}}, method="ping", http=http)
    (row,) = stored(session)
    told = rows.wire(row)["http"]
    shown = {"user-agent": "[redacted]", "content-type": "application/json"}
    assert told == {**http, "requestHeaders": shown}


@pytest.mark.parametrize(
    ("message", "kind", "error"),
    [
        ({"id": 1, "method": "ping"}, "request", None),
        ({"method": "notifications/progress"}, "notification", None),
        ({"id": 1, "result": {}}, "response", None),
        ({"id": 1, "result": {"isError": True}}, "response", {"plane": "tool", "code": None}),
        (
            {"id": 1, "error": {"code": -32601, "message": "no"}},
            "error",
            {"plane": "protocol", "code": -32601},
        ),
        (
            {"id": 1, "error": {"code": 10**12}},
            "error",
            {"plane": "protocol", "code": None},
        ),
        ({"id": 1, "error": "odd"}, "error", {"plane": "protocol", "code": None}),
        ({"id": 1}, "invalid", {"plane": "invalid", "code": None}),
        ({"id": "\0\ud800" * 60, "method": "a\0" * 100}, "request", None),
        ({"id": [1], "method": 5}, "invalid", {"plane": "invalid", "code": None}),
    ],
)
def test_type_and_error_plane_are_told_by_the_shape(
    exchange: Exchange, message: Any, kind: str, error: Any
) -> None:
    record(exchange.session, message)
    (row,) = stored(exchange.session)
    assert (row.type, rows.wire(row)["error"]) == (kind, error)


def test_bytes_that_are_no_message_are_kept_as_text(exchange: Exchange) -> None:
    record(exchange.session, None, raw=b"<html>\xff\0</html>", size=16)
    (row,) = stored(exchange.session)
    assert row.type == "invalid"
    assert rows.wire(row)["content"] == "<html>\\xff\0</html>"


def test_hubs_stand_in_for_an_answer_is_an_error_of_the_hub(exchange: Exchange) -> None:
    failure = {"jsonrpc": "2.0", "id": 1, "error": {"code": -31001, "message": "timeout"}}
    record(exchange.session, failure, method="tools/call", synthetic=True)
    (row,) = stored(exchange.session)
    assert rows.wire(row)["error"] == {"plane": "hub", "code": -31001}


def test_secrets_of_the_session_are_hidden_from_the_first_message_on(world: World) -> None:
    session = session_of(world.bob, secrets=["old-secret-1"])
    record(session, {"method": "n", "params": {"a": "old-secret-1", "password": "x"}})
    session.know(["new-secret-2"])
    record(session, {"method": "n", "params": {"a": "new-secret-2"}})
    first, second = stored(session)
    assert first.redacted
    assert json.loads(first.content)["params"] == {"a": "[redacted]", "password": "[redacted]"}
    assert json.loads(second.content)["params"] == {"a": "[redacted]"}
    assert recorder.drain(10)


def test_flood_of_notifications_is_cut_and_what_is_missing_is_counted_exactly(
    exchange: Exchange,
) -> None:
    rpc_id = exchange.ask()
    for number in range(20_000):
        exchange.notify(number=number)
    exchange.answer(rpc_id)
    found = stored(exchange.session)
    kept = [row for row in found if row.type == "notification"]
    dropped = sum(json.loads(row.content)["dropped"] for row in found if row.type == "invalid")
    assert len(kept) + dropped == 20_000
    assert 200 <= len(kept) <= 2000
    assert [row.type for row in found if row.type in {"request", "response"}] == [
        "request",
        "response",
    ]
    marker = next(row for row in found if row.type == "invalid")
    assert (marker.synthetic, marker.is_error) == (True, False)


def test_answers_to_our_requests_are_never_cut(exchange: Exchange) -> None:
    for _ in range(1000):
        exchange.answer(exchange.ask())
    assert len(stored(exchange.session)) == 2000


def test_full_buffer_drops_the_oldest_and_counts_them_exactly(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_WAITING", 10)
    with monkeypatch.context() as patch:
        patch.setattr(recorder.Recorder, "_start", lambda self: None)
        assert recorder.drain(10)
        for _ in range(25):
            exchange.ask()
    exchange.ask()
    found = stored(exchange.session)
    assert [row.seq for row in found if row.type == "request"] == list(range(17, 27))
    markers = [json.loads(row.content) for row in found if row.type == "invalid"]
    assert markers == [{"dropped": 16}]


def test_large_messages_count_by_their_bytes(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_WAITING_BYTES", 1000)
    for _ in range(3):
        record(exchange.session, {"id": 1, "result": {}}, method="x", size=900)
    found = stored(exchange.session)
    assert sum(json.loads(row.content).get("dropped", 1) for row in found) == 3


def test_database_that_is_away_delays_rows_and_loses_none(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, failures = store.insert, iter([OperationalError("gone"), OperationalError("gone")])

    def flaky(batch: Sequence[TraceRow]) -> None:
        for failure in failures:
            raise failure
        insert(batch)

    monkeypatch.setattr(store, "insert", flaky)
    monkeypatch.setattr(recorder, "BACKOFF_SECONDS", (0.01,))
    exchange.ask()
    exchange.ask()
    assert len(stored(exchange.session)) == 2


def test_database_that_stays_away_loses_rows_that_are_counted_when_it_is_back(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(batch: Sequence[TraceRow]) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(recorder, "BACKOFF_SECONDS", (0.001,))
    monkeypatch.setattr(recorder, "TRIES", 3)
    with monkeypatch.context() as patch:
        patch.setattr(store, "insert", away)
        before = recorder.counts().dropped
        exchange.ask()
        exchange.ask()
        eventually(lambda: recorder.counts().dropped == before + 2)
    found = stored(exchange.session)
    assert [json.loads(row.content) for row in found] == [{"dropped": 2}]


@pytest.mark.parametrize("error", [IntegrityError, DataError])
def test_row_that_the_database_refuses_does_not_take_its_neighbours_along(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    insert = store.insert

    def picky(batch: Sequence[TraceRow]) -> None:
        if any("poison" in row.content for row in batch):
            raise error
        insert(batch)

    monkeypatch.setattr(store, "insert", picky)
    for name in ("a", "b", "poison", "c"):
        exchange.ask(name=name)
    found = stored(exchange.session)
    names = [json.loads(r.content)["params"]["name"] for r in found if r.type == "request"]
    assert names == ["a", "b", "c"]
    assert recorder.flush(10)
    last = stored(exchange.session)[-1]
    assert json.loads(last.content) == {"dropped": 1}


def test_rows_of_a_tenant_that_is_gone_are_dropped_alone(exchange: Exchange, world: World) -> None:
    gone = session_of(world.charlie)
    gone.tenant_id = uuid.uuid4()
    record(gone, {"id": 1, "method": "ping"})
    exchange.ask()
    before = recorder.counts().dropped
    assert len(stored(exchange.session)) == 1
    assert stored(gone) == []
    assert recorder.counts().dropped == before + 1


def test_writing_a_row_twice_leaves_one(exchange: Exchange) -> None:
    exchange.ask()
    (row,) = stored(exchange.session)
    again = TraceRow(**{name: getattr(row, name) for name in TraceRow._fields})
    store.insert([again, again])
    assert len(stored(exchange.session)) == 1


def test_every_column_of_the_model_is_written() -> None:
    names = {field.attname for field in TraceEvent._meta.concrete_fields}
    assert names == set(TraceRow._fields)


def test_ids_rise_within_a_millisecond_and_are_version_7() -> None:
    ids = RowIds()
    made = [ids.next() for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == 5000
    assert {(one.version, one.variant) for one in made} == {(7, uuid.RFC_4122)}


def test_message_is_announced_after_it_is_stored_while_somebody_listens(
    exchange: Exchange, redis: Redis
) -> None:
    group = EventGroup.of(exchange.session)
    pubsub: Any = redis.pubsub()  # type: ignore[no-untyped-call]  # of redis-py
    pubsub.subscribe(group.trace_channel)
    assert pubsub.get_message(timeout=5) is not None
    exchange.ask(name="small")
    exchange.ask(name="x" * 5000)
    small, large = stored(exchange.session)
    assert broadcast.flush(10)
    entries: Any = redis.xrange(group.stream)
    events = [json.loads(fields[b"e"]) for _, fields in entries]
    assert [event["trace"] for event in events] == [
        rows.wire(small),
        {**rows.wire(large), "content": None, "contentOmitted": True},
    ]
    assert [event["type"] for event in events] == ["trace.message"] * 2
    pubsub.close()


def test_message_is_not_announced_when_nobody_listens(exchange: Exchange, redis: Redis) -> None:
    exchange.ask()
    assert len(stored(exchange.session)) == 1
    assert broadcast.flush(10)
    assert redis.xlen(EventGroup.of(exchange.session).stream) == 0


def test_fork_leaves_the_child_a_recorder_of_its_own(exchange: Exchange) -> None:
    parent = recorder._recorder
    assert recorder.drain(10)
    recorder._after_fork()
    assert recorder._recorder is not parent
    exchange.ask()
    assert len(stored(exchange.session)) == 1
