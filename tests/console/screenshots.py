"""Pictures of the console's main states: `python -m tests.console.screenshots docs/images`."""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mcphub import cli
from tests.console.browser import Page, program, running_browser
from tests.console.conftest import connected, opened, signed_in
from tests.console.questions import connected_to
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind
from tests.fakes.mcp_servers import running as serving
from tests.fakes.socket_server import socket_server
from tests.live.api import Api
from tests.live.stack import RunningHub, running

WIDE = (1360, 820)
PHONE = (390, 844)


def welcome(page: Page) -> None:
    page.js("sessionStorage.clear(); location.hash = ''; location.reload()")
    page.see("sign-in")


def result(page: Page) -> None:
    opened(page, "weather")
    page.enter(".form-box textarea", "Bern")
    page.click("run")
    page.see("output-check")
    page.click_row("history", "tools/call weather")
    page.see("entry", "Answer")


def progress(page: Page) -> None:
    opened(page, "slow_count")
    page.click("mode-json")
    page.enter(".json-editor", '{\n  "to": 8,\n  "seconds": 0.6\n}')
    page.click("run")
    page.see("run-output", "4 of 8")


def refused(page: Page) -> None:
    opened(page, "add")
    page.enter(".form-box .field:nth-child(1) input", "many")
    page.click("run")
    page.see("form-errors")


def filtered(page: Page) -> None:
    opened(page, "fail")
    page.click("run")
    page.see("run-output", "Tool error")
    page.enter("[data-testid=filter]", "method:tools/call status:error")
    page.click_row("history", "tools/call fail")
    page.see("entry", "the tool reports a failure")


def diagnosis(page: Page) -> None:
    page.enter("[data-testid=filter]", "")
    page.js("document.querySelector('[data-testid=filter]').dispatchEvent(new Event('input'))")
    page.click("diagnose")
    page.see("checklist", "Authorization", 30)


def adding(page: Page) -> None:
    page.click("add-server")
    page.enter("#server-url", "https://mcp.example.com/mcp")
    page.choose("#server-auth", "headers")


def closed(page: Page) -> None:
    page.press("Escape")
    page.click("tab-tools")
    page.until("document.querySelector('[data-testid=tools] .row')", "tools")


@contextmanager
def questions(page: Page, hub: RunningHub) -> Iterator[None]:
    """A server that asks for a form and for a visit, while the block runs."""
    api = Api(hub.client())
    with serving(Kind.MODERN, demo=AskingServer()) as server:
        api.connected("booking", server.url)
        for tool in ("ask", "visit"):
            api.call("booking", tool, headers={"Prefer": "respond-async"})
        page.click_row("servers", "booking")
        page.click("tab-requests")
        page.see("visit", "pay.example")
        yield
        api.http.delete("/api/v1/servers/booking")


def without_hub(page: Page, home: Path) -> None:
    file = home / "console.html"
    cli.main(["console", "export", str(file)])
    page.goto(file.as_uri())
    page.click("direct")
    with socket_server(AskingServer()) as url:
        connected_to(page, url)
        opened(page, "echo")
        page.enter(".form-box textarea", "no hub in between")
        page.click("run")
        page.see("run-output", "no hub")
        page.click_row("history", "tools/call")
        page.screenshot(home / "direct.png")


STATES: dict[str, Callable[[Page], None]] = {
    "console-result": result,
    "console-progress": progress,
    "console-arguments": refused,
    "console-filter": filtered,
    "console-diagnosis": diagnosis,
    "console-add-server": adding,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = program()
    if found is None:
        raise SystemExit("Chromium is not installed")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        with running(home / "hub") as hub, running_browser(found, home / "chromium") as browser:
            page = browser.page(browser.context())
            page.resize(*WIDE)
            signed_in(page, hub.url, hub.ready.api_key)
            page.see("connect", "Connect")
            page.screenshot(folder / "console-first.png")
            connected(page)
            for state, reach in STATES.items():
                reach(page)
                page.screenshot(folder / f"{state}.png")
            closed(page)
            page.media(prefers_color_scheme="dark")
            result(page)
            page.screenshot(folder / "console-dark.png")
            page.media(prefers_color_scheme="light")
            page.resize(*PHONE)
            page.js("document.querySelector('[data-testid=tool]').scrollIntoView()")
            page.screenshot(folder / "console-phone.png")
            page.resize(*WIDE)
            with questions(page, hub):
                page.screenshot(folder / "console-questions.png")
            welcome(page)
            page.screenshot(folder / "console-sign-in.png")
            without_hub(page, home)
            shutil.copy(home / "direct.png", folder / "console-direct.png")
    logging.getLogger(__name__).info("pictures are in %s", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
