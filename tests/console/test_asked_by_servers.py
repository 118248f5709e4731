"""What servers ask of the person: signing in, forms, pages, a model's words, folders; all real."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.console.browser import Browser, Page
from tests.console.conftest import Visitor, signed_in, thrown
from tests.console.questions import answer_in_requests, back_to, run
from tests.fakes.asking_server import PAGE, AskingServer
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.oauth_mcp import ProtectedMcp
from tests.live.stack import RunningHub

OAUTH = {"type": "oauth"}
ERAS = pytest.mark.parametrize(
    "kind", [Kind.LEGACY, Kind.MODERN], ids=["handshake era", "2026-07-28"]
)


def server_opened(page: Page, name: str) -> None:
    page.click_row("servers", name)
    page.until(f"document.querySelector('.page-title h2').innerText === '{name}'", "it is open")


# --- signing in -------------------------------------------------------------------------------


@pytest.fixture
def protected() -> Iterator[ProtectedMcp]:
    with ProtectedMcp() as server:
        yield server


def test_signing_in_happens_in_a_popup_that_the_click_opened(
    page: Page, visitor: Visitor, protected: ProtectedMcp
) -> None:
    visitor.api.add_server("vault", protected.mcp_url, auth=OAUTH)
    server_opened(page, "vault")
    page.click("connect")
    page.until("document.querySelector('[data-testid=tools] .row')", "signed in and connected", 30)
    run(page, "read")
    page.see("run-output", "done")
    assert protected.hits["authorization_code"] == 1
    assert "at-" not in page.text("history")


def test_without_popups_a_link_names_the_host_to_sign_in_at(
    page: Page, visitor: Visitor, protected: ProtectedMcp
) -> None:
    visitor.api.add_server("vault", protected.mcp_url, auth=OAUTH)
    page.js("window.open = () => null; 0")
    server_opened(page, "vault")
    page.click("connect")
    host = protected.base.removeprefix("http://")
    assert "files:read" in page.see("authorize", f"Authorize at {host}")
    link = "document.querySelector('[data-testid=authorize] a')"
    assert page.js(f"[{link}.target, {link}.rel]") == ["_blank", "noopener noreferrer"]
    page.click("", css="[data-testid=authorize] a")
    page.until("document.querySelector('[data-testid=tools] .row')", "signed in by the link", 30)


def test_a_revoked_authorization_is_told_and_signed_in_again(
    page: Page, visitor: Visitor, protected: ProtectedMcp
) -> None:
    visitor.api.add_server("vault", protected.mcp_url, auth=OAUTH)
    server_opened(page, "vault")
    page.click("connect")
    page.until("document.querySelector('[data-testid=tools] .row')", "connected", 30)
    protected.end_access_tokens()
    protected.end_refresh_tokens()
    run(page, "read")
    page.see("problem", "authorization_needed")
    page.click("", css="[data-testid=authorize] .primary")
    page.until("document.querySelector('.page-head [data-state=connected]')", "again", 30)


# --- questions in the course of a call --------------------------------------------------------


@contextmanager
def asking(page: Page, visitor: Visitor, kind: Kind) -> Iterator[AskingServer]:
    demo = AskingServer()
    with running(kind, demo=demo) as server:
        visitor.api.connected("asking", server.url)
        server_opened(page, "asking")
        page.click("tab-tools")
        yield demo
        visitor.http.delete("/api/v1/servers/asking")


@ERAS
def test_a_form_is_checked_answered_and_seen_by_every_tab(
    hub: RunningHub, browser: Browser, context: str, page: Page, visitor: Visitor, kind: Kind
) -> None:
    with asking(page, visitor, kind):
        other = browser.page(context)
        signed_in(other, hub.url, visitor.token)
        run(page, "ask")
        answer_in_requests(page, "form")
        other.until(
            "document.querySelector('[data-testid=tab-requests]').innerText.includes('1')", ""
        )
        page.click("accept")
        invalid = "document.activeElement.getAttribute('aria-invalid') === 'true'"
        page.until(invalid, "the first error has the focus")
        page.type("Ada")
        page.click("accept")
        back_to(page, "ask", "Ada")
        other.click("tab-requests")
        other.see("requests", "No server is waiting")
        assert thrown(browser) == []


def test_a_page_is_opened_with_the_consent_and_not_before(page: Page, visitor: Visitor) -> None:
    with asking(page, visitor, Kind.LEGACY):
        page.js("window.visited = []; window.open = (...all) => { window.visited.push(all); }")
        run(page, "visit")
        answer_in_requests(page, "url")
        assert PAGE in page.see("visit", "pay.example").replace("\n", "")
        assert page.js("document.querySelector('[data-testid=visit] mark').innerText") == (
            "pay.example"
        )
        assert page.js("window.visited.length") == 0
        page.click("accept")
        back_to(page, "visit", "accept")
        assert page.js("window.visited") == [[PAGE, "_blank", "noopener,noreferrer"]]


def test_sampling_and_roots_are_asked_only_after_consent(page: Page, visitor: Visitor) -> None:
    demo = AskingServer()
    with running(Kind.MODERN, demo=demo) as server:
        switches = {"relaySampling": True, "relayRoots": True}
        visitor.api.connected("asking", server.url, **switches)
        server_opened(page, "asking")
        page.click("tab-tools")
        run(page, "sample")
        page.see("problem", "input_refused")
        page.click("tab-overview")
        for kind in ("sampling", "roots"):
            page.click(f"consent-{kind}")
            agreed = f"[data-testid=consent-{kind}]:checked:not([disabled])"
            page.until(f"document.querySelector('{agreed}')", f"{kind} is agreed to")
            page.until("document.querySelector('.page-head [data-state=connected]')", "anew", 30)
        page.click("tab-tools")
        run(page, "sample")
        answer_in_requests(page, "sampling")
        page.enter("[id^=say-]", "Hello to you")
        page.click("accept")
        back_to(page, "sample", "Hello to you")
        run(page, "roots")
        answer_in_requests(page, "roots")
        page.enter("[id^=roots-]", "file:///home/ada")
        page.click("accept")
        back_to(page, "roots", "file:///home/ada")
        visitor.http.delete("/api/v1/servers/asking")


def test_a_declined_question_ends_the_way_the_server_wants(page: Page, visitor: Visitor) -> None:
    with asking(page, visitor, Kind.MODERN):
        run(page, "ask")
        answer_in_requests(page, "form")
        page.click("decline")
        back_to(page, "ask", "decline")
