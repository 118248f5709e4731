"""What Django gets to see of a body, however the client sends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from django.core.asgi import get_asgi_application

from mcphub.whole_bodies import WholeBodies
from tests.problems import problem
from tests.world import World

CURRENT = "/api/v1/tenants/current"


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def client_of(behind: Any) -> httpx.AsyncClient:
    application: Any = WholeBodies(behind)
    transport = httpx.ASGITransport(app=application)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")


@pytest.mark.django_db(transaction=True)
async def test_a_body_in_chunks_without_a_length_counts_like_any_other(world: World) -> None:
    headers = {**world.alice.headers, "Content-Type": "application/json"}
    async with client_of(get_asgi_application()) as client:
        body = pieces(b'{"name": ', b'"Changed in chunks"}')
        answer = await client.patch(CURRENT, content=body, headers=headers)

    assert (answer.status_code, answer.json()["name"]) == (200, "Changed in chunks")


async def test_a_body_over_the_limit_never_gets_to_django(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    reached: list[Any] = []

    async def behind(*arguments: Any) -> None:
        reached.append(arguments)

    async with client_of(behind) as client:
        endless = pieces(*[b"x" * 400] * 1000)
        answer = await client.post(CURRENT, content=endless)

    assert (answer.status_code, answer.json(), reached) == (
        413,
        problem("body_too_large", CURRENT, "The body may have 1000 bytes."),
        [],
    )


async def test_after_the_body_the_leaving_of_the_client_is_heard() -> None:
    arriving: list[Any] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"c"},
        {"type": "http.disconnect"},
    ]
    seen: list[Any] = []

    async def receive() -> Any:
        return arriving.pop(0)

    async def behind(scope: Any, receive: Any, _send: Any) -> None:
        seen.extend([scope["headers"], await receive(), await receive()])

    async def send(_message: Any) -> None:
        raise AssertionError("nothing is answered")

    scope = {"type": "http", "headers": [(b"transfer-encoding", b"chunked"), (b"x", b"y")]}
    await WholeBodies(behind)(scope, receive, send)

    assert seen == [
        [(b"x", b"y"), (b"content-length", b"3")],
        {"type": "http.request", "body": b"abc", "more_body": False},
        {"type": "http.disconnect"},
    ]
