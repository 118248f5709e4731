"""What a server writes is text, wherever it appears; nothing of it runs, hides or reorders."""

from __future__ import annotations

from typing import ClassVar

from mcphub.core.types import JSONObject, JSONValue
from tests.console.browser import Page
from tests.console.conftest import Visitor
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread

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
