"""From the first start to a shared history: connect, call, watch, export, import."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.console.browser import Browser, Page
from tests.console.conftest import Visitor, connected, opened, signed_in
from tests.live.api import Api
from tests.live.stack import RunningHub
from tests.waiting import eventually

STATE = "document.querySelector('[data-testid=run-output]')?.dataset.state"
ANSWERED = (
    "[...document.querySelectorAll('[data-testid=history] .row')]"
    ".some(r => r.innerText.includes('tools/call') && r.innerText.includes('✓'))"
)
FIRST_LOAD_BYTES = 150_000


def call_echo(page: Page, text: str) -> None:
    opened(page, "echo")
    page.enter(".form-box textarea", text)
    page.click("run")
    page.until(f"{STATE} === 'succeeded'", "the call succeeds")
    page.until(ANSWERED, "the call is in the history with its answer")


def exported(page: Page, kind: str, downloads: Path) -> Path:
    suffix = {"session": "json", "har": "har", "ndjson": "ndjson"}[kind]
    page.choose("[data-testid=export]", kind)

    def file() -> Path | None:
        return next(iter(downloads.glob(f"*.{suffix}")), None)

    found = eventually(file, 15.0, f"the {kind} file is there")
    assert found is not None
    return found


def test_a_newcomer_connects_calls_sees_exports_and_imports(page: Page, downloads: Path) -> None:
    connected(page)
    call_echo(page, "hello, console")
    assert "hello, console" in page.text("run-output")
    page.click_row("history", "tools/call echo")
    assert '"text": "hello, console"' in page.see("entry", "Answer")
    shown = int(page.js("document.querySelector('.history').dataset.count"))
    file = exported(page, "session", downloads)
    session = json.loads(file.read_text())
    assert (session["format"], session["version"]) == ("mcphub-trace", 1)
    page.give_file("import-file", file)
    assert file.name in page.see("offline")
    page.until(f"document.querySelector('.history').dataset.count === '{shown}'", "all are back")
    page.click_row("history", "tools/call echo")
    assert "hello, console" in page.see("entry", "Answer")
    page.click("close-file")
    page.see("disconnect", "Disconnect")


def test_har_and_ndjson_files_hold_every_message_and_open_again(
    page: Page, downloads: Path
) -> None:
    connected(page)
    call_echo(page, "for a file")
    har = json.loads(exported(page, "har", downloads).read_text())
    methods = [one["request"]["url"].rsplit("/", 2)[-2:] for one in har["log"]["entries"]]
    assert ["tools", "call"] in methods
    called = har["log"]["entries"][methods.index(["tools", "call"])]
    assert called["response"]["status"] == 200
    assert "content-type" in [one["name"] for one in called["request"]["headers"]]
    ndjson = exported(page, "ndjson", downloads)
    rows = [json.loads(line) for line in ndjson.read_text().splitlines()]
    assert {"tools/call"} < {row["method"] for row in rows}
    page.give_file("import-file", next(iter(downloads.glob("*.har"))))
    page.see("offline", f"{len(rows)} messages")


def test_the_handshake_and_the_steps_of_a_connection_are_told(page: Page) -> None:
    connected(page)
    page.until(
        "[...document.querySelectorAll('[data-testid=history] .row')]"
        ".some(r => /server\\/discover|initialize/.test(r.innerText))",
        "the handshake is in the history",
    )
    page.click_row("history", "tools/list")
    assert "POST → 200" in page.see("http", "HTTP")
    headers = page.js("document.querySelector('[data-testid=http]').textContent")
    assert "content-type: application/json" in headers
    page.click("tab-overview")
    assert "transport" in page.see("timeline", "era probe")


def test_a_diagnosis_is_an_ordered_checklist(page: Page) -> None:
    page.click("diagnose")
    text = page.see("checklist", "Authorization", 30)
    steps = ["Name (DNS)", "Address allowed", "Connection (TCP)", "Protocol version"]
    places = [text.index(step) for step in steps]
    assert places == sorted(places)


def test_a_member_adds_a_server_that_cannot_be_reached_and_is_told_what_to_do(page: Page) -> None:
    page.click("add-server")
    page.enter("#server-url", "http://127.0.0.1:9/mcp")
    page.enter("#server-name", "Nobody there")
    page.click("save-server")
    page.see("last-error", "Check that the server is running", 40)
    assert page.js("document.querySelector('[data-testid=last-error]').dataset.error")


def test_an_address_that_is_none_is_marked_at_its_field(page: Page) -> None:
    page.click("add-server")
    page.enter("#server-url", "not an address")
    page.click("save-server")
    page.until("document.activeElement.id === 'server-url'", "the field has the focus")
    assert page.js("document.activeElement.getAttribute('aria-invalid')") == "true"
    described = page.js("document.activeElement.getAttribute('aria-describedby')")
    assert "whole address" in page.js(f"document.getElementById('{described}').textContent")


def test_a_login_of_the_browser_is_enough(hub: RunningHub, browser: Browser, context: str) -> None:
    Api(hub.client()).connect("demo")
    login = httpx.get(hub.ready.admin_url, trust_env=False)
    session = [(n, v) for n, v in login.cookies.items() if "csrf" not in n]
    name, value = session[0]
    page = browser.page(context)
    page.ask("Network.setCookie", name=name, value=value, url=hub.url)
    page.goto(hub.url)
    page.see("sign-out")
    call_echo(page, "by cookie and CSRF token")
    page.click("sign-out")
    page.see("sign-in")
    page.goto(hub.url)
    page.see("sign-in")
    assert page.violations == []


def test_a_wrong_key_says_whose_fault_it_is_and_what_next(
    hub: RunningHub, browser: Browser, context: str
) -> None:
    page = browser.page(context)
    page.goto(hub.url)
    page.see("sign-in")
    page.enter("#key", "mhk_wrong_key")
    page.click("sign-in")
    text = page.see("problem", "The hub")
    assert "Next" in text
    assert page.js("sessionStorage.getItem('mcphub.key')") is None


def test_the_first_load_is_small_and_asks_nobody_else(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    visitor.api.connect("demo")
    page = browser.page(context)
    signed_in(page, hub.url, visitor.token)
    page.goto("about:blank")
    page.js(f"location.assign({json.dumps(hub.url)})")
    page.until("document.querySelector('[data-testid=tools] .row')", "the page is there again")
    loaded = page.js(
        "['resource', 'navigation'].flatMap(kind => performance.getEntriesByType(kind))"
        ".filter(e => !/\\/api\\//.test(e.name)).map(e => [e.name, e.decodedBodySize])"
    )
    assert all(name.startswith(hub.url) for name, _ in loaded)
    assert 50_000 < sum(size for _, size in loaded) <= FIRST_LOAD_BYTES
