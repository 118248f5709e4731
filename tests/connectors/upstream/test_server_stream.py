"""What comes from the server by itself: the GET stream, resumed streams, its own requests."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from connectors.upstream import reconnect
from mcphub.core.errors import UpstreamError
from mcphub.core.types import JSONObject
from tests.connectors.upstream.support import (
    Listener,
    call_of,
    failure_of,
    opened,
    talking_to,
)
from tests.fakes.raw_server import (
    RawServer,
    Request,
    Wire,
    error,
    note,
    result,
    serving,
    text_result,
)

OK = text_result()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink the waits between reconnects; their order and number stay."""
    monkeypatch.setattr(reconnect, "MIN_SECONDS", 0.01)
    monkeypatch.setattr(reconnect, "MAX_SECONDS", 0.05)


# --- the GET stream


class Pushing(RawServer):
    """Streams one notification per GET and closes, as often as it is asked."""

    gets: ClassVar[int] = 0

    async def on_get(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event(note("notifications/tools/list_changed"), id=self.counts["GET"], retry=0)
        if self.counts["GET"] == 3:
            await wire.until_gone()


async def test_stream_is_opened_again_after_the_last_event() -> None:
    server, listener = Pushing(), Listener()
    async with talking_to(server, listener):
        await server.saw("GET", 3)
        await listener.until(lambda: len(listener.notifications) == 3)
    gets = [request for request in server.requests if request.method == "GET"]
    assert [request.headers.get("last-event-id") for request in gets] == [None, "1", "2"]
    assert listener.notifications[0] == ("notifications/tools/list_changed", {}, None)


class Refusing(RawServer):
    def __init__(self, status: int, content_type: str) -> None:
        super().__init__()
        self._answer = (status, content_type)

    async def on_get(self, request: Request, wire: Wire) -> None:
        status, content_type = self._answer
        await wire.answer(b"<html>", status=status, content_type=content_type)


@pytest.mark.parametrize(
    ("status", "content_type"),
    [
        (404, "text/plain"),
        (405, "text/plain"),
        (200, "application/json"),
        (200, "text/html"),
        (500, "text/plain"),
    ],
)
async def test_e01_e02_e03_e18_refused_stream_is_asked_for_once(
    status: int, content_type: str
) -> None:
    server, listener = Refusing(status, content_type), Listener()
    async with talking_to(server, listener) as session:
        await listener.until(lambda: "stream_refused" in listener.kinds)
        assert await session.request(call_of("echo")) == OK
    assert (server.counts["GET"], listener.lost) == (1, [])


class Silent(RawServer):
    async def on_get(self, request: Request, wire: Wire) -> None:
        await wire.until_gone()
        await self.note_gone()


async def test_e04_stream_without_headers_holds_nothing_up_and_ends_with_the_session() -> None:
    server = Silent()
    async with serving(server), asyncio.timeout(3):
        async with opened(server.url) as session:
            await server.saw("GET")
            assert await session.request(call_of("echo")) == OK
        await server.until_all_gone(1)


class Restarted(RawServer):
    async def on_get(self, request: Request, wire: Wire) -> None:
        if self.counts["GET"] == 1:
            await wire.open_stream()
        else:
            await wire.answer(error(None, -32600, "Session not found"), status=404)


async def test_lost_session_is_noticed_by_the_stream_without_a_call() -> None:
    listener = Listener()
    async with talking_to(Restarted(), listener):
        await listener.until(lambda: bool(listener.lost))
    assert [found.problem_code for found in listener.lost] == ["session_lost"]


# --- resumption


class Resumable(RawServer):
    """Breaks the stream of a call after an event id; the rest comes by GET."""

    async def on_call(self, request: Request, wire: Wire) -> None:
        self.asked = request.id
        await wire.open_stream()
        await wire.send(b"id: e1\nretry: 0\ndata:\n\n")

    async def on_get(self, request: Request, wire: Wire) -> None:
        if request.headers.get("last-event-id") != "e1":
            await wire.answer(status=405, content_type=None)
            return
        await self.note_gone()
        await self.resume(wire)

    async def resume(self, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event(result(self.asked, OK))


class NeverEnding(Resumable):
    async def resume(self, wire: Wire) -> None:
        await wire.open_stream()
        await wire.send(b"retry: 0\n\n")


async def test_broken_stream_of_a_call_is_resumed() -> None:
    server = Resumable()
    async with talking_to(server) as session:
        assert await session.request(call_of("echo")) == OK
    assert server.counts["POST tools/call"] == 1


async def test_e12_p05_stream_that_never_ends_is_resumed_five_times() -> None:
    server = NeverEnding()
    async with talking_to(server) as session:
        failed = await failure_of(session, call_of("echo"))
        assert isinstance(failed, UpstreamError)
        assert (failed.problem_code, failed.was_sent) == ("upstream_unreachable", True)
        assert server.counts["gone"] == 5


@pytest.mark.parametrize("retry_ms", [None, 0, 99_999_999_999])
def test_e12_p05_pauses_are_between_one_and_thirty_seconds(
    retry_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    pause = reconnect.Pause()
    waits = [pause.next_seconds(retry_ms) for _ in range(8)]
    assert all(1.0 <= wait <= 36.0 for wait in waits)
    assert waits[-1] >= 30.0


# --- server requests


class Asking(RawServer):
    """Asks the client something before it answers a call."""

    method: ClassVar[str] = "elicitation/create"

    def __init__(self) -> None:
        super().__init__()
        self.reply: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()

    async def serve(self, request: Request, wire: Wire) -> None:
        if request.id == "q1" and "method" not in request.message:
            self.reply.set_result(request.message)
        await super().serve(request, wire)

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event({"jsonrpc": "2.0", "id": "q1", "method": self.method, "params": {"a": 1}})
        await self.reply
        await wire.event(result(request.id, OK))


class Pinging(Asking):
    method = "ping"


class Sampling(Asking):
    method = "sampling/createMessage"


async def test_offered_request_is_relayed_with_the_call_that_it_belongs_to() -> None:
    server, listener = Asking(), Listener(elicitation={})
    listener.answer = {"action": "accept"}
    async with talking_to(server, listener) as session:
        assert await session.request(call_of("echo")) == OK
    assert server.of("initialize")[0].params["capabilities"] == {"elicitation": {}}
    assert listener.asked == [("elicitation/create", {"a": 1}, "tools/call")]
    assert server.reply.result() == result("q1", {"action": "accept"})


async def test_declined_request_is_answered_with_the_error() -> None:
    server, listener = Asking(), Listener(elicitation={})
    async with talking_to(server, listener) as session:
        await session.request(call_of("echo"))
    assert server.reply.result() == error("q1", -32000, "declined")


async def test_p15_request_that_was_not_offered_is_refused() -> None:
    server, listener = Sampling(), Listener(elicitation={})
    async with talking_to(server, listener) as session:
        await session.request(call_of("echo"))
    assert server.reply.result() == error("q1", -32601, "Method not found")
    assert listener.asked == []


async def test_ping_is_always_answered() -> None:
    server = Pinging()
    async with talking_to(server) as session:
        await session.request(call_of("echo"))
    assert server.reply.result() == result("q1", {})
