"""The exported page without a hub: it speaks MCP itself, over HTTP in both eras and a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.console.browser import Page
from tests.console.conftest import opened
from tests.console.questions import add, answer_in_requests, back_to, connected_to, run
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind, app_for, serving_app
from tests.fakes.socket_server import socket_server

TOKEN = "direct-secret-token"


class AnyOrigin:
    """Hides the Origin from the SDK, which refuses those that it does not know."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kept = [pair for pair in scope.get("headers", ()) if pair[0] != b"origin"]
        await self._app({**scope, "headers": kept}, receive, send)


@contextmanager
def open_to_pages(kind: Kind) -> Iterator[str]:
    """A server of one era that pages from the disk may use."""
    app = CORSMiddleware(
        AnyOrigin(app_for(kind, AskingServer())),
        allow_origins=["null"],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["mcp-session-id"],
    )
    with serving_app(app) as server:
        yield f"http://127.0.0.1:{server.port}/mcp"


@pytest.mark.parametrize("kind", [Kind.LEGACY, Kind.MODERN], ids=["handshake", "per-request"])
def test_a_server_is_connected_called_and_answered_without_a_hub(direct: Page, kind: Kind) -> None:
    with open_to_pages(kind) as url:
        connected_to(direct, url, token=TOKEN)
        opened(direct, "echo")
        direct.enter(".form-box textarea", "straight")
        direct.click("run")
        direct.see("run-output", "straight")
        first = "initialize" if kind is Kind.LEGACY else "server/discover"
        direct.click_row("history", first)
        assert "200" in direct.see("http", "POST")
        assert TOKEN not in direct.js("document.body.innerText")
        run(direct, "ask")
        answer_in_requests(direct, "form")
        direct.enter("[data-testid=elicitation] textarea", "Ada")
        direct.click("accept")
        back_to(direct, "ask", "Ada")


def test_sampling_and_roots_are_answered_by_the_person(direct: Page) -> None:
    with open_to_pages(Kind.MODERN) as url:
        connected_to(direct, url)
        run(direct, "sample")
        answer_in_requests(direct, "sampling")
        direct.click("accept")
        direct.see("requests", "Write the answer first.")
        direct.enter("[id^=say-]", "Hello to you")
        direct.click("accept")
        back_to(direct, "sample", "Hello to you")
        run(direct, "roots")
        answer_in_requests(direct, "roots")
        direct.enter("[id^=roots-]", "file:///home/ada/project")
        direct.click("accept")
        back_to(direct, "roots", "file:///home/ada/project")


def test_a_running_call_is_cancelled_at_the_server(direct: Page) -> None:
    with open_to_pages(Kind.LEGACY) as url:
        connected_to(direct, url)
        opened(direct, "sleep")
        direct.click("mode-json")
        direct.enter(".json-editor", '{"ms": 60000}')
        direct.click("run")
        direct.see("run-state", "Sent to the server")
        direct.click("cancel")
        direct.see("run-state", "Cancelled")
        direct.click_row("history", "notifications/cancelled")


def test_a_websocket_carries_the_same(direct: Page) -> None:
    with socket_server(AskingServer()) as url:
        connected_to(direct, url)
        opened(direct, "echo")
        direct.enter(".form-box textarea", "by frames")
        direct.click("run")
        direct.see("run-output", "by frames")
        run(direct, "ask")
        answer_in_requests(direct, "form")
        direct.click("decline")
        back_to(direct, "ask", "decline")
    direct.see("last-error", "The WebSocket closed")


def test_a_server_that_allows_no_pages_says_what_to_do(direct: Page) -> None:
    with serving_app(app_for(Kind.DUAL, AskingServer())) as server:
        add(direct, f"http://127.0.0.1:{server.port}/mcp")
        assert "CORS" in direct.see("last-error", "no answer that it may read")


def test_servers_of_the_tab_survive_a_reload_and_end_with_it(direct: Page) -> None:
    with open_to_pages(Kind.MODERN) as url:
        connected_to(direct, url)
        direct.js("location.reload()")
        direct.until(
            "document.querySelector('[data-testid=servers] [data-state=disconnected]')", "kept"
        )
        direct.click("sign-out")
        direct.see("sign-in")
        assert direct.js("sessionStorage.length") == 0
