"""A running hub, a browser, and somebody with a credential; skipped where Chromium is missing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mcphub import cli
from tests.console.browser import Browser, Page, program, running_browser
from tests.live.api import Api
from tests.live.stack import RunningHub, running

CONSOLE_TIMEOUT = 180
SCOPES = ["servers:read", "servers:write", "servers:connect", "tools:call", "traces:read"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lives here; give it the time that a browser and a hub need."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(CONSOLE_TIMEOUT))


@pytest.fixture(scope="session")
def chromium() -> str:
    found = program()
    if found is None:
        pytest.skip("Chromium is not installed: the console was NOT tested in a browser")
    return found


@pytest.fixture(scope="session")
def hub(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """`mcphub up`, as somebody starts it the first time; pages from files may talk to it."""
    with running(tmp_path_factory.mktemp("hub"), MCPHUB_CORS_ORIGINS="null") as hub:
        yield hub


@pytest.fixture(scope="session")
def chromium_process(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(chromium, tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def browser(chromium_process: Browser) -> Iterator[Browser]:
    """The browser, without a page; what a test opened is gone after it."""
    yield chromium_process
    chromium_process.forget_contexts()
    chromium_process.wire.events.clear()


@dataclass(frozen=True, slots=True)
class Visitor:
    """An end user whom no other test knows: no history, the demo server, own servers."""

    token: str
    http: httpx.Client

    @property
    def api(self) -> Api:
        return Api(self.http)


@pytest.fixture
def visitor(hub: RunningHub) -> Visitor:
    answer = hub.client().post(
        "/api/v1/connect-sessions",
        json={
            "endUser": {"id": uuid.uuid4().hex, "displayName": "Ada"},
            "allowCustomServers": True,
            "scopes": SCOPES,
        },
    )
    assert answer.status_code == 201, answer.text
    token = str(answer.json()["token"])
    return Visitor(token, hub.client(token))


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    return folder


@pytest.fixture
def context(browser: Browser, downloads: Path) -> str:
    return browser.context(downloads)


@pytest.fixture
def page(hub: RunningHub, browser: Browser, context: str, visitor: Visitor) -> Iterator[Page]:
    """The console, signed in by a typed key; at the end no policy was violated, nothing thrown."""
    page = browser.page(context)
    signed_in(page, hub.url, visitor.token)
    yield page
    assert page.violations == []
    assert thrown(browser) == []


@pytest.fixture(scope="session")
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


def signed_in(page: Page, url: str, key: str) -> None:
    """Open the console and sign in with a key."""
    page.goto(url)
    page.see("sign-in")
    page.enter("#key", key)
    page.click("sign-in")
    page.until("document.getElementById('line').dataset.state === 'live'", "the page is live")
    page.until("document.querySelector('[data-testid=servers] .row')", "servers are shown")


def connected(page: Page) -> None:
    """Connect the demo server, unless somebody did before, and wait for its tools."""
    shown = page.until(
        "document.querySelector('.actions button[data-testid$=connect]')?.dataset.testid",
        "the server's actions are shown",
    )
    if shown == "connect":
        page.click("connect")
    page.until("document.querySelector('[data-testid=tools] .row')", "tools are shown", 30)


def opened(page: Page, tool: str) -> None:
    """Open a tool of the connected demo server."""
    page.click_row("tools", tool)
    page.until(f"document.querySelector('form[data-target={tool}]')", f"{tool} has a form")


def thrown(browser: Browser) -> list[str]:
    """Return what scripts of the pages threw without anybody catching it."""
    found = [one for one in browser.wire.events if one["method"] == "Runtime.exceptionThrown"]
    return [str(one["params"]["exceptionDetails"]) for one in found]
