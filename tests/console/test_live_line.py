"""What happens while the page looks: drops, gaps, other tabs."""

from __future__ import annotations

import json
from typing import Any

from tests.console.browser import Browser, Page
from tests.console.conftest import Visitor, connected, signed_in, thrown
from tests.live.stack import RunningHub

KEEP_SOCKETS = """
window.sockets = [];
const Plain = WebSocket;
window.WebSocket = class extends Plain {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
"""
ECHOES = (
    "[...document.querySelectorAll('[data-testid=history] .row')]"
    ".filter(r => r.innerText.includes('tools/call'))"
)


def is_offline(page: Page, *, offline: bool) -> None:
    """Take the network away from the page, or give it back."""
    limits: dict[str, Any] = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.ask("Network.emulateNetworkConditions", offline=offline, **limits)


def shown_texts(page: Page) -> list[str]:
    """Return what each call of `echo` had to say, by opening one row after the other."""
    keys = page.js(f"{ECHOES}.map(r => r.dataset.key)")
    texts = []
    for key in keys:
        page.click("", css=f'[data-testid=history] .row[data-key="{key}"]')
        shown = page.see("entry", '"text": "')
        texts.append(shown.split('"text": "')[1].split('"')[0])
    return texts


def test_a_dropped_socket_recovers_without_losing_or_doubling_an_entry(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    page = browser.page(
        context,
        lambda one: one.ask("Page.addScriptToEvaluateOnNewDocument", source=KEEP_SOCKETS),
    )
    page.ask("Network.enable")
    signed_in(page, hub.url, visitor.token)
    connected(page)
    expected = [f"call {number}" for number in range(9)]
    for text in expected[:3]:
        visitor.api.text("demo", "echo", {"text": text})
    page.until(f"{ECHOES}.length === 3", "calls of another client arrive live")
    is_offline(page, offline=True)
    page.js("window.sockets.at(-1).close()")
    page.until("document.getElementById('line').dataset.state === 'offline'", "the page says so")
    for text in expected[3:7]:
        visitor.api.text("demo", "echo", {"text": text})
    is_offline(page, offline=False)
    page.until("document.getElementById('line').dataset.state === 'live'", "it comes back", 30)
    for text in expected[7:]:
        visitor.api.text("demo", "echo", {"text": text})
    page.until(f"{ECHOES}.length >= 9", "what happened meanwhile is there", 30)
    assert shown_texts(page) == expected
    assert thrown(browser) == []


def test_more_than_a_page_of_messages_is_caught_up(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    page = browser.page(
        context,
        lambda one: one.ask("Page.addScriptToEvaluateOnNewDocument", source=KEEP_SOCKETS),
    )
    page.ask("Network.enable")
    signed_in(page, hub.url, visitor.token)
    connected(page)
    visitor.api.text("demo", "echo", {"text": "before"})
    page.until(f"{ECHOES}.length === 1", "live")
    is_offline(page, offline=True)
    page.js("window.sockets.at(-1).close()")
    page.until("document.getElementById('line').dataset.state === 'offline'", "the page says so")
    calls = [{"server": "demo", "tool": "echo", "arguments": {"text": f"{n}"}} for n in range(100)]
    for _ in range(2):
        answer = visitor.http.post("/api/v1/tool-calls/batch", json={"calls": calls})
        assert answer.status_code == 200, answer.text
    is_offline(page, offline=False)
    visitor.api.text("demo", "echo", {"text": "overtaking"})
    page.enter("[data-testid=filter]", "method:tools/call status:ok")
    page.until("document.querySelector('.history').dataset.count === '202'", "all are there", 40)


def test_a_restart_of_the_web_process_is_survived(
    hub: RunningHub, page: Page, visitor: Visitor
) -> None:
    connected(page)
    hub.kill("web1")
    page.until("document.getElementById('line').dataset.state !== 'live'", "the page notices")
    page.until("document.getElementById('line').dataset.state === 'live'", "it comes back", 60)
    visitor.api.text("demo", "echo", {"text": "after the restart"})
    page.until(f"{ECHOES}.length === 1", "live again")


def test_two_tabs_show_the_same(
    hub: RunningHub, page: Page, browser: Browser, context: str, visitor: Visitor
) -> None:
    other = browser.page(context)
    signed_in(other, hub.url, visitor.token)
    connected(page)
    other.see("disconnect", "Disconnect")
    visitor.api.text("demo", "echo", {"text": "for both"})
    for tab in (page, other):
        tab.until(f"{ECHOES}.length === 1", "each tab has the call once")
    counts = [tab.js("document.querySelector('.history').dataset.count") for tab in (page, other)]
    assert counts[0] == counts[1]
    other.click("disconnect")
    page.see("connect", "Connect")


def test_a_server_that_somebody_else_adds_and_removes_appears_and_goes(
    page: Page, visitor: Visitor
) -> None:
    visitor.api.add_server("elsewhere", "https://example.com/mcp")
    page.until(
        "document.querySelector('[data-testid=servers]').innerText.includes('elsewhere')", "added"
    )
    assert visitor.http.delete("/api/v1/servers/elsewhere").status_code == 204
    page.until(
        "!document.querySelector('[data-testid=servers]').innerText.includes('elsewhere')", "gone"
    )


def test_a_key_that_is_revoked_leads_back_to_the_sign_in(
    hub: RunningHub, browser: Browser, context: str
) -> None:
    owner = hub.client()
    made = owner.post("/api/v1/api-keys", json={"name": "short-lived"}).json()
    page = browser.page(context)
    signed_in(page, hub.url, made["key"] if "key" in made else made["secret"])
    assert owner.delete(f"/api/v1/api-keys/{made['id']}").status_code == 204
    page.see("sign-in", "Sign in", 30)
    assert json.dumps(page.js("sessionStorage.getItem('mcphub.key')")) == "null"
