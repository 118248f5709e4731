"""Events of the running hub: a dropped socket loses and doubles nothing, SSE shows the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import SHUT_RDWR
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.fakes.mcp_servers import RunningServer
from tests.live.api import Api
from tests.live.newcomer import newcomer_at
from tests.live.stack import RunningHub

pytestmark = pytest.mark.live

ALL = ("servers", "calls", "traces")
MOST_EVENTS = 500
SECONDS = 15.0
Event = dict[str, Any]
IsLast = Callable[[Event], bool]


@contextmanager
def open_socket(api: Api, *topics: str, since: int | None = None) -> Iterator[ClientConnection]:
    """Open the event socket with a ticket and subscribe."""
    ticket = api.http.post("/api/v1/ws-tickets", json={}).json()["ticket"]
    url = f"{api.http.base_url}".replace("http", "ws", 1).rstrip("/") + "/ws/v1/events"
    protocols: Any = ["mcphub.v1", f"mcphub.ticket.{ticket}"]
    with connect(url, subprotocols=protocols, proxy=None) as socket:
        assert json.loads(socket.recv(timeout=SECONDS))["type"] == "hello"
        wish = {"type": "subscribe", "topics": list(topics), "since": since}
        socket.send(json.dumps(wish))
        yield socket


def events_of(socket: ClientConnection, is_last: IsLast) -> list[Event]:
    """Receive events up to and with the last one; what is no event of the stream is left out."""
    events = []
    for _ in range(MOST_EVENTS):
        event = json.loads(socket.recv(timeout=SECONDS))
        if event["type"] not in {"hello", "subscribed"}:
            events.append(event)
        if is_last(event):
            return events
    raise AssertionError(f"never came: {events[-3:]}")


def drop(socket: ClientConnection) -> None:
    """End the connection as a network does: without a word of the protocol."""
    socket.socket.shutdown(SHUT_RDWR)


def echo(api: Api, text: str) -> str:
    response = api.call("up", "echo", {"text": text})
    assert response.status_code == 200, response.text
    call_id: str = response.headers["Mcphub-Call-Id"]
    return call_id


def is_end_of(call_id: str) -> IsLast:
    def is_end(event: Event) -> bool:
        return event["type"] == "call.finished" and bool(event["call"]["id"] == call_id)

    return is_end


@contextmanager
def sse(api: Api, since: int, topics: str = ",".join(ALL)) -> Iterator[Iterator[Event]]:
    """Open the SSE twin; yields its events with their SSE ids as `_id`."""
    headers = {"Last-Event-ID": str(since)}
    path = f"/api/v1/events?topics={topics}"
    with api.http.stream("GET", path, headers=headers, timeout=SECONDS) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield frames(response)


def frames(response: httpx.Response) -> Iterator[Event]:
    number = ""
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            number = value
        elif name == "data":
            yield {**json.loads(value), "_id": int(number)}


def test_a_socket_that_drops_and_comes_back_has_lost_and_doubled_nothing(api: Api) -> None:
    with open_socket(api, *ALL) as witness:
        with open_socket(api, *ALL) as socket:
            seen = events_of(socket, is_end_of(echo(api, "before")))
            drop(socket)
        calls = [echo(api, f"while away {n}") for n in range(10)]
        with open_socket(api, *ALL, since=seen[-1]["seq"]) as back:
            seen += events_of(back, is_end_of(calls[-1]))
            last = echo(api, "after")
            seen += events_of(back, is_end_of(last))
        everything = events_of(witness, is_end_of(last))
    seqs = [event["seq"] for event in seen]
    assert seqs == sorted(set(seqs))
    assert seen == everything[-len(seen) :]
    assert "resync" not in {event["type"] for event in seen}
    ended = [event["call"]["id"] for event in seen if event["type"] == "call.finished"]
    assert ended[-11:] == [*calls, last]


def test_sse_shows_the_same_events_under_the_same_numbers(api: Api) -> None:
    with open_socket(api, *ALL) as socket:
        start = events_of(socket, is_end_of(echo(api, "first")))[-1]["seq"]
        calls = [echo(api, str(number)) for number in range(5)]
        expected = events_of(socket, is_end_of(calls[-1]))
    for _ in range(2):  # the second time with everything from the past
        with sse(api, start) as events:
            assert next(events)["type"] == "hello"
            found = [next(events) for _ in expected]
        assert [event.pop("_id") for event in found] == [event["seq"] for event in expected]
        assert found == expected


def test_sse_that_drops_goes_on_after_its_last_event_id(api: Api) -> None:
    with sse(api, 0) as events:
        assert {next(events)["type"], next(events)["type"]} == {"hello", "resync"}
        first = echo(api, "one")
        before = take_until(events, is_end_of(first))
    second = echo(api, "two")
    with sse(api, before[-1]["_id"]) as events:
        assert next(events)["type"] == "hello"
        after = take_until(events, is_end_of(second))
    numbers = [event["seq"] for event in before + after]
    assert numbers == sorted(set(numbers))
    started = [event["call"]["id"] for event in before + after if event["type"] == "call.started"]
    assert started == [first, second]


def take_until(events: Iterator[Event], is_last: IsLast) -> list[Event]:
    taken = []
    for event in events:
        taken.append(event)
        if is_last(event):
            return taken
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("since", [1, 0, 1 << 53])
def test_a_position_that_is_not_known_any_more_is_answered_with_a_resync(
    api: Api, since: int
) -> None:
    with open_socket(api, *ALL, since=since) as socket:
        events = events_of(socket, lambda event: event["type"] == "resync")
        assert len(events) == 1
        call = echo(api, "after the resync")
        assert events_of(socket, is_end_of(call))


def test_a_stranger_hears_nothing_and_may_not_ask_for_it(api: Api, stack: RunningHub) -> None:
    """G10."""
    stranger = Api(newcomer_at(stack).http)
    with open_socket(stranger, *ALL) as socket:
        call = echo(api, "private")
        socket.send(json.dumps({"type": "ping"}))
        heard = events_of(socket, lambda event: event["type"] == "pong")
        assert [event["type"] for event in heard] == ["pong"]
    for topic in ("server:up", "trace:up", f"call:{call}", "server:nosuch", "call:nosuch"):
        with open_socket(stranger, topic) as socket:
            with pytest.raises(ConnectionClosed) as caught:
                events_of(socket, lambda event: False)
            assert caught.value.rcvd is not None
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4404, "not_found")
        response = stranger.http.get(f"/api/v1/events?topics={topic}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_progress_and_states_arrive_in_order_with_the_topics_of_one_server(
    api: Api, demo: RunningServer
) -> None:
    """G04."""
    api.connected("other", demo.url)
    with open_socket(api, "server:up", "trace:up") as socket:
        assert api.text("other", "echo", {"text": "elsewhere"}) == "elsewhere"
        assert api.http.post("/api/v1/servers/up/disconnect", json={}).status_code == 200
        api.connect("up")
        call = echo(api, "here")

        def is_answer(event: Event) -> bool:
            trace = event.get("trace", {})
            return bool(trace.get("call") == call and trace["direction"] == "received")

        events = events_of(socket, is_answer)
    assert {event["type"].partition(".")[0] for event in events} <= {"server", "trace", "tool"}
    servers = {e["trace"]["server"] for e in events if e["type"] == "trace.message"}
    assert servers == {"up"}
    states = [e["server"]["connectionState"] for e in events if e["type"] == "server.state"]
    assert states[-3:] == ["disconnected", "connecting", "connected"]
