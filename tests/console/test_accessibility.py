"""WCAG 2.2 AA by axe-core in every look, no overflow at 320 pixels, and the printed history."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.console.browser import Page
from tests.console.conftest import Visitor, connected, opened
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind, running
from tests.node_tools import package

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LOOKS = {
    "light": {"prefers_color_scheme": "light"},
    "dark": {"prefers_color_scheme": "dark"},
    "forced-colors": {"forced_colors": "active"},
}
SMALLEST_TARGET = 24


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, installed from the pinned lock on first use."""
    return package("axe-core", "axe.min.js").read_text()


def violations(page: Page, axe: str) -> list[str]:
    """Return what axe finds, one line for each element."""
    page.js(axe + "; null")
    options = json.dumps({"runOnly": {"type": "tag", "values": TAGS}})
    found = page.js(
        f"axe.run(document, {options}).then(r => r.violations.flatMap(v =>"
        " v.nodes.map(n => `${v.id}: ${n.html.slice(0, 160)} ${n.failureSummary}`)))"
    )
    return list(found)


def overflow(page: Page) -> int:
    return int(page.js("document.documentElement.scrollWidth - innerWidth"))


def small_targets(page: Page) -> list[str]:
    """Return controls under 24 pixels; links inside a text are excepted by WCAG 2.5.8."""
    return list(
        page.js(
            "[...document.querySelectorAll('button, select, input, summary, [role=option]')]"
            ".filter(e => e.getClientRects().length && !e.closest('label, .sr'))"
            f".filter(e => e.getBoundingClientRect().height < {SMALLEST_TARGET})"
            ".map(e => e.outerHTML.slice(0, 120))"
        )
    )


def states(page: Page) -> Iterator[str]:
    """Bring the page into one state after the other."""
    page.click("diagnose")
    page.see("checklist", "Authorization", 30)
    yield "diagnosis"
    page.click("tab-overview")
    page.click("connect")
    page.until("document.querySelector('[data-testid=tools] .row')", "connected", 30)
    opened(page, "add")
    page.click("run")
    page.see("form-errors")
    yield "errors of a form"
    opened(page, "weather")
    page.enter(".form-box textarea", "Bern")
    page.click("run")
    page.see("output-check")
    page.click_row("history", "tools/call")
    page.see("entry", "Answer")
    yield "result and exchange"
    for tab, shown in (("resources", "resource"), ("prompts", "prompt")):
        page.click(f"tab-{tab}")
        page.until(f"document.querySelector('[data-testid={tab}] .row')", tab)
        page.js(f"document.querySelector('[data-testid={tab}] .row').click()")
        page.until(f"document.querySelector('[data-testid={shown}] form')", shown)
        yield tab
    for tab in ("requests", "calls", "overview"):
        page.click(f"tab-{tab}")
        page.until(f"document.querySelector('[aria-labelledby$={tab}]')", tab)
        yield tab
    page.click("add-server")
    page.choose("#server-auth", "headers")
    yield "add a server"
    page.press("Escape")
    page.js("document.getElementById('help').click()")
    yield "help"
    page.press("Escape")


@pytest.mark.parametrize("look", LOOKS)
def test_axe_finds_nothing_in_any_state(page: Page, axe: str, look: str) -> None:
    page.media(**LOOKS[look])
    found = {state: bad for state in states(page) if (bad := violations(page, axe))}
    assert found == {}


def test_axe_finds_nothing_in_questions_of_servers(page: Page, visitor: Visitor, axe: str) -> None:
    with running(Kind.MODERN, demo=AskingServer()) as server:
        switches = {"relaySampling": True, "relayRoots": True}
        visitor.api.add_server("asking", server.url, **switches)
        agreed = {"consent": {"sampling": True, "roots": True}}
        visitor.http.patch("/api/v1/servers/asking", json=agreed)
        visitor.api.connect("asking")
        for tool in ("ask", "visit", "sample", "roots"):
            visitor.api.call("asking", tool, headers={"Prefer": "respond-async"})
        page.click("tab-requests")
        asked = "document.querySelectorAll('[data-testid=elicitation]').length === 4"
        page.until(asked, "all questions are there")
        for width in (1440, 320):
            page.resize(width, 800)
            assert violations(page, axe) == []
            assert overflow(page) <= 0
            assert small_targets(page) == []
        visitor.http.delete("/api/v1/servers/asking")


def test_nothing_is_wider_than_320_pixels_and_no_target_is_tiny(page: Page) -> None:
    page.resize(320, 640)
    for state in states(page):
        assert overflow(page) <= 0, state
        assert small_targets(page) == [], state


@pytest.mark.parametrize("width", [640, 900, 1180, 1920])
def test_every_layout_holds_its_content(page: Page, width: int) -> None:
    """640 pixels are what a page of 1280 has at twice the size."""
    page.resize(width, 700)
    connected(page)
    opened(page, "weather")
    assert overflow(page) <= 0


def test_the_print_is_the_history_with_every_message_opened(page: Page) -> None:
    connected(page)
    opened(page, "echo")
    page.enter(".form-box textarea", "on paper")
    page.click("run")
    page.see("run-output", "on paper")
    page.until(
        "document.querySelector('[data-testid=history]').innerText.includes('tools/call')", "seen"
    )
    page.js("dispatchEvent(new Event('beforeprint'))")
    page.ask("Emulation.setEmulatedMedia", media="print")
    shown = page.js("document.body.innerText")
    assert "on paper" in shown
    assert "Sign out" not in shown
    assert "Replay" not in shown
    page.ask("Emulation.setEmulatedMedia", media="")
    assert page.pdf().startswith(b"%PDF")
