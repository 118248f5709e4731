"""One bad answer of a server fails that call with its code; neighbours, session and worker live."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from connectors.models import Connection
from mcphub.core.types import JSONObject
from tests.factories import unique
from tests.fakes.hostile import (
    EndlessCursor,
    Hostile,
    ManyTools,
    OneBrokenTool,
    PoliteShop,
    Refusing,
    Shop,
    tool,
)
from tests.fakes.raw_server import RawServer, serving_in_thread
from tests.live.api import Api
from tests.live.newcomer import newcomer_at
from tests.live.stack import RunningHub

pytestmark = pytest.mark.live

DEADLINE_MS = 1500
SLACK_SECONDS = 1.5
BODY_CAP = 8 << 20
WORKERS = ("worker1", "worker2")
FAILURES = {
    "hang": (504, "timeout", "outcome_unknown"),
    "drip_headers": (504, "timeout", "outcome_unknown"),
    "drip_body": (504, "timeout", "outcome_unknown"),
    "drip_comments": (504, "timeout", "outcome_unknown"),
    "reset": (502, "upstream_unreachable", "outcome_unknown"),
    "garbage": (502, "upstream_unreachable", "outcome_unknown"),
    "other_id": (502, "protocol_error", "failed"),
    "invalid_json": (502, "protocol_error", "failed"),
    "web_page": (502, "not_mcp_endpoint", "failed"),
    "big_body": (502, "response_too_large", "failed"),
    "big_event": (502, "response_too_large", "failed"),
    "gzip_bomb": (502, "encoding_refused", "failed"),
    "redirect": (502, "redirect_refused", "failed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The hub, connected to one hostile server; `other` is a server that nobody may reach."""

    hub: RunningHub
    api: Api
    slug: str
    server: Hostile
    other: RawServer

    def call(self, name: str, **fields: Any) -> tuple[httpx.Response, float]:
        started = time.monotonic()
        response = self.api.call(self.slug, name, **fields)
        return response, time.monotonic() - started

    def worker_pid(self) -> int:
        """Process id of the worker that holds the session."""
        return self.hub.pid(f"worker{holder_of(self.slug)[1]}")


def holder_of(slug: str) -> str:
    return Connection.unscoped.get(slug=slug).held_by


@pytest.fixture(scope="module")
def site(stack: RunningHub, django_db_blocker: Any) -> Iterator[Site]:
    with ExitStack() as running, django_db_blocker.unblock():
        other = running.enter_context(serving_in_thread(RawServer()))
        server = Hostile(elsewhere=other.url)
        running.enter_context(serving_in_thread(server))
        api, slug = Api(newcomer_at(stack).http), unique("bad")[:24]
        api.connected(slug, server.url)
        yield Site(hub=stack, api=api, slug=slug, server=server, other=other)


def pids(hub: RunningHub) -> dict[str, int]:
    return {name: hub.pid(name) for name in WORKERS}


def memory(pid: int, field: str) -> int:
    """A figure of /proc/<pid>/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


@contextmanager
def unharmed(site: Site) -> Iterator[None]:
    """Session, connection and workers are the same after the block, and the session works."""
    before = pids(site.hub), holder_of(site.slug)
    yield
    assert site.api.text(site.slug, "good") == "ok"
    assert site.api.server(site.slug)["connectionState"] == "connected"
    assert (pids(site.hub), holder_of(site.slug)) == before
    assert site.server.counts["POST initialize"] == 1


def both(site: Site, bad: str, **fields: Any) -> tuple[httpx.Response, float, httpx.Response]:
    """Call the bad tool, and `good` while it runs; the good one is not held up."""
    with ThreadPoolExecutor(2) as threads:
        asked = threads.submit(site.call, bad, **fields)
        good, seconds = threads.submit(site.call, "good").result()
        response, bad_seconds = asked.result()
    assert seconds < SLACK_SECONDS
    return response, bad_seconds, good


@pytest.mark.parametrize("name", FAILURES)
def test_a_bad_answer_fails_its_own_call_in_time_and_nothing_else(site: Site, name: str) -> None:
    status, code, call_status = FAILURES[name]
    with unharmed(site):
        response, seconds, good = both(site, name, timeoutMs=DEADLINE_MS)
    problem = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    assert problem["callStatus"] == call_status
    assert response.headers["content-type"] == "application/problem+json"
    assert good.json()["content"][0]["text"] == "ok"
    assert seconds < DEADLINE_MS / 1000 + SLACK_SECONDS
    stored = site.api.get(f"/calls/{problem['callId']}")
    assert (stored["status"], stored["problem"]["code"]) == (call_status, code)
    assert site.other.requests == []


@pytest.mark.parametrize("name", ["big_body", "big_event", "gzip_bomb"])
def test_an_endless_body_does_not_fill_the_memory_of_the_worker(site: Site, name: str) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("needs the peak memory figures of Linux")
    pid = site.worker_pid()
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM starts again
    before = memory(pid, "VmRSS")
    with unharmed(site):
        response, _ = site.call(name, timeoutMs=20_000)
    assert response.status_code == 502
    assert memory(pid, "VmHWM") - before < 3 * BODY_CAP


def test_a_flood_of_notifications_does_not_hold_up_the_answer(site: Site) -> None:
    with unharmed(site):
        response, seconds, good = both(site, "flood", timeoutMs=20_000)
    assert response.status_code == 200, response.text
    assert response.json()["content"][0]["text"] == "flooded"
    assert good.status_code == 200
    assert seconds < 10


@pytest.mark.parametrize(("name", "code"), [("elicit", -32602), ("sample", -32601)])
def test_a_bad_question_and_one_that_nobody_offered_are_refused(
    site: Site, name: str, code: int
) -> None:
    with unharmed(site):
        response, _, _ = both(site, name, timeoutMs=10_000)
    assert response.status_code == 200, response.text
    assert f'"code": {code}' in response.json()["content"][0]["text"]


# --- servers that list badly


@pytest.fixture
def api(stack: RunningHub) -> Api:
    return Api(newcomer_at(stack).http)


@contextmanager
def connected(api: Api, server: RawServer) -> Iterator[str]:
    slug = unique("list")[:24]
    with serving_in_thread(server):
        api.connected(slug, server.url)
        yield slug


def tools_of(api: Api, slug: str) -> Mapping[str, Any]:
    listing: dict[str, Any] = api.get(f"/servers/{slug}/tools")
    return listing


def test_five_thousand_tools_are_cut_and_the_list_says_so(api: Api) -> None:
    with connected(api, ManyTools()) as slug:
        listing = tools_of(api, slug)
        assert len(listing["tools"]) == 2000
        assert listing["isComplete"] is False
        assert api.text(slug, "tool_1999") == "ok"
        assert api.call(slug, "tool_2000").json()["code"] == "unknown_tool"


def test_an_endless_cursor_ends_at_the_page_cap_and_the_list_says_so(api: Api) -> None:
    server = EndlessCursor()
    with connected(api, server) as slug:
        listing = tools_of(api, slug)
        assert len(listing["tools"]) == server.counts["POST tools/list"] == 50
        assert listing["isComplete"] is False
        assert api.text(slug, "tool_49") == "ok"


def test_one_broken_tool_is_listed_with_its_reason_and_hides_no_other(api: Api) -> None:
    with connected(api, OneBrokenTool()) as slug:
        listing = tools_of(api, slug)
        assert [each["name"] for each in listing["tools"]] == ["echo", "last"]
        assert [(each["name"], each["reason"]) for each in listing["problems"]] == [
            ("broken", "input_schema_missing"),
            ("", "not_an_object"),
        ]
        assert api.text(slug, "last") == "ok"
        assert api.call(slug, "broken").json()["code"] == "unknown_tool"


def test_a_schema_with_a_regex_bomb_delays_no_call_and_is_told_as_unchecked(api: Api) -> None:
    server = RawServer()
    bomb: JSONObject = {
        "type": "object",
        "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}},
    }
    server.tools = [tool("bomb", bomb), tool("good")]  # type: ignore[misc]  # of this server only
    with connected(api, server) as slug, ThreadPoolExecutor(2) as threads:
        asked = threads.submit(api.call, slug, "bomb", {"text": "a" * 40 + "!"})
        good = threads.submit(api.call, slug, "good").result()
        started = time.monotonic()
        response = asked.result()
        assert time.monotonic() - started < 3
        assert (good.status_code, response.status_code) == (200, 200)
        assert response.headers["Mcphub-Arguments"] == "unchecked; reason=too_slow"


def test_a_remote_schema_is_never_fetched(api: Api) -> None:
    server = RawServer()
    with serving_in_thread(RawServer()) as canary:
        item: JSONObject = {"$ref": f"{canary.url}/schema.json"}
        remote: JSONObject = {"type": "object", "properties": {"a": item}}
        server.tools = [tool("remote", remote)]  # type: ignore[misc]  # of this server only
        with connected(api, server) as slug:
            response = api.call(slug, "remote", {"a": 1})
        assert response.status_code == 200, response.text
        assert response.headers["Mcphub-Arguments"] == "unchecked; reason=unresolved_reference"
        assert server.of("tools/call")[0].arguments == {"a": 1}
        assert canary.requests == []


@pytest.mark.parametrize("shop", [Shop(), PoliteShop()], ids=["refuses POST", "answers POST"])
def test_a_web_page_is_told_to_be_no_mcp_server(api: Api, shop: Shop) -> None:
    slug = unique("shop")[:24]
    with serving_in_thread(shop):
        api.add_server(slug, shop.url)
        server = api.connect(slug)
    assert server["connectionState"] == "error"
    assert server["lastError"]["code"] == "not_mcp_endpoint"
    assert server["lastError"]["retryable"] is False
    assert api.call(slug, "echo").json()["code"] == "not_connected"


def test_a_server_without_any_method_ends_in_an_error_with_the_code_of_its_refusal(
    api: Api,
) -> None:
    slug = unique("mute")[:24]
    with serving_in_thread(Refusing()) as server:
        api.add_server(slug, server.url)
        seen = api.connect(slug)
    assert seen["connectionState"] == "error"
    assert (seen["lastError"]["code"], seen["lastError"]["rpcCode"]) == ("protocol_error", -32601)
