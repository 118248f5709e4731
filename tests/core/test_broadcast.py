"""publish(): order, numbers without holes, routes, coalescing, and what losing Redis leaves."""

from __future__ import annotations

import json
import os
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from mcphub.core import broadcast
from mcphub.core.broadcast import EventGroup, Publisher
from mcphub.core.event_stream import APPEND, STREAM_LENGTH, Route
from mcphub.core.types import JSONObject
from tests.waiting import eventually


@pytest.fixture
def group() -> EventGroup:
    return EventGroup(uuid.uuid4(), uuid.uuid4())


def stored(redis: Redis, group: EventGroup) -> list[tuple[int, JSONObject]]:
    entries: Any = redis.xrange(group.stream)
    return [(int(name.split(b"-")[0]), json.loads(fields[b"e"])) for name, fields in entries]


def _milliseconds(redis: Redis) -> int:
    seconds, microseconds = redis.time()
    return seconds * 1000 + microseconds // 1000


def put(publisher: Publisher, group: EventGroup, **event: Any) -> None:
    publisher.put(group, event, only_if_traced=False)


def progress(call: str, value: int) -> JSONObject:
    return {"type": "call.progress", "id": call, "server": "demo", "progress": value}


def test_events_of_a_group_are_stored_in_order_and_numbered_without_holes(
    redis: Redis, group: EventGroup
) -> None:
    before = broadcast.current_seq(group)
    for number in range(1200):
        broadcast.publish(group, {"type": "call.started", "id": str(number)})
    assert broadcast.flush(10)
    events = stored(redis, group)
    assert [event["id"] for _, event in events] == [str(number) for number in range(1200)]
    assert [seq for seq, _ in events] == [before + 1 + number for number in range(1200)]
    assert broadcast.current_seq(group) == before + 1200


def test_events_of_other_members_and_tenants_stay_apart(redis: Redis, group: EventGroup) -> None:
    colleague = EventGroup(group.tenant_id, uuid.uuid4())
    stranger = EventGroup(uuid.uuid4(), group.member_id)
    for one in (group, colleague, stranger):
        broadcast.publish(one, {"type": "server.removed", "id": one.member_id.hex})
    assert broadcast.flush(10)
    for one in (group, colleague, stranger):
        assert [event["id"] for _, event in stored(redis, one)] == [one.member_id.hex]


def test_stream_is_capped_and_expires_when_idle(redis: Redis, group: EventGroup) -> None:
    for number in range(STREAM_LENGTH + 1000):
        broadcast.publish(group, {"type": "call.started", "id": str(number)})
    assert broadcast.flush(10)
    assert redis.xlen(group.stream) <= STREAM_LENGTH + 200
    assert 0 < int(redis.ttl(group.stream)) <= 86_400
    assert 0 < int(redis.ttl(group.counter)) <= 86_400


def test_number_never_goes_back_when_redis_was_emptied(redis: Redis, group: EventGroup) -> None:
    broadcast.publish(group, {"type": "server.removed", "id": "a"})
    assert broadcast.flush(10)
    before = broadcast.current_seq(group)
    redis.delete(group.stream, group.counter)
    eventually(lambda: _milliseconds(redis) > before, what="another millisecond")
    broadcast.publish(group, {"type": "server.removed", "id": "b"})
    assert broadcast.flush(10)
    assert broadcast.current_seq(group) > before


def test_trace_events_are_dropped_without_a_listener_and_take_no_number(
    redis: Redis, group: EventGroup
) -> None:
    before = broadcast.current_seq(group)
    broadcast.publish(group, {"type": "trace.message", "trace": {}}, only_if_traced=True)
    assert broadcast.flush(10)
    assert stored(redis, group) == []
    assert broadcast.current_seq(group) == before
    assert broadcast.traced_among([group]) == frozenset()


def test_trace_events_are_stored_while_somebody_listens(redis: Redis, group: EventGroup) -> None:
    pubsub: Any = redis.pubsub()  # type: ignore[no-untyped-call]  # of redis-py
    pubsub.subscribe(group.trace_channel)
    assert pubsub.get_message(timeout=5) is not None
    assert broadcast.traced_among([group]) == {group}
    broadcast.publish(group, {"type": "trace.message", "trace": {}}, only_if_traced=True)
    assert broadcast.flush(10)
    assert [event["type"] for _, event in stored(redis, group)] == ["trace.message"]
    pubsub.close()


def test_progress_of_a_call_is_coalesced_and_its_newest_comes_before_the_end(
    redis: Redis, group: EventGroup
) -> None:
    for number in range(1000):
        broadcast.publish(group, progress("c1", number))
    broadcast.publish(group, {"type": "call.finished", "call": {"id": "c1"}})
    assert broadcast.flush(10)
    events = [event for _, event in stored(redis, group)]
    assert [event["type"] for event in events][-2:] == ["call.progress", "call.finished"]
    assert events[-2]["progress"] == 999
    assert len(events) < 100


def test_progress_of_one_call_does_not_hold_back_another(redis: Redis, group: EventGroup) -> None:
    for number in range(50):
        broadcast.publish(group, progress("c1", number))
    broadcast.publish(group, progress("c2", 7))
    assert broadcast.flush(10)
    events = [event for _, event in stored(redis, group)]
    assert [event["progress"] for event in events if event["id"] == "c2"] == [7]
    assert [event["progress"] for event in events if event["id"] == "c1"][-1] == 49


def test_what_does_not_fit_the_queue_is_dropped_oldest_first_counted_and_leaves_a_hole(
    redis: Redis, group: EventGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "MAX_WAITING", 10)
    monkeypatch.setattr(Publisher, "_start", lambda self: None)
    publisher = Publisher()
    for number in range(25):
        put(publisher, group, type="call.started", id=str(number))
    assert publisher.counts().dropped == 15
    monkeypatch.undo()
    before = broadcast.current_seq(group)
    put(publisher, group, type="call.started", id="25")
    assert publisher.flush(10)
    events = stored(redis, group)
    assert [event["id"] for _, event in events] == [str(number) for number in range(15, 26)]
    assert events[0][0] == before + 2
    assert publisher.counts() == broadcast.PublisherCounts(published=11, dropped=15)


def test_redis_away_costs_the_caller_nothing_and_leaves_a_hole(
    redis: Redis, group: EventGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher()
    away = Redis(unix_socket_path=os.devnull, retry=Retry(NoBackoff(), 0))
    monkeypatch.setattr(publisher, "_redis", away)
    before = broadcast.current_seq(group)
    put(publisher, group, type="server.removed", id="lost")
    eventually(lambda: publisher.counts().dropped == 1)
    assert not publisher.flush(0)
    monkeypatch.setattr(publisher, "_redis", redis)
    monkeypatch.setattr(publisher, "_script", redis.script_load(APPEND))
    put(publisher, group, type="server.removed", id="kept")
    assert publisher.flush(10)
    assert [event["id"] for _, event in stored(redis, group)] == ["kept"]
    assert stored(redis, group)[0][0] > before + 1


def test_script_that_redis_forgot_is_loaded_again_and_no_event_is_lost(
    redis: Redis, group: EventGroup
) -> None:
    broadcast.publish(group, {"type": "server.removed", "id": "a"})
    assert broadcast.flush(10)
    redis.script_flush()
    broadcast.publish(group, {"type": "server.removed", "id": "b"})
    assert broadcast.flush(10)
    assert [event["id"] for _, event in stored(redis, group)] == ["a", "b"]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "server.state", "server": {"tools": "x" * (200 << 10)}},
        {"type": "server.state", "server": {"bad": float("nan")}},
    ],
    ids=["too large", "not JSON"],
)
def test_event_that_cannot_be_sent_leaves_a_hole(
    redis: Redis, group: EventGroup, event: JSONObject
) -> None:
    before = broadcast.current_seq(group)
    broadcast.publish(group, event)
    assert broadcast.flush(10)
    assert stored(redis, group) == []
    assert broadcast.current_seq(group) == before + 1


def test_fork_leaves_the_child_a_publisher_of_its_own(redis: Redis, group: EventGroup) -> None:
    parent = broadcast._publisher
    broadcast._after_fork()
    assert broadcast._publisher is not parent
    broadcast.publish(group, {"type": "server.removed", "id": "child"})
    assert broadcast.flush(10)
    assert [event["id"] for _, event in stored(redis, group)] == ["child"]


@pytest.mark.parametrize(
    ("event", "route"),
    [
        ({"type": "server.state", "server": {"id": "demo"}}, Route("server.state", "demo")),
        ({"type": "server.removed", "id": "demo"}, Route("server.removed", "demo")),
        ({"type": "tool.changed", "id": "demo"}, Route("tool.changed", "demo")),
        (
            {"type": "call.started", "call": {"id": "c", "server": "demo"}},
            Route("call.started", "demo", "c"),
        ),
        (
            {"type": "call.log", "id": "c", "server": "demo", "data": {"call": "other"}},
            Route("call.log", "demo", "c"),
        ),
        ({"type": "call.log", "id": None, "server": "demo"}, Route("call.log", "demo")),
        (
            {"type": "trace.message", "trace": {"id": "t", "server": "demo", "call": "c"}},
            Route("trace.message", "demo", "c"),
        ),
        (
            {"type": "elicitation.created", "elicitation": {"server": "demo", "call": "c"}},
            Route("elicitation.created", "demo", "c"),
        ),
        ({}, Route("")),
    ],
)
def test_route_says_whom_an_event_concerns(event: JSONObject, route: Route) -> None:
    assert Route.of(event) == route


@given(st.text(), st.text())
def test_route_survives_its_text(server: str, call: str) -> None:
    route = Route.of({"type": "call.log", "server": server, "call": call})
    assert Route.parse(str(route)) == route
