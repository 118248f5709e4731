"""Steps that several tests share: servers without a hub, and questions in the course of a call."""

from __future__ import annotations

from tests.console.browser import Page
from tests.console.conftest import opened


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
