"""The exported file: a page from the disk that talks to a hub, or shows a history without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcphub import cli
from tests.console.browser import Browser
from tests.console.conftest import connected, opened, thrown
from tests.console.test_large_history import many  # noqa: F401  (a fixture)
from tests.live.stack import RunningHub


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "console.html"
    assert cli.main(["console", "export", str(file)]) == 0
    return file


def test_a_page_from_the_disk_works_with_a_hub_that_allows_it(
    hub: RunningHub, browser: Browser, context: str, file: Path
) -> None:
    page = browser.page(context)
    page.goto(file.as_uri())
    page.see("sign-in")
    page.enter("#base", hub.url)
    page.enter("#key", hub.ready.api_key)
    page.click("sign-in")
    page.until("document.getElementById('line').dataset.state === 'live'", "live by WebSocket")
    connected(page)
    opened(page, "echo")
    page.enter(".form-box textarea", "from a file")
    page.click("run")
    page.see("run-output", "from a file")
    page.until(
        "document.querySelector('[data-testid=history]').innerText.includes('tools/call')",
        "the history is live too",
    )
    assert page.violations == []
    assert thrown(browser) == []


def test_a_history_is_shown_without_any_hub(
    browser: Browser,
    context: str,
    file: Path,
    many: Path,  # noqa: F811  (a fixture)
) -> None:
    page = browser.page(context)
    page.goto(file.as_uri())
    page.see("sign-in")
    page.give_file("open-file", many)
    page.see("offline", "20,000 messages", 30)
    page.click_row("history", "tools/call")
    page.see("entry", "Answer")
    assert page.violations == []
    assert thrown(browser) == []


def test_a_hub_that_cannot_be_reached_is_told_with_what_to_do(
    browser: Browser, context: str, file: Path
) -> None:
    page = browser.page(context)
    page.goto(file.as_uri())
    page.enter("#base", "http://127.0.0.1:9")
    page.enter("#key", "mhk_any")
    page.click("sign-in")
    assert "MCPHUB_CORS_ORIGINS=null" in page.see("problem", "Between this page and the hub")
