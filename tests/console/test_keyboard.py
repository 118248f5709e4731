"""The keyboard alone is enough, and one always sees where one is."""

from __future__ import annotations

from tests.console.browser import Browser, Page
from tests.console.conftest import Visitor
from tests.live.stack import RunningHub

MOST_TABS = 60
HAS_OUTLINE = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"


def tab_to(page: Page, reached: str) -> None:
    """Press Tab until an expression is true; every stop has to be visible."""
    for _ in range(MOST_TABS):
        page.press("Tab")
        assert page.js(HAS_OUTLINE), page.js("document.activeElement.outerHTML")
        if page.js(reached):
            return
    raise AssertionError(f"Tab never reached {reached}")


def focused(testid: str) -> str:
    return f"document.activeElement.dataset.testid === '{testid}'"


def test_from_the_key_to_the_result_without_a_mouse(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    page = browser.page(context)
    page.goto(hub.url)
    page.until("document.activeElement.id === 'key'", "the key is asked for")
    page.type(visitor.token)
    page.press("Enter")
    page.until("document.getElementById('line').dataset.state === 'live'", "signed in")
    page.press("S", "Alt", "Shift")
    page.until(focused("servers"), "the servers have the focus")
    page.press("Home")
    tab_to(page, focused("connect"))
    page.press("Enter")
    page.until("document.querySelector('[data-testid=tools] .row')", "connected", 30)
    page.press("T", "Alt", "Shift")
    page.until(focused("tools"), "the tools have the focus")
    page.press("a")
    page.until("document.querySelector('[data-testid=tool] h3')?.innerText === 'add'", "type-ahead")
    for value in ("19", "23"):
        tab_to(page, "document.activeElement.matches('.form-box input')")
        page.type(value)
    page.press("Enter", "Control")
    page.see("run-output", "42")
    row = "[...document.querySelectorAll('[data-testid=history] .row')].at(-1).innerText"
    page.until(f"{row}.includes('tools/call') && {row}.includes('✓')", "the call is recorded")
    page.press("H", "Alt", "Shift")
    page.until(focused("history"), "the history has the focus")
    page.press("End")
    page.see("entry", "tools/call")


def test_tabs_move_with_arrows_and_wrap(page: Page) -> None:
    page.js("document.querySelector('[data-testid=tab-overview]').focus()")
    for key, expected in (
        ("ArrowRight", "tab-tools"),
        ("End", "tab-calls"),
        ("ArrowRight", "tab-overview"),
        ("ArrowLeft", "tab-calls"),
        ("Home", "tab-overview"),
    ):
        page.press(key)
        page.until(f"{focused(expected)} && document.activeElement.ariaSelected === 'true'", key)


def test_shortcuts_can_be_switched_off(page: Page) -> None:
    def dialogs() -> int:
        return int(page.js("document.querySelectorAll('dialog[open]').length"))

    page.press("?")
    assert dialogs() == 1
    page.js("document.querySelector('dialog input[type=checkbox]').click()")
    page.press("Escape")
    page.until("!document.querySelector('dialog[open]')", "Escape closes")
    page.press("?")
    assert dialogs() == 0


def test_the_skip_link_leads_past_the_servers(page: Page) -> None:
    page.js("document.body.tabIndex = -1; document.body.focus()")
    page.press("Tab")
    page.until("document.activeElement.className === 'skip'", "it is the first stop")
    page.press("Enter")
    page.until("document.activeElement.id === 'main'", "the focus is at the server")
