"""Running a tool: progress, cancel, time limits, the three planes of errors, replay, copies."""

from __future__ import annotations

import json

import pytest

from tests.console.browser import Page
from tests.console.conftest import Visitor, connected, opened

STATE = "document.querySelector('[data-testid=run-output]')?.dataset.state"


@pytest.fixture(autouse=True)
def _connected(page: Page) -> None:
    connected(page)


def as_json(page: Page, arguments: object) -> None:
    page.click("mode-json")
    page.enter(".json-editor", json.dumps(arguments))


def ends_as(page: Page, state: str, seconds: float = 20) -> str:
    page.until(f"{STATE} === '{state}'", f"it ends as {state}", seconds)
    return page.text("run-output")


def test_progress_is_shown_while_it_runs(page: Page) -> None:
    opened(page, "slow_count")
    as_json(page, {"to": 4, "seconds": 0.4})
    page.click("run")
    page.see("run-output", "of 4: counted to")
    assert "counted to 4" in ends_as(page, "succeeded")


def test_a_running_call_can_be_cancelled(page: Page) -> None:
    opened(page, "slow_count")
    as_json(page, {"to": 50, "seconds": 1})
    page.click("run")
    page.see("run-state", "Sent to the server")
    page.click("cancel")
    text = ends_as(page, "error")
    assert "The call was cancelled" in text
    assert "What was outstanding" in text


def test_a_time_limit_reports_what_was_outstanding(page: Page) -> None:
    opened(page, "slow_count")
    as_json(page, {"to": 2, "seconds": 5})
    page.enter(".run input.narrow", "1")
    page.click("run")
    ends_as(page, "error")
    report = page.text("report")
    assert "tools/call slow_count on demo" in report
    assert "the limit was 1 s without progress" in report
    assert "perhaps: it was sent" in report
    assert "none was reported" in report


def test_an_error_of_the_tool_is_no_error_of_the_protocol(page: Page) -> None:
    opened(page, "fail")
    page.click("run")
    text = ends_as(page, "tool-error")
    assert "Tool error" in text
    assert "This tool always fails." in text


def test_arguments_are_checked_here_and_may_be_sent_anyway(page: Page) -> None:
    opened(page, "add")
    page.enter(".form-box .field:nth-child(1) input", "many")
    page.click("run")
    page.see("form-errors", "2 arguments do not fit")
    assert page.js("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert "a must be number" in page.js(
        "document.getElementById(document.activeElement.getAttribute('aria-describedby')"
        ".split(' ').at(-1)).textContent"
    )
    page.click("send-anyway")
    assert "Invalid arguments" in ends_as(page, "tool-error")


def test_a_call_without_a_connection_says_so_and_what_next(page: Page, visitor: Visitor) -> None:
    opened(page, "echo")
    visitor.http.post("/api/v1/servers/demo/disconnect", json={})
    page.until("document.querySelector('[data-testid=connect]')", "disconnected")
    page.enter(".form-box textarea", "hello")
    page.click("run")
    text = ends_as(page, "error")
    assert "Connect the server, then run this again." in text
    assert "not_connected" in text


def test_integers_that_would_be_rounded_are_refused(page: Page) -> None:
    opened(page, "add")
    page.click("mode-json")
    page.enter(".json-editor", '{"a": 9007199254740993, "b": 1}')
    page.click("run")
    page.see("form-errors", "too large to be sent exactly")


def test_json_stays_as_it_was_typed(page: Page) -> None:
    opened(page, "echo")
    page.click("mode-json")
    typed = '{ "text":"caf\\u00e9",\n\n "text2" : null }'
    page.enter(".json-editor", typed)
    assert page.js("document.querySelector('.json-editor').value") == typed


def test_a_call_of_the_history_is_replayed(page: Page) -> None:
    opened(page, "echo")
    page.enter(".form-box textarea", "once more")
    page.click("run")
    ends_as(page, "succeeded")
    opened(page, "add")
    page.click_row("history", "tools/call echo")
    page.click("replay")
    page.see("run-output", "once more")
    page.until(
        "[...document.querySelectorAll('[data-testid=history] .row')]"
        ".filter(r => r.innerText.includes('tools/call')).length === 2",
        "two calls are in the history",
    )


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("curl", "curl -s 'http"),
        ("Python", "httpx.post("),
        ("TypeScript", "await fetch("),
    ],
)
def test_a_call_is_copied_as_a_program_without_the_key(
    page: Page, visitor: Visitor, language: str, expected: str
) -> None:
    page.js("navigator.clipboard.writeText = async (text) => { window.copied = text; }; null")
    opened(page, "echo")
    page.enter(".form-box textarea", "it's copied")
    page.choose(".run select", language)
    text = page.until("window.copied", "copied")
    assert expected in text
    assert "/api/v1/servers/demo/tools/echo/call" in text
    assert visitor.token not in text


def test_filters_find_by_method_status_duration_and_words(page: Page, visitor: Visitor) -> None:
    visitor.api.text("demo", "echo", {"text": "needle"})
    visitor.api.call("demo", "fail", {})
    count = "Number(document.querySelector('.history').dataset.count)"
    for words, number in (
        ("method:tools/call", 2),
        ("method:tools/call needle", 1),
        ("status:error", 1),
        ("method:tools/call -status:error", 1),
        ("server:nobody", 0),
        ("duration:>600000", 0),
    ):
        page.enter("[data-testid=filter]", words)
        page.until(f"{count} === {number}", f"{words} finds {number}")
    page.enter("[data-testid=filter]", "status:wrong")
    page.until("document.querySelector('#filter-problem').innerText.includes('one of')", "said")


def test_resources_templates_and_prompts_are_read(page: Page) -> None:
    page.click("tab-resources")
    page.click_row("resources", "About this server")
    page.see("run-output", "Nothing here is real")
    page.click_row("resources", "greeting")
    page.enter(".form-box textarea", "Ada Lovelace")
    page.click("run")
    page.see("run-output", "Hello, Ada")
    page.click("tab-prompts")
    page.click_row("prompts", "plan_trip")
    page.enter(".form-box textarea", "Bern")
    page.click("run")
    page.see("run-output", "Plan two days in Bern.")


def test_a_call_that_another_client_started_can_be_ended_here(page: Page, visitor: Visitor) -> None:
    page.click("tab-calls")
    visitor.api.call(
        "demo", "slow_count", {"to": 60, "seconds": 1}, headers={"Prefer": "respond-async"}
    )
    page.see("calls", "running")
    page.click("", css="[data-testid=calls] button")
    page.see("calls", "cancelled")
