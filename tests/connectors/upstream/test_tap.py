"""The tap: every message both ways, in order, with its call, and failures that had no message."""

from __future__ import annotations

import uuid

from connectors.server_spec import Era
from connectors.upstream.session import SeenMessage, UpstreamRequest
from mcphub.core.clock import Deadline
from tests.connectors.upstream.support import Listener, call_of, failure_of, talking_to
from tests.fakes.raw_server import RawServer, Request, Wire, note, result, text_result


class Chatty(RawServer):
    async def on_call(self, request: Request, wire: Wire) -> None:
        match request.params["name"]:
            case "garbage":
                await wire.answer(b"{nope")
            case "silent":
                await wire.until_gone()
            case _:
                await wire.open_stream()
                await wire.event(note("notifications/message", {"data": 1}))
                await wire.event(result(request.id, text_result()))


def line(seen: SeenMessage) -> tuple[str, object]:
    message = seen.message or {}
    return seen.direction, message.get("method", "answer" if seen.message else "bytes")


async def test_every_message_is_seen_once_in_order_with_its_call() -> None:
    listener, call_id = Listener(), uuid.uuid4()
    async with talking_to(Chatty(), listener) as session:
        await session.request(
            UpstreamRequest(
                method="tools/call",
                params={"name": "x"},
                deadline=Deadline.after(5),
                call_id=call_id,
                attempt=3,
            )
        )
    assert [line(seen) for seen in listener.seen] == [
        ("sent", "server/discover"),
        ("received", "answer"),
        ("sent", "initialize"),
        ("received", "answer"),
        ("sent", "notifications/initialized"),
        ("sent", "tools/call"),
        ("received", "notifications/message"),
        ("received", "answer"),
    ]
    of_call = listener.seen[5:]
    assert {(seen.call_id, seen.attempt) for seen in of_call} == {(call_id, 3)}
    assert all(seen.size > 0 and not seen.synthetic for seen in listener.seen)
    assert [seen.duration_ms is not None for seen in of_call] == [False, False, True]
    assert [seen.at for seen in listener.seen] == sorted(seen.at for seen in listener.seen)


async def test_an_answer_carries_its_http_exchange_with_harmless_values_alone() -> None:
    listener = Listener()
    async with talking_to(Chatty(), listener, era_hint=Era.LEGACY) as session:
        await session.request(call_of("x"))
        await failure_of(session, call_of("garbage"))
    initialized, answered, failed = (
        seen.http.wire for seen in listener.seen if seen.http is not None
    )
    assert {one["status"] for one in (initialized, answered, failed)} == {200}
    assert answered["method"] == "POST"
    assert answered["requestHeaders"] == {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2025-11-25",
        "mcp-session-id": "[redacted]",
    }
    assert answered["responseHeaders"] == {
        "content-type": "text/event-stream",
        "connection": "close",
    }


async def test_bytes_that_are_no_message_are_seen_raw_and_the_failure_is_synthetic() -> None:
    listener = Listener()
    async with talking_to(Chatty(), listener, era_hint=Era.LEGACY) as session:
        await failure_of(session, call_of("garbage"))
        raw, failure = listener.seen[-2:]
    assert (raw.message, raw.raw, raw.size) == (None, b"{nope", 5)
    assert (failure.synthetic, failure.size) == (True, 0)
    assert failure.message == {
        "jsonrpc": "2.0",
        "id": 2,
        "error": {
            "code": -31001,
            "message": "The answer is not JSON.",
            "data": {"code": "protocol_error"},
        },
    }


async def test_timeout_is_seen_as_a_synthetic_answer_and_a_cancel_notice() -> None:
    server, listener = Chatty(), Listener()
    async with talking_to(server, listener) as session:
        await failure_of(session, call_of("silent", 0.2))
        await server.saw("POST notifications/cancelled")
    assert [seen.synthetic for seen in listener.seen[-2:]] == [True, False]
    assert line(listener.seen[-1]) == ("sent", "notifications/cancelled")
    assert server.of("notifications/cancelled")[0].params["requestId"] == 3


async def test_no_credential_is_in_any_step() -> None:
    listener = Listener()
    async with talking_to(Chatty(), listener) as session:
        await failure_of(session, call_of("garbage"))
    assert "session-1" not in repr(listener.steps)
