"""HTTP+SSE of 2024-11-05: endpoint rules, failing POSTs, a stream that ends, large events."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from pytest_django import Settings

from connectors.server_spec import Transport
from connectors.upstream import legacy_sse
from mcphub.core.errors import UpstreamError
from tests.connectors.upstream.support import (
    Listener,
    bearer,
    call_of,
    connect_failure,
    failure_of,
    talking_to,
    text_of,
)
from tests.fakes.raw_server import RawServer, Request, Wire, event, result, serving, text_result

OK = text_result()


class RawSse(RawServer):
    """One event stream; POSTs to the endpoint are accepted and answered on the stream."""

    endpoint = "/messages/?s=1"
    post_status = 202

    def __init__(self) -> None:
        super().__init__()
        self.stream: Wire | None = None
        self.ends = asyncio.Event()

    async def route(self, request: Request, wire: Wire) -> None:
        if request.method == "GET":
            await self.hold(wire)
        elif request.path == urlsplit(self.endpoint).path + "?s=1":
            await self.take(request, wire)
        else:
            await wire.answer(status=404)

    async def hold(self, wire: Wire) -> None:
        self.stream = wire
        await wire.open_stream()
        await wire.send(b"event: endpoint\ndata: " + self.endpoint.encode() + b"\n\n")
        await self.ends.wait()

    async def take(self, request: Request, wire: Wire) -> None:
        name = request.params.get("name")
        if name == "refused":
            await wire.answer(status=self.post_status, content_type=None)
            return
        await wire.answer(status=202, content_type=None)
        assert self.stream is not None
        if request.rpc_method == "initialize":
            await self.stream.event(result(request.id, self.initialize_result()))
        elif request.rpc_method == "tools/call":
            await self.on_call(request, self.stream)

    async def on_call(self, request: Request, wire: Wire) -> None:
        match request.params["name"]:
            case "die":
                self.ends.set()
            case "garbage":
                await wire.event(b"{nope")
            case "huge":
                await wire.event(b"x" * 300_000)
            case "lost":
                await wire.event(result(12345, OK))
            case _:
                await wire.event(result(request.id, OK))


class Refusing(RawSse):
    post_status = 500


class Forgetting(RawSse):
    post_status = 404


class Elsewhere(RawSse):
    endpoint = "http://internal.example:8000/messages"


async def test_e22_endpoint_is_resolved_against_the_stream_and_gets_the_credentials() -> None:
    server = RawSse()
    async with talking_to(server, headers=bearer("t"), transport=Transport.SSE) as session:
        assert await session.request(call_of("echo")) == OK
    call = server.of("tools/call")[0]
    assert (call.path, call.headers["authorization"]) == ("/messages/?s=1", "Bearer t")


async def test_e23_endpoint_on_another_origin_is_refused_before_any_post() -> None:
    server = Elsewhere()
    async with serving(server):
        failed = await connect_failure(server.url, transport=Transport.SSE)
    assert failed.problem_code == "protocol_error"
    assert {request.method for request in server.requests} == {"GET"}


async def test_refused_post_fails_its_call_only() -> None:
    listener = Listener()
    async with talking_to(Refusing(), listener, transport=Transport.SSE) as session:
        failed = await failure_of(session, call_of("refused"))
        assert failed.problem_code == "http_500"
        assert await session.request(call_of("echo")) == OK
    assert listener.lost == []


async def test_e09_post_to_a_forgotten_endpoint_loses_the_session_unprocessed() -> None:
    listener = Listener()
    async with talking_to(Forgetting(), listener, transport=Transport.SSE) as session:
        failed = await failure_of(session, call_of("refused"))
    assert isinstance(failed, UpstreamError)
    assert (failed.problem_code, failed.was_sent) == ("session_lost", False)
    assert [found.problem_code for found in listener.lost] == ["session_lost"]


async def test_end_of_the_stream_fails_calls_at_once_and_loses_the_session() -> None:
    listener = Listener()
    async with (
        talking_to(RawSse(), listener, transport=Transport.SSE) as session,
        asyncio.timeout(2),
    ):
        failed = await failure_of(session, call_of("die"))
        later = await failure_of(session, call_of("echo"))
    assert isinstance(failed, UpstreamError)
    assert (failed.problem_code, failed.was_sent) == ("upstream_unreachable", True)
    assert later.problem_code == "session_lost"
    assert len(listener.lost) == 1


@pytest.mark.parametrize(
    ("tool", "code"),
    [("garbage", "protocol_error"), ("huge", "response_too_large"), ("lost", "timeout")],
)
async def test_bad_event_fails_its_call_only(
    tool: str, code: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_BODY_BYTES = 200_000
    monkeypatch.setattr(legacy_sse, "EVENT_MAX_BYTES", 200_000)
    listener = Listener()
    async with talking_to(RawSse(), listener, transport=Transport.SSE) as session:
        assert (await failure_of(session, call_of(tool, 0.5))).problem_code == code
        assert await session.request(call_of("echo")) == OK
    assert listener.lost == []


class Large(RawSse):
    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.send(event(result(request.id, text_result("x" * (3 << 20)))))


async def test_three_megabyte_event_passes() -> None:
    async with talking_to(Large(), transport=Transport.SSE) as session:
        assert len(text_of(await session.request(call_of("big")))) == 3 << 20
