"""Ten thousand exchanges and results of megabytes stay usable."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.console.browser import Page

logger = logging.getLogger(__name__)

EXCHANGES = 10_000
MOST_ROWS_IN_PAGE = 80
MOST_NODES = 3_000
"""In the whole page: what is drawn is what a step costs, on any machine."""


def messages() -> Iterator[dict[str, Any]]:
    for number in range(EXCHANGES):
        for part, kind in enumerate(("request", "response")):
            content = {"jsonrpc": "2.0", "id": number}
            if kind == "request":
                content |= {"method": "tools/call", "params": {"name": f"tool_{number % 7}"}}
            else:
                content |= {"result": {"content": [{"type": "text", "text": f"word{number}"}]}}
            yield {
                "id": str(uuid.UUID(int=(7 << 76) | (number * 2 + part) << 80)),
                "seq": number * 2 + part,
                "at": f"2026-11-30T12:{number // 60 % 60:02}:{number % 60:02}.000Z",
                "server": f"server{number % 3}",
                "call": str(uuid.UUID(int=number + 1)),
                "attempt": 1,
                "direction": "sent" if kind == "request" else "received",
                "type": kind,
                "method": "tools/call",
                "rpcId": str(number),
                "content": content,
                "error": None,
                "size": 120,
                "truncated": False,
                "redacted": False,
                "synthetic": False,
                "durationMs": None if kind == "request" else number % 900,
            }


@pytest.fixture
def many(tmp_path: Path) -> Path:
    file = tmp_path / "many.ndjson"
    file.write_text("".join(json.dumps(one) + "\n" for one in messages()))
    return file


def timed(page: Page, step: str) -> float:
    """Return the milliseconds until the page has drawn what a step changed."""
    return float(
        page.js(
            f"(async () => {{ const start = performance.now(); {step};"
            " await new Promise(r => setTimeout(r)); return performance.now() - start; })()"
        )
    )


def test_ten_thousand_exchanges_scroll_filter_and_open_quickly(page: Page, many: Path) -> None:
    page.give_file("import-file", many)
    page.see("offline", "20,000 messages", 30)
    count = "document.querySelector('.history').dataset.count"
    page.until(f"{count} === '{EXCHANGES}'", "all are there", 30)
    box = "document.querySelector('[data-testid=history]')"
    field = "document.querySelector('[data-testid=filter]')"
    steps = {
        "scroll": f"{box}.scrollTop = 9e4; {box}.dispatchEvent(new Event('scroll'))",
        "filter": f"{field}.value = 'word9999'; {field}.dispatchEvent(new Event('input'))",
        "field": f"{field}.value = 'duration:>890'; {field}.dispatchEvent(new Event('input'))",
        "clear": f"{field}.value = ''; {field}.dispatchEvent(new Event('input'))",
        "open": f"{box}.querySelector('.row').click()",
        "key": f"{box}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'End'}}))",
    }
    for name, step in steps.items():
        logger.info("%s of 10,000 exchanges: %.1f ms", name, timed(page, step))
        assert page.js(f"{box}.querySelectorAll('.row').length") <= MOST_ROWS_IN_PAGE, name
        assert page.js("document.querySelectorAll('*').length") <= MOST_NODES, name
    assert page.js(f"{box}.querySelector('.row[aria-selected=true]').ariaPosInSet") == str(
        EXCHANGES
    )


def test_a_result_of_five_megabytes_is_cut_and_shown_whole_on_demand(
    page: Page, tmp_path: Path
) -> None:
    rows = list(islice(messages(), 2))
    text = "Zürich 😀 " * 500_000
    rows[1]["content"]["result"]["content"][0]["text"] = text
    file = tmp_path / "large.ndjson"
    file.write_text("\n".join(json.dumps(one) for one in rows))
    page.give_file("import-file", file)
    page.see("offline", "2 messages", 30)
    page.click_row("history", "tools/call")
    page.see("entry", "Show all")
    assert len(page.js("document.querySelector('.entry').innerText")) < 60_000
    took = timed(page, "[...document.querySelectorAll('.more button')][0].click()")
    shown = page.js("[...document.querySelectorAll('.entry pre')].at(-1).textContent.length")
    logger.info("milliseconds to show 5 MB: %.1f", took)
    assert shown > 5_000_000
