"""What a server writes is text, wherever it appears; nothing of it runs, hides or reorders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import mcp_types as types

from mcphub.core.types import JSONObject, JSONValue
from tests.console.browser import Page
from tests.console.conftest import Visitor
from tests.console.questions import answer_in_requests, back_to, connected_to, run
from tests.fakes.asking_server import SCHEMA, Answer, AskingServer, told
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread
from tests.fakes.sdk_tools import Context
from tests.fakes.socket_server import socket_server

SCRIPT = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
BIDI = "safe\u202egnp.exe\u2066\u200b\U000e0041"
ANSI = "\x1b[31mred\x1b[0m"
NASTY = f"{SCRIPT}{BIDI}{ANSI}"
LONG = "x" * 1_000_000
CONTENT: list[JSONValue] = [
    {"type": "text", "text": NASTY},
    {"type": "resource_link", "uri": "javascript:window.hacked=1", "name": NASTY},
    {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
    {"type": "image", "mimeType": 'image/png" onerror="window.hacked=1', "data": "AAAA"},
    {"type": "resource", "resource": {"uri": NASTY, "mimeType": "text/html", "text": SCRIPT}},
    {"type": NASTY, "x": NASTY},
]


class Nasty(RawServer):
    """Every text of it is an attack."""

    tools: ClassVar[list[JSONValue]] = [
        {
            "name": "attack",
            "title": NASTY,
            "description": NASTY + LONG,
            "annotations": {"title": NASTY, "readOnlyHint": True},
            "inputSchema": {
                "type": "object",
                "properties": {
                    NASTY: {"type": "string", "title": NASTY, "description": NASTY},
                    "choice": {"enum": [NASTY, "b"]},
                    "evil": {"type": "string", "pattern": "^(a+)+$"},
                },
            },
        }
    ]

    def initialize_result(self) -> JSONObject:
        info: JSONObject = {"name": NASTY, "version": NASTY, "title": NASTY}
        return {**super().initialize_result(), "serverInfo": info, "instructions": NASTY}

    async def on_call(self, request: Request, wire: Wire) -> None:
        answer: JSONObject = {"content": CONTENT, "structuredContent": {NASTY: NASTY}}
        await wire.answer(result(request.id, answer))


def assert_only_text(page: Page) -> None:
    assert page.js("window.hacked") is None
    assert (
        page.js("document.querySelectorAll('main script, main img, .history script').length") == 0
    )
    assert page.js("document.querySelectorAll('a[href^=javascript]').length") == 0
    hidden = "/[\\u0000-\\u0008\\u001b\\u200b\\u202a-\\u202e\\u2066-\\u2069]|\\u{e0041}/u"
    assert page.js(f"{hidden}.test(document.body.innerText)") is False


def test_hostile_texts_of_a_server_are_shown_as_text(page: Page, visitor: Visitor) -> None:
    with serving_in_thread(Nasty()) as server:
        visitor.api.connected("nasty", server.url)
        page.click_row("servers", "nasty")
        page.click("tab-overview")
        page.until(
            "document.body.innerText.includes('The server\\u2019s instructions') ||"
            " document.querySelector('blockquote')",
            "instructions",
        )
        assert "\\u{202e}" in page.js("document.querySelector('blockquote').innerText")
        assert_only_text(page)
        page.click("tab-tools")
        page.until("document.querySelector('[data-testid=tools] .row')", "tools", 20)
        page.js("document.querySelector('[data-testid=tools] .row').click()")
        page.until("document.querySelector('[data-testid=tool] form')", "the tool is open")
        assert "<img src=x" in page.text("tool")
        assert_only_text(page)
        page.click("run")
        page.until(
            "document.querySelector('[data-testid=run-output]').dataset.state === 'succeeded'",
            "the call ends",
        )
        text = page.text("run-output")
        assert "<script>window.hacked=1</script>" in text
        assert "\\u{1b}[31mred" in text
        assert "is not shown" in text
        assert_only_text(page)
        page.click_row("history", "tools/call")
        page.see("entry", "Answer")
        assert_only_text(page)


class NastyAsking(AskingServer):
    """Its names, questions and addresses are attacks; one name has a megabyte."""

    def __init__(self) -> None:
        super().__init__()
        self.extra_tools.append(types.Tool(name=NASTY + LONG, input_schema={"type": "object"}))

    async def _ask(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        form = types.ElicitRequestFormParams(message=NASTY, requested_schema=SCHEMA)
        return self._asked(params, form)

    async def _visit(self, ctx: Context, params: types.CallToolRequestParams) -> Answer:
        page = types.ElicitRequestURLParams(
            message=NASTY, url="javascript:window.hacked=1", elicitation_id="x"
        )
        return self._asked(params, page)

    def _asked(
        self,
        params: types.CallToolRequestParams,
        question: types.ElicitRequestFormParams | types.ElicitRequestURLParams,
    ) -> Answer:
        if params.input_responses is not None:
            return told(params.input_responses["q"])
        return types.InputRequiredResult(input_requests={"q": types.ElicitRequest(params=question)})


def test_hostile_names_and_questions_are_text_without_a_hub_too(direct: Page) -> None:
    with socket_server(NastyAsking()) as url:
        connected_to(direct, url)
        direct.enter("[data-testid=tool-search]", "onerror")
        assert "<img src=x" in direct.see("tools", "onerror")
        direct.js("document.querySelector('[data-testid=tools] .row').click()")
        direct.until("document.querySelector('[data-testid=tool] form')", "the tool is open")
        assert len(direct.text("tool")) < 5_000
        direct.enter("[data-testid=tool-search]", "")
        run(direct, "ask")
        answer_in_requests(direct, "form")
        assert "\\u{202e}" in direct.see("elicitation", "<img src=x")
        assert_only_text(direct)
        direct.click("decline")
        back_to(direct, "ask", "decline")
        run(direct, "visit")
        answer_in_requests(direct, "url")
        direct.see("visit", "no address of the web")
        assert direct.js("document.querySelector('[data-testid=accept]')") is None
        assert_only_text(direct)


def test_file_of_a_stranger_is_shown_and_sends_nobody_anywhere(
    page: Page, visitor: Visitor, tmp_path: Path
) -> None:
    message = {"id": "1", "direction": "sent", "type": "request", "server": NASTY, "size": 9}
    session = {
        "format": "mcphub-trace",
        "version": 1,
        "servers": [
            None,
            {"id": 7},
            {"id": SCRIPT, "name": 7, "tools": [None, 5, {"name": NASTY}], "instructions": 5},
            {"id": "phish", "authorizationUrl": "https://evil.example/", "auth": 5, "tools": 5},
        ],
        "messages": [None, {**message, "method": NASTY, "contentOmitted": True}],
    }
    file = tmp_path / "stranger.json"
    file.write_text(json.dumps(session))
    page.give_file("import-file", file)
    page.see("offline", "1 message")
    for server in ("7", "phish"):
        page.click_row("servers", server)
        page.click("tab-overview")
        page.until("document.querySelector('dl.facts')", "the server is open")
        assert_only_text(page)
    assert page.js("document.querySelector('[data-testid=authorize]')") is None
    page.js("document.querySelector('[data-testid=history] .row').click()")
    page.see("entry", "the file has not got it")
    assert page.js("document.querySelector('[data-testid=load]')") is None
    assert_only_text(page)
