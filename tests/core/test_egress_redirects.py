"""Redirects: followed within the origin with the same method; nothing leaves the origin."""

from __future__ import annotations

import asyncio

import pytest

from mcphub.core.egress import EgressClient, EgressRequest, RedirectRefusedError
from tests.core.egress_requests import get, post
from tests.core.raw_server import raw_server, response


def moved(status: int, location: str) -> bytes:
    return response(b"moved", status=status, headers=(f"Location: {location}",))


@pytest.mark.parametrize("status", [307, 308])
async def test_a_post_follows_a_redirect_that_keeps_method_and_origin(
    client: EgressClient, status: int
) -> None:
    async with raw_server(moved(status, "/mcp/?a=1#x"), response(b"there")) as server:
        answer = await client.fetch(post(server))
    assert (answer.body, answer.url) == (b"there", f"{server.url}/?a=1")
    assert [head.split(" HTTP")[0] for head in server.requests] == ["POST /mcp", "POST /mcp/?a=1"]
    assert server.connections == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_get_follows_every_redirect_within_the_origin(
    client: EgressClient, status: int
) -> None:
    async with raw_server(moved(status, "x"), response(b"there")) as server:
        assert (await client.fetch(get(server))).body == b"there"


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_post_is_never_turned_into_a_get(client: EgressClient, status: int) -> None:
    async with raw_server(moved(status, "/x")) as server:
        with pytest.raises(RedirectRefusedError):
            await client.fetch(post(server))
    assert len(server.requests) == 1


async def test_the_sixth_redirect_is_refused(client: EgressClient) -> None:
    async with raw_server(moved(307, "/mcp")) as server:
        with pytest.raises(RedirectRefusedError):
            await client.fetch(post(server))
    assert len(server.requests) == 6


async def test_a_request_may_refuse_every_redirect(client: EgressClient) -> None:
    async with raw_server(moved(307, "/x")) as server:
        with pytest.raises(RedirectRefusedError):
            await client.fetch(EgressRequest(method="GET", url=server.url, may_redirect=False))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [302, 307])
async def test_no_request_and_no_credential_follows_to_another_origin(
    client: EgressClient, status: int
) -> None:
    async with raw_server() as canary, raw_server(moved(status, canary.url)) as server:
        for request in (post(server), get(server)):
            with pytest.raises(RedirectRefusedError):
                await client.fetch(request)
    assert (canary.connections, canary.requests) == (0, [])


@pytest.mark.parametrize(
    "location",
    ["http://localhost:{port}/", "https://127.0.0.1:{port}/", "//evil.test/", "http://[::1",
     "http://u@127.0.0.1:{port}/", "file:///etc/passwd", "http://127.0.0.1\\@evil.test/"],
)  # fmt: skip
async def test_a_redirect_to_a_place_that_only_looks_the_same_is_refused(
    client: EgressClient, location: str
) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(moved(307, location.format(port=server.port)))

    async with raw_server(answer) as server:
        with pytest.raises(RedirectRefusedError):
            await client.fetch(post(server))
    assert len(server.requests) == 1
