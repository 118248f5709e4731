"""The exported page without a hub: it speaks MCP itself, over HTTP in both eras and a WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from mcphub import cli
from tests.console.browser import Browser, Page
from tests.console.conftest import opened, thrown
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind, app_for, serving_app
from tests.fakes.socket_server import socket_server

TOKEN = "direct-secret-token"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("exported") / "console.html"
    assert cli.main(["console", "export", str(file)]) == 0
    return file


@pytest.fixture
def direct(browser: Browser, context: str, exported: Path) -> Iterator[Page]:
    """The file without a hub; at the end no policy was violated and nothing was thrown."""
    page = browser.page(context)
    page.goto(exported.as_uri())
    page.click("direct")
    page.until("document.getElementById('line').dataset.state === 'direct'", "no hub is needed")
    yield page
    assert page.violations == []
    assert thrown(browser) == []


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


def add(page: Page, url: str, *, token: str = "") -> None:
    page.click("add-server")
    page.enter("#server-url", url)
    page.enter("#server-name", "asking")
    if token:
        page.choose("#server-auth", "bearer")
        page.enter("#server-token", token)
    page.click("save-server")


def connected_to(page: Page, url: str, *, token: str = "") -> None:
    add(page, url, token=token)
    page.until("document.querySelector('[data-testid=tools] .row')", "tools are listed", 30)


def run(page: Page, tool: str) -> None:
    opened(page, tool)
    page.click("run")


def answer_in_requests(page: Page, kind: str) -> None:
    page.until("document.querySelector('[data-testid=run-state]').innerText.includes('asks')", "it")
    page.click("tab-requests")
    page.until(f"document.querySelector('[data-testid=elicitation][data-kind={kind}]')", kind)


def back_to(page: Page, tool: str, shown: str) -> None:
    page.see("requests", "No server is waiting")
    page.click("tab-tools")
    page.until(f"document.querySelector('form[data-target={tool}]')", f"{tool} is still open")
    page.see("run-output", shown)


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
