"""The first five minutes: connect the demo server, call a tool, see every message arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.live.api import Api
from tests.live.newcomer import Newcomer
from tests.waiting import eventually

pytestmark = pytest.mark.live


def open_events(api: Api) -> ClientConnection:
    """Open the event socket with a ticket, as a browser does."""
    ticket = api.http.post("/api/v1/ws-tickets", json={}).json()["ticket"]
    url = f"{api.http.base_url}".replace("http", "ws", 1).rstrip("/") + "/ws/v1/events"
    return connect(url, subprotocols=["mcphub.v1", f"mcphub.ticket.{ticket}"])  # type: ignore[list-item]  # NewType of str


def events_until(socket: ClientConnection, is_last: Any) -> list[dict[str, Any]]:
    """Receive events up to and with the one that `is_last` accepts; bounded."""
    events = []
    for _ in range(200):
        event = json.loads(socket.recv(timeout=10))
        events.append(event)
        if is_last(event):
            return events
    raise AssertionError(f"never came: {events[-5:]}")


def test_a_stranger_reaches_the_first_success_with_the_demo_server(newcomer: Newcomer) -> None:
    api = Api(newcomer.http)
    servers = {server["id"]: server for server in api.get("/servers")}
    assert servers["demo"]["kind"] == "connector"
    with open_events(api) as socket:
        assert socket.subprotocol == "mcphub.v1"
        assert json.loads(socket.recv(timeout=10))["type"] == "hello"
        socket.send(json.dumps({"type": "subscribe", "topics": ["servers", "calls", "traces"]}))
        assert api.connect("demo")["connectionState"] == "connected"
        assert api.text("demo", "echo", {"text": "hello, hub"}).endswith("hello, hub")

        def is_answer(event: dict[str, Any]) -> bool:
            trace = event.get("trace", {})
            return (
                event["type"] == "trace.message"
                and trace["direction"] == "received"
                and "hello, hub" in json.dumps(trace)
            )

        events = events_until(socket, is_answer)
    seqs = [event["seq"] for event in events if "seq" in event and event["type"] != "hello"]
    assert seqs == sorted(seqs)
    sent = [
        event["trace"]["method"]
        for event in events
        if event["type"] == "trace.message" and event["trace"]["direction"] == "sent"
    ]
    assert "tools/call" in sent
    states = [
        event["server"]["connectionState"] for event in events if event["type"] == "server.state"
    ]
    assert states[-1] == "connected"


def test_the_trace_of_a_call_is_found_by_its_call_id(newcomer: Newcomer) -> None:
    api = Api(newcomer.http)
    api.connect("demo")
    queued = api.call("demo", "echo", {"text": "traced"}, headers={"Prefer": "respond-async"})
    assert queued.status_code == 202
    call = api.get(f"/calls/{queued.json()['id']}", wait=10)
    assert call["status"] == "succeeded"

    def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = api.get("/traces", call=call["id"])["items"]
        return found

    eventually(lambda: len(rows()) == 2, 10.0, "both messages are recorded")
    answer, request = rows()
    assert (request["direction"], request["type"], request["method"]) == (
        "sent",
        "request",
        "tools/call",
    )
    assert (answer["direction"], answer["type"]) == ("received", "response")
