"""Which transport and era each of twenty kinds of server is met with (mcp-sdk.md §3.2, X08)."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from connectors.server_spec import Era, Transport
from mcphub.core.errors import AuthorizationNeededError, HubError
from tests.connectors.upstream.support import (
    Listener,
    call_of,
    connect_failure,
    opened,
    text_of,
)
from tests.fakes import raw_server
from tests.fakes.mcp_servers import Kind, app_for, running, serving_app
from tests.fakes.sdk_tools import DemoServer

MODERN_ONLY = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32022, "message": "x", "data": {"supported": ["2099-01-01"]}},
    }
).encode()


class Fixed:
    """Answers every request the same way."""

    def __init__(self, status: int, body: bytes = b"nope", content_type: bytes = b"text/plain"):
        self._status = status
        self._body = body
        self._headers = [(b"content-type", content_type)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send(
            {"type": "http.response.start", "status": self._status, "headers": self._headers}
        )
        await send({"type": "http.response.body", "body": self._body})


class FailsFirst:
    """Answers the first POST with 503 and is healthy after it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._has_failed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._has_failed:
            self._has_failed = True
            await Fixed(503)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class Silent(raw_server.RawServer):
    """Takes requests and never answers."""

    async def serve(self, request: raw_server.Request, wire: raw_server.Wire) -> None:
        await wire.until_gone()
        await self.note_gone()


@pytest.mark.parametrize(
    ("kind", "transport", "era"),
    [
        (Kind.DUAL, Transport.STREAMABLE_HTTP, Era.MODERN),
        (Kind.DUAL_JSON, Transport.STREAMABLE_HTTP, Era.MODERN),
        (Kind.MODERN, Transport.STREAMABLE_HTTP, Era.MODERN),
        (Kind.LEGACY, Transport.STREAMABLE_HTTP, Era.LEGACY),
        (Kind.LEGACY_JSON, Transport.STREAMABLE_HTTP, Era.LEGACY),
        (Kind.STATELESS, Transport.STREAMABLE_HTTP, Era.LEGACY),
    ],
    ids=lambda value: value.value,
)
async def test_server_is_met_in_the_newest_era_that_it_speaks(
    kind: Kind, transport: Transport, era: Era
) -> None:
    with running(kind) as server:
        async with opened(server.url) as session:
            result = await session.request(call_of("echo", text="hi"))
            assert (session.opened.transport, session.opened.era) == (transport, era)
            assert session.opened.server_info == {"name": "demo", "version": "1.0"}
            assert session.opened.instructions == "A server for tests."
            assert text_of(result) == "hi"


async def test_legacy_hint_skips_the_probe() -> None:
    listener = Listener()
    with running(Kind.DUAL) as server:
        async with opened(server.url, listener, era_hint=Era.LEGACY) as session:
            assert session.opened.era is Era.LEGACY
            assert "era_probe" not in listener.kinds


async def test_wrong_legacy_hint_is_checked_again() -> None:
    with running(Kind.MODERN) as server:
        async with opened(server.url, era_hint=Era.LEGACY) as session:
            assert session.opened.era is Era.MODERN


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_e31_sse_server_is_found_when_post_is_refused(status: int) -> None:
    with running(Kind.SSE, post_status=status) as server:
        async with opened(server.url) as session:
            assert session.opened.transport is Transport.SSE
            assert text_of(await session.request(call_of("echo", text="hi"))) == "hi"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_e31_no_fallback_when_the_refusal_is_no_verdict(status: int) -> None:
    listener = Listener()
    with running(Kind.SSE, post_status=status) as server:
        await connect_failure(server.url, listener)
    assert "fallback" not in listener.kinds


async def test_sse_transport_of_the_preset_is_used_directly() -> None:
    with running(Kind.SSE) as server:
        async with opened(server.url, transport=Transport.SSE) as session:
            assert text_of(await session.request(call_of("add", a=1, b=2))) == "3"


async def test_streamable_http_of_the_preset_never_falls_back() -> None:
    with running(Kind.SSE) as server:
        error = await connect_failure(server.url, transport=Transport.STREAMABLE_HTTP)
    assert error.problem_code == "http_405"


@pytest.mark.parametrize("status", [400, 404, 405, 415, 429, 500, 503])
async def test_a18_server_that_refuses_everything_is_reported_by_its_status(status: int) -> None:
    with serving_app(Fixed(status)) as server:
        error = await connect_failure(f"http://127.0.0.1:{server.port}/mcp")
    assert error.problem_code == f"http_{status}"


@pytest.mark.parametrize("status", [401, 403])
async def test_server_behind_authorization_needs_authorization(status: int) -> None:
    with serving_app(Fixed(status)) as server:
        error = await connect_failure(f"http://127.0.0.1:{server.port}/mcp")
    assert isinstance(error, AuthorizationNeededError)
    assert error.http_status == status


async def test_e17_web_page_is_no_mcp_endpoint() -> None:
    with serving_app(Fixed(200, b"<html>", b"text/html; charset=utf-8")) as server:
        error = await connect_failure(f"http://127.0.0.1:{server.port}/mcp", connect_timeout=2.0)
    assert error.problem_code == "not_mcp_endpoint"


async def test_e17_web_page_at_the_sse_address_is_no_mcp_endpoint() -> None:
    with serving_app(Fixed(200, b"<html>", b"text/html")) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        error = await connect_failure(url, transport=Transport.SSE)
    assert error.problem_code == "not_mcp_endpoint"


async def test_server_of_a_future_revision_is_incompatible() -> None:
    with serving_app(Fixed(400, MODERN_ONLY, b"application/json")) as server:
        error = await connect_failure(f"http://127.0.0.1:{server.port}/mcp")
    assert error.problem_code == "incompatible_version"


async def test_refused_connection_is_unreachable_and_unsent() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        error = await connect_failure(f"http://127.0.0.1:{free.getsockname()[1]}/mcp")
    assert (error.problem_code, was_sent(error)) == ("upstream_unreachable", False)


async def test_p04_silent_server_ends_at_the_connect_timeout() -> None:
    server = Silent()
    async with raw_server.serving(server), asyncio.timeout(3):
        error = await connect_failure(server.url, connect_timeout=0.5)
        await server.until_all_gone(2)
    assert error.problem_code == "timeout"


async def test_one_503_does_not_make_a_modern_server_legacy() -> None:
    with serving_app(FailsFirst(app_for(Kind.DUAL, DemoServer()))) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        assert (await connect_failure(url)).problem_code == "http_503"
        async with opened(url) as session:
            assert session.opened.era is Era.MODERN


def was_sent(error: HubError) -> bool | None:
    return getattr(error, "was_sent", None)
