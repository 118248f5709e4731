"""Handshake-era sessions: ids, versions, loss, redirects, close."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from connectors.server_spec import Era
from connectors.upstream.session import open_session
from mcphub.core.errors import AuthorizationNeededError, UpstreamError
from mcphub.core.types import JSONObject, JSONValue
from tests.connectors.upstream.support import (
    Listener,
    ask,
    bearer,
    call_of,
    connect_failure,
    failure_of,
    new_http,
    opened,
    spec_for,
    talking_to,
    text_of,
)
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import (
    Headers,
    RawServer,
    Request,
    Wire,
    error,
    serving,
    text_result,
)

OK = text_result()


# --- what is sent


async def test_handshake_and_calls_carry_version_session_and_truthful_capabilities() -> None:
    server = RawServer()
    async with talking_to(server, headers=bearer("t"), era_hint=Era.LEGACY) as session:
        await session.request(call_of("echo"))
    initialize, call = server.of("initialize")[0], server.of("tools/call")[0]
    assert initialize.params["capabilities"] == {}
    assert initialize.params["protocolVersion"] == "2025-11-25"
    assert "mcp-session-id" not in initialize.headers
    assert call.headers["mcp-session-id"] == "session-1"
    assert call.headers["mcp-protocol-version"] == "2025-11-25"
    assert call.headers["authorization"] == "Bearer t"
    assert server.counts["DELETE"] == 1


class PostOnly(RawServer):
    """Answers every POST with a stream and no GET."""

    async def serve(self, request: Request, wire: Wire) -> None:
        await super().serve(request, Streamed(wire))


class Streamed(Wire):
    def __init__(self, wire: Wire) -> None:
        super().__init__(wire._reader, wire._writer)

    async def answer(
        self,
        body: JSONValue | bytes = b"",
        *,
        status: int = 200,
        content_type: str | None = "application/json",
        headers: Headers = (),
    ) -> None:
        if isinstance(body, dict) and "result" in body:
            await self.open_stream(headers)
            await self.event(body)
        else:
            await super().answer(body, status=status, content_type=content_type, headers=headers)


async def test_e35_server_that_streams_answers_and_takes_only_posts_works() -> None:
    server = PostOnly()
    async with talking_to(server) as session:
        listing = await session.request(ask("tools/list"))
        assert listing == {"tools": server.tools}
        assert await session.request(call_of("echo")) == text_result()
    assert server.counts["GET"] <= 1


async def test_p10_configured_headers_cannot_replace_those_of_the_protocol() -> None:
    server = RawServer()
    headers = {**bearer("t"), "Mcp-Session-Id": bearer("x")["Authorization"]}
    async with talking_to(server, headers=headers) as session:
        await session.request(call_of("echo"))
    assert server.of("tools/call")[0].headers["mcp-session-id"] == "session-1"


# --- versions


class Old(RawServer):
    version = "2024-11-05"


class Unknown(RawServer):
    version = "1999-01-01"


class Picky(RawServer):
    """Refuses the newest version and names others, in the way of its `refusal`."""

    version = "2025-06-18"

    def __init__(self, refusal: JSONObject | bytes) -> None:
        super().__init__()
        self._refusal = refusal

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        if request.params["protocolVersion"] == "2025-11-25":
            await wire.answer(self._refusal, status=400)
        else:
            await super().on_initialize(request, wire)


async def test_e28_older_version_of_the_server_is_used() -> None:
    server = Old()
    async with talking_to(server) as session:
        await session.request(call_of("echo"))
        assert session.opened.protocol_version == "2024-11-05"
    assert server.of("tools/call")[0].headers["mcp-protocol-version"] == "2024-11-05"


async def test_unknown_version_of_the_server_is_incompatible() -> None:
    async with serving(Unknown()) as server:
        assert (await connect_failure(server.url)).problem_code == "incompatible_version"


@pytest.mark.parametrize(
    "refusal",
    [
        error(None, -32000, "Bad Request: unsupported (supported: 2025-03-26, 2025-06-18)"),
        error(None, -32602, "no", {"supported": ["2025-06-18", "2025-03-26", "2031-01-01"]}),
        b"Unsupported protocol version, use one of 2025-03-26 2025-06-18",
    ],
)
async def test_e27_newest_version_that_both_know_is_tried_once(
    refusal: JSONObject | bytes,
) -> None:
    server = Picky(refusal)
    async with talking_to(server) as session:
        assert session.opened.protocol_version == "2025-06-18"
    offered = [request.params["protocolVersion"] for request in server.of("initialize")]
    assert offered == ["2025-11-25", "2025-06-18"]


class Confirming(RawServer):
    def __init__(self, answer: tuple[int, bytes, str | None]) -> None:
        super().__init__()
        self._answer = answer

    async def on_notification(self, request: Request, wire: Wire) -> None:
        status, body, content_type = self._answer
        await wire.answer(body, status=status, content_type=content_type)


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"ok", "text/plain"),
        (200, b"", None),
        (204, b"", None),
        (202, b"accepted", "text/plain"),
        (202, b"{}", "application/json"),
        (400, b"no", "text/plain"),
    ],
    ids=range(6),
)
async def test_e16_initialized_may_be_answered_in_many_ways(
    answer: tuple[int, bytes, str | None],
) -> None:
    async with talking_to(Confirming(answer)) as session:
        assert await session.request(call_of("echo")) == OK


# --- loss


class Forgetful(RawServer):
    """Answers calls as a server that was restarted."""

    def __init__(self, status: int, body: JSONObject | bytes) -> None:
        super().__init__()
        self._status, self._body = status, body

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(self._body, status=self._status)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b""),
        (404, error(None, -32600, "Session not found")),
        (404, error("server-error", -32001, "Session not found")),
        (400, error(None, -32000, "Bad Request: No valid session ID provided")),
        (401, b""),
    ],
    ids=["404", "404 SDK", "404 other id", "400 TypeScript SDK", "E07 401 without a challenge"],
)
async def test_e06_e07_lost_session_is_told_once_and_the_call_was_not_processed(
    status: int, body: JSONObject | bytes
) -> None:
    listener = Listener()
    async with talking_to(Forgetful(status, body), listener) as session:
        first = await failure_of(session, call_of("echo"))
        second = await failure_of(session, call_of("echo"))
    assert isinstance(first, UpstreamError)
    assert (first.problem_code, first.was_sent) == ("session_lost", False)
    assert second.problem_code == "session_lost"
    assert [found.problem_code for found in listener.lost] == ["session_lost"]


async def test_e07_401_of_a_server_with_credentials_is_about_authorization() -> None:
    async with talking_to(Forgetful(401, b""), headers=bearer("t")) as session:
        assert isinstance(await failure_of(session, call_of("x")), AuthorizationNeededError)


class UnknownMethod(RawServer):
    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(error(request.id, -32601), status=404)


async def test_404_that_says_method_not_found_is_no_lost_session() -> None:
    listener = Listener()
    async with talking_to(UnknownMethod(), listener) as session:
        failed = await failure_of(session, call_of("x"))
    assert (failed.problem_code, listener.lost) == ("protocol_error", [])


async def test_e06_restarted_server_is_noticed_and_a_new_session_works() -> None:
    listener = Listener()
    with ExitStack() as first:
        url = first.enter_context(running(Kind.LEGACY)).url
        async with opened(url, listener) as session:
            assert text_of(await session.request(call_of("echo", text="hi"))) == "hi"
            await asyncio.to_thread(first.close)
            with running(Kind.LEGACY, port=urlsplit(url).port or 0):
                failed = await failure_of(session, call_of("echo", text="hi"))
                async with opened(url) as fresh:
                    assert text_of(await fresh.request(call_of("echo", text="hi"))) == "hi"
    assert failed.problem_code == "session_lost"
    assert len(listener.lost) == 1


# --- redirects


class Moved(RawServer):
    def __init__(self, location: str) -> None:
        super().__init__()
        self._location = location

    async def serve(self, request: Request, wire: Wire) -> None:
        if request.path == "/mcp":
            await wire.answer(status=307, headers=[("Location", self._location)])
        else:
            await self.route(request, wire)


async def test_e21_redirect_to_the_same_origin_keeps_method_and_body() -> None:
    async with talking_to(Moved("/mcp/")) as session:
        assert await session.request(call_of("echo")) == OK


async def test_e19_e20_redirect_elsewhere_is_refused_and_sees_no_credentials() -> None:
    async with serving(RawServer()) as target, serving(Moved(target.url)) as server:
        failed = await connect_failure(server.url, headers=bearer("secret"))
    assert failed.problem_code == "redirect_refused"
    assert target.requests == []


# --- the end


class Clinging(RawServer):
    async def on_delete(self, request: Request, wire: Wire) -> None:
        await wire.until_gone()


async def test_e13_close_is_bounded_when_delete_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.upstream.streamable_http.CLOSE_SECONDS", 0.2)
    async with asyncio.timeout(2), talking_to(Clinging()):
        pass


async def test_e34_sessions_are_closed_in_any_order_from_any_task() -> None:
    http = new_http()
    async with serving(RawServer()) as server:
        sessions = [
            await open_session(spec_for(server.url), http=http, listener=Listener())
            for _ in range(50)
        ]
        for session in sessions[1::2] + sessions[::2]:
            await asyncio.create_task(session.close())
        assert server.counts["DELETE"] == 50
    await http.aclose()


async def test_closed_session_refuses_calls_unsent() -> None:
    async with talking_to(RawServer()) as session:
        await session.close()
        failed = await failure_of(session, call_of("x"))
    assert isinstance(failed, UpstreamError)
    assert failed.was_sent is False


async def test_expired_deadline_sends_nothing() -> None:
    server = RawServer()
    async with talking_to(server) as session:
        failed = await failure_of(session, call_of("x", 0.0))
    assert isinstance(failed, UpstreamError)
    assert (failed.problem_code, failed.was_sent) == ("timeout", False)
    assert server.counts["POST tools/call"] == 0


async def test_lost_session_is_not_deleted_at_the_server() -> None:
    server = Forgetful(404, b"")
    async with talking_to(server) as session:
        await failure_of(session, call_of("x"))
    assert server.counts["DELETE"] == 0
