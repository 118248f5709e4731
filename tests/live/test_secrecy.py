"""What a caller, an operator and a server tell the hub reaches only those whom it concerns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from django.apps import apps
from redis import Redis

from tests.factories import unique
from tests.fakes.raw_server import RawServer, Request, Wire, result, serving_in_thread, text_result
from tests.live.api import Api
from tests.live.newcomer import newcomer_at
from tests.live.stack import RunningHub

pytestmark = pytest.mark.live

ALLOWED = {
    *("accept", "accept-encoding", "content-length", "content-type", "host", "user-agent"),
    *("mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "x-api-key"),
    *("connection", "traceparent"),
}
KEY, SESSION, COOKIE, ARGUMENT = (f"sentinel-{n}-0123456789" for n in ("key", "sid", "jar", "arg"))
SECRET_ARGUMENT = {
    "type": "object",
    "properties": {"pin": {"type": "string", "writeOnly": True}},
}


class Revealing(RawServer):
    """Answers with the headers that it was sent."""

    session_id = SESSION
    tools: ClassVar[list[Any]] = [{"name": "reveal", "inputSchema": SECRET_ARGUMENT}]

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, text_result(json.dumps(request.headers))))


@pytest.fixture
def api(stack: RunningHub) -> Api:
    return Api(newcomer_at(stack).http)


def call(api: Api, url: str) -> dict[str, str]:
    """Connect to the server and call its tool with everything that could go astray."""
    slug = unique("reveal")[:24]
    api.connected(slug, url, auth={"type": "headers", "headers": {"X-Api-Key": KEY}})
    headers = {"Cookie": f"mcphub={COOKIE}", "X-Forwarded-For": "203.0.113.9", "X-Own": COOKIE}
    answer = api.call(slug, "reveal", {"pin": ARGUMENT}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, str] = json.loads(answer.json()["content"][0]["text"])
    return found


def test_g05_a_server_sees_no_header_of_the_hubs_own_caller(api: Api) -> None:
    with serving_in_thread(Revealing()) as server:
        seen = call(api, server.url)
    assert seen.keys() <= ALLOWED, seen.keys() - ALLOWED
    assert (seen["x-api-key"], seen["mcp-session-id"]) == (KEY, SESSION)
    assert api.http.headers["Authorization"].removeprefix("Bearer ") not in str(seen)
    assert seen["host"] == server.url.split("/")[2]


def test_g07_no_secret_is_stored_logged_or_announced_in_clear(api: Api, stack: RunningHub) -> None:
    with serving_in_thread(Revealing()) as server:
        call(api, server.url)
        for path in ("/traces", "/calls", "/servers"):
            assert secrets_in(api.http.get(f"/api/v1{path}").text) == []
    places = [*stored(), *kept_in_redis(), *logged(stack)]
    assert sum(map(len, places)) > 10_000
    assert [found for text in places if (found := secrets_in(text))] == []


def secrets_in(text: str) -> list[str]:
    return [each for each in (KEY, SESSION, COOKIE, ARGUMENT) if each in text]


def stored() -> Iterator[str]:
    for model in apps.get_models():
        for row in model._base_manager.values():
            yield repr(row)


def kept_in_redis() -> Iterator[str]:
    client = Redis.from_url(os.environ["MCPHUB_REDIS_URL"])
    for key in client.scan_iter():
        yield (client.dump(key) or b"").decode("latin-1")
    client.close()


def logged(hub: RunningHub) -> Iterator[str]:
    for path in hub.home.glob("logs/*.log"):
        yield path.read_text(errors="replace")
