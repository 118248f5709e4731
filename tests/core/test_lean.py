"""The lean chain: what it serves, what it leaves to Django, and the headers of every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import path

from mcphub.lean import LeanApplication
from tests.problems import problem


async def echo(request: HttpRequest, word: str) -> HttpResponse:
    return HttpResponse(request.body or word.encode(), content_type="application/json")


async def behind(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b"behind"})


@pytest.fixture
async def web(settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    settings.CORS_ALLOWED_ORIGINS = ["https://app.example"]
    settings.CORS_URLS_REGEX = r"^/hot/"
    view: Any = echo
    lean: Any = LeanApplication(behind, [path("hot/<str:word>", view)], prefixes=("/hot/",))
    transport = httpx.ASGITransport(app=lean)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        yield client


async def test_a_hot_route_is_answered_with_the_security_headers(web: httpx.AsyncClient) -> None:
    answer = await web.post("/hot/x", content=b"[1]")

    assert (answer.status_code, answer.content) == (200, b"[1]")
    assert answer.headers["content-length"] == "3"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_a_head_request_gets_no_body(web: httpx.AsyncClient) -> None:
    answer = await web.head("/hot/word")

    assert (answer.content, answer.headers["content-length"]) == (b"", "4")


@pytest.mark.parametrize("route", ["/cold", "/hot/x/y", "/hot/"])
async def test_everything_else_goes_to_django(web: httpx.AsyncClient, route: str) -> None:
    assert (await web.get(route)).status_code == 299


async def test_other_hosts_are_refused(web: httpx.AsyncClient) -> None:
    answer = await web.get("/hot/x", headers={"Host": "evil.example"})

    assert (answer.status_code, answer.json()) == (400, problem("malformed_request", "/hot/x"))


@pytest.mark.django_db(transaction=True)
async def test_cors_is_closed_but_for_the_listed_origins(web: httpx.AsyncClient) -> None:
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"}
    listed = await web.options("/hot/x", headers={"Origin": "https://app.example", **ask})
    other = await web.get("/hot/x", headers={"Origin": "https://evil.example"})

    assert listed.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-origin" not in other.headers


async def test_a_body_over_the_limit_is_refused_while_it_arrives(
    web: httpx.AsyncClient, settings: Any
) -> None:
    settings.MAX_ARGUMENT_BYTES = 1

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 1000

    answer = await web.post("/hot/x", content=pieces())

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
