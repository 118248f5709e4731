"""Lists of a server: pages, what changed, tools switched off, completions, results kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import mcp_types as types
import pytest

from mcphub.core.types import JSONObject, JSONValue
from tests.console.browser import Page
from tests.console.conftest import Visitor, opened
from tests.console.test_asked_by_servers import server_opened
from tests.fakes.mcp_servers import Kind, RunningServer, running
from tests.fakes.raw_server import ECHO, RawServer, Request, Wire, result, serving_in_thread

PAGES = 5
PER_PAGE = 30
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


@pytest.fixture
def demo(page: Page, visitor: Visitor) -> Iterator[RunningServer]:
    """A server of this test alone, connected, its tools open."""
    with running(Kind.DUAL) as server:
        visitor.api.connected("mine", server.url)
        server_opened(page, "mine")
        page.click("tab-tools")
        yield server
        visitor.http.delete("/api/v1/servers/mine")


class Paged(RawServer):
    """Lists its tools in pages."""

    capabilities: ClassVar[JSONObject] = {"tools": {}}

    async def on_list_tools(self, request: Request, wire: Wire) -> None:
        page = int(str(request.params.get("cursor") or 0))
        first = page * PER_PAGE
        tools: list[JSONValue] = [
            {**ECHO, "name": f"tool_{number}"} for number in range(first, first + PER_PAGE)
        ]
        following: JSONObject = {"nextCursor": str(page + 1)} if page + 1 < PAGES else {}
        await wire.answer(result(request.id, {"tools": tools, **following}))


def test_tools_of_all_pages_are_listed_and_found(page: Page, visitor: Visitor) -> None:
    with serving_in_thread(Paged()) as server:
        visitor.api.connected("paged", server.url)
        server_opened(page, "paged")
        page.click("tab-tools")
        last = PAGES * PER_PAGE - 1
        page.see("tab-tools", str(last + 1))
        page.enter("[data-testid=tool-search]", f"tool_{last}")
        page.until("document.querySelectorAll('[data-testid=tools] .row').length === 1", "found")
        opened(page, f"tool_{last}")
        visitor.http.delete("/api/v1/servers/paged")


def test_a_list_that_changes_is_marked_and_compared_line_by_line(
    page: Page, demo: RunningServer
) -> None:
    page.until("document.querySelector('[data-testid=tools] .row')", "tools are shown")
    demo.demo.extra_tools = [
        types.Tool(name="brand_new", description="Came later", input_schema=SCHEMA)
    ]
    demo.announce_tools_changed()
    page.click_row("tools", "brand_new")
    assert "new" in page.js(
        "[...document.querySelectorAll('[data-testid=tools] .row')]"
        ".find(r => r.innerText.includes('brand_new')).querySelector('.tag.new').innerText"
    )
    demo.demo.extra_tools = [
        types.Tool(name="brand_new", description="Says something else", input_schema=SCHEMA)
    ]
    demo.announce_tools_changed()
    page.until(
        "[...document.querySelectorAll('[data-testid=tools] .tag.new')]"
        ".some(t => t.innerText === 'changed')",
        "the change is marked",
    )
    page.click("compare")
    text = page.see("difference", "1 tool changed")
    assert "Changed: brand_new" in text
    lines = page.js("document.querySelector('[data-testid=difference] pre').innerText")
    assert '-   "description": "Came later"' in lines
    assert '+   "description": "Says something else"' in lines


def test_a_tool_that_is_switched_off_is_refused_until_it_is_on_again(
    page: Page, demo: RunningServer
) -> None:
    opened(page, "echo")
    page.click("", css="[data-testid=tool] details summary")
    page.click("tool-off")
    page.see("tool", "Switched off")
    page.enter(".form-box textarea", "not now")
    page.click("run")
    assert "tool_disabled" in page.see("problem", "Switch the tool on")
    assert demo.demo.executions["echo"] == 0
    page.click("tool-on")
    page.until("document.querySelector('[data-testid=tool-off]')", "it is on")
    page.enter(".form-box textarea", "now")
    page.click("run")
    page.see("run-output", "now")


def test_arguments_of_a_prompt_are_completed_by_the_server(page: Page, demo: RunningServer) -> None:
    page.click("tab-prompts")
    page.until("document.querySelector('[data-testid=prompts] .row')", "prompts are shown")
    page.click("", css="[data-testid=prompts] .row")
    page.enter(".form-box textarea", "al")
    page.see("completions", "The server suggests: alice")


def test_the_result_of_an_earlier_call_is_shown_again(page: Page, demo: RunningServer) -> None:
    opened(page, "echo")
    page.enter(".form-box textarea", "kept for later")
    page.click("run")
    page.see("run-output", "kept for later")
    page.click("tab-calls")
    page.see("calls", "succeeded")
    page.click("", css="[data-testid=calls] button")
    page.see("call-result", "kept for later")
