"""The outbound client against a server that answers anything."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
from ipaddress import ip_address

import httpcore2
import pytest

from mcphub.core.egress import (
    EgressClient,
    EgressRequest,
    EncodingRefusedError,
    ResponseTooLargeError,
    connections,
    sockets,
)
from mcphub.core.errors import InvalidInputError, UpstreamError, UpstreamTimeoutError
from tests.core.egress_requests import PLENTY, get, post
from tests.core.raw_server import raw_server, response

SHORT = 0.2


async def test_an_answer_arrives_with_status_headers_and_body(client: EgressClient) -> None:
    headers = ("Content-Type: Application/JSON; charset=x", "X-A: 1", "x-a: 2")
    async with raw_server(response(b"{}", status=404, headers=headers)) as server:
        answer = await client.fetch(post(server))
    assert (answer.status, answer.body, answer.content_type) == (404, b"{}", "application/json")
    assert answer.headers["X-a"] == "1, 2"
    assert answer.headers.get_list("X-A") == ["1", "2"]
    assert answer.headers.get("missing") is None
    assert dict(answer.headers)["content-length"] == "2"
    assert len(answer.headers) == 3


async def test_a_request_says_only_what_it_was_given_and_offers_no_compression(
    client: EgressClient,
) -> None:
    async with raw_server() as server:
        given = {"X-One": "1", "Host": "evil", "Accept-Encoding": "gzip", "Cookie": "a=b"}
        await client.fetch(
            EgressRequest(method="POST", url=server.url, headers=given, content=b"12")
        )
    assert server.requests[0].split("\r\n") == [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "Accept-Encoding: identity",
        "X-One: 1",
        "User-Agent: mcphub",
        "Content-Length: 2",
        "",
        "",
    ]


async def test_cookies_are_not_kept(client: EgressClient) -> None:
    async with raw_server(response(headers=("Set-Cookie: a=b",))) as server:
        await client.fetch(get(server))
        await client.fetch(get(server))
    assert "cookie" not in server.requests[1].lower()


async def test_one_connection_serves_consecutive_requests(client: EgressClient) -> None:
    async with raw_server() as server:
        for _ in range(5):
            await client.fetch(post(server))
    assert (server.connections, len(server.requests)) == (1, 5)


async def test_concurrent_requests_do_not_wait_for_each_other(client: EgressClient) -> None:
    everyone = asyncio.Barrier(30)

    async def together(writer: asyncio.StreamWriter) -> None:
        await everyone.wait()
        writer.write(response())

    async with raw_server(together) as server:
        answers = await asyncio.gather(*(client.fetch(post(server)) for _ in range(30)))
    assert [answer.status for answer in answers] == [200] * 30


async def test_a_connection_that_the_server_closed_is_not_used_again(client: EgressClient) -> None:
    async def answer_and_close(writer: asyncio.StreamWriter) -> None:
        writer.write(response())
        await writer.drain()
        writer.close()

    async with raw_server(answer_and_close, response()) as server:
        await client.fetch(post(server))
        await server.ended.wait()
        assert (await client.fetch(post(server))).status == 200
    assert server.connections == 2


async def test_an_idle_connection_is_ended_before_the_server_would(
    client: EgressClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEEP_SECONDS", 0.05)
    async with raw_server() as server:
        await client.fetch(post(server))
        await asyncio.wait_for(server.ended.wait(), PLENTY)


async def test_only_so_many_idle_connections_are_kept_for_an_origin(
    client: EgressClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEEP_PER_ORIGIN", 1)
    everyone = asyncio.Barrier(3)

    async def together(writer: asyncio.StreamWriter) -> None:
        await everyone.wait()
        writer.write(response())

    async with raw_server(together, together, together, response()) as server:
        await asyncio.gather(*(client.fetch(post(server)) for _ in range(3)))
        await asyncio.wait_for(server.ended.wait(), PLENTY)
        await asyncio.gather(client.fetch(post(server)), client.fetch(post(server)))
    assert server.connections == 4


async def test_a_kept_connection_that_dies_unnoticed_says_whether_the_request_left(
    client: EgressClient,
) -> None:
    async with raw_server(response(), reset) as server:
        await client.fetch(post(server))
        with pytest.raises(UpstreamError) as caught:
            await client.fetch(post(server))
    assert (server.connections, caught.value.was_sent) == (1, True)


async def test_a_body_streams_as_it_arrives(client: EgressClient) -> None:
    go_on = asyncio.Event()

    async def in_two_parts(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        await go_on.wait()
        writer.write(b"data: 2\n\n")
        writer.close()

    async with raw_server(in_two_parts) as server, client.stream(get(server)) as answer:
        chunks = answer.aiter_bytes()
        assert await anext(chunks) == b"data: 1\n\n"
        go_on.set()
        assert b"".join([chunk async for chunk in chunks]) == b"data: 2\n\n"


async def test_leaving_a_stream_early_ends_its_connection(client: EgressClient) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nx")

    async with raw_server(endless) as server:
        async with client.stream(get(server)) as answer:
            await anext(answer.aiter_bytes())
        await asyncio.wait_for(server.ended.wait(), PLENTY)


async def test_cancelling_a_request_ends_its_connection(client: EgressClient) -> None:
    arrived = asyncio.Event()

    async def silent(_: asyncio.StreamWriter) -> None:
        arrived.set()

    async with raw_server(silent) as server:
        task = asyncio.create_task(client.fetch(post(server)))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.ended.wait(), PLENTY)


async def test_a_declared_oversized_body_is_refused_unread(client: EgressClient) -> None:
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 83886080\r\n\r\n"
    async with raw_server(huge) as server:
        with pytest.raises(ResponseTooLargeError) as caught:
            await client.fetch(post(server))
        await asyncio.wait_for(server.ended.wait(), PLENTY)
    assert (caught.value.was_sent, caught.value.was_answered) == (True, True)


async def test_an_undeclared_oversized_body_is_refused_at_the_cap(client: EgressClient) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    async with raw_server(endless) as server:
        with pytest.raises(ResponseTooLargeError):
            await client.fetch(post(server, max_bytes=300_000))
        await asyncio.wait_for(server.ended.wait(), PLENTY)
    assert sent < 32 << 20


async def test_a_gzip_bomb_is_refused_unread(client: EgressClient) -> None:
    bomb = gzip.compress(bytes(1 << 20))
    async with raw_server(response(bomb, headers=("Content-Encoding: gzip",))) as server:
        with pytest.raises(EncodingRefusedError):
            await client.fetch(post(server))


async def test_the_identity_encoding_is_no_encoding(client: EgressClient) -> None:
    async with raw_server(response(b"a", headers=("Content-Encoding: identity",))) as server:
        assert (await client.fetch(post(server))).body == b"a"


@pytest.mark.parametrize("count", [400, 5000])
async def test_too_many_header_bytes_are_refused(client: EgressClient, count: int) -> None:
    async with raw_server(response(headers=(f"X-Long: {'a' * 90}",) * count)) as server:
        with pytest.raises(UpstreamError):
            await client.fetch(post(server))


async def hang(_: asyncio.StreamWriter) -> None:
    """Say nothing."""


async def drip(writer: asyncio.StreamWriter, start: bytes, part: bytes) -> None:
    loop = asyncio.get_running_loop()
    writer.write(start)

    def more() -> None:
        if not writer.is_closing():
            writer.write(part)
            loop.call_later(0.01, more)

    more()


async def drip_head(writer: asyncio.StreamWriter) -> None:
    await drip(writer, b"HTTP/1.1 200 OK\r\nX-A: ", b"a")


async def drip_body(writer: asyncio.StreamWriter) -> None:
    await drip(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"a")


async def drip_comments(writer: asyncio.StreamWriter) -> None:
    await drip(writer, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b":\n")


@pytest.mark.parametrize("answer", [hang, drip_head, drip_body, drip_comments])
async def test_the_deadline_is_absolute_and_ends_the_connection(
    client: EgressClient, answer: object
) -> None:
    async with raw_server(answer) as server:  # type: ignore[arg-type]  # one of the functions above
        with pytest.raises(UpstreamTimeoutError) as caught:
            await asyncio.wait_for(client.fetch(post(server, seconds=SHORT)), PLENTY)
        await asyncio.wait_for(server.ended.wait(), PLENTY)
    assert (caught.value.was_sent, caught.value.was_answered) == (True, False)


def force_reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def reset(writer: asyncio.StreamWriter) -> None:
    force_reset(writer)


async def cut_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    writer.close()


BROKEN = [
    reset,
    cut_body,
    b"garbage\r\n\r\n",
    b"HTTP/1.1 abc\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: a\r\n b\x00\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
]


@pytest.mark.parametrize("answer", BROKEN)
async def test_a_broken_answer_fails_that_request_alone(
    client: EgressClient, answer: object
) -> None:
    async with raw_server(answer, response()) as server:  # type: ignore[arg-type]  # mixed list
        with pytest.raises(UpstreamError) as caught:
            await client.fetch(post(server))
        assert (await client.fetch(post(server))).status == 200
    assert (caught.value.problem_code, caught.value.was_sent) == ("upstream_unreachable", True)


async def test_a_refused_connection_says_that_nothing_was_sent(client: EgressClient) -> None:
    async with raw_server() as server:
        pass
    with pytest.raises(UpstreamError) as caught:
        await client.fetch(post(server))
    assert (caught.value.problem_code, caught.value.was_sent) == ("upstream_unreachable", False)


@pytest.mark.parametrize(
    "headers", [{"X-A": "a\r\nX-B: 1"}, {"X A": "1"}, {"X-A": "a\x00"}, {"X-A": "€"}, {"é": "1"}]
)
async def test_a_header_that_would_break_the_message_is_not_sent(
    client: EgressClient, headers: dict[str, str]
) -> None:
    async with raw_server() as server:
        with pytest.raises(InvalidInputError) as caught:
            await client.fetch(EgressRequest(method="GET", url=server.url, headers=headers))
    assert (caught.value.problem_code, caught.value.was_sent) == ("bad_header", False)
    assert server.requests == []


async def test_a_large_request_body_passes_intact(client: EgressClient) -> None:
    async with raw_server() as server:
        body = b"x" * (32 << 20)
        request = EgressRequest(method="POST", url=server.url, content=body)
        assert (await client.fetch(request)).status == 200


async def test_a_slow_reader_of_a_large_answer_gets_all_of_it(client: EgressClient) -> None:
    size = 6 << 20
    async with (
        raw_server(response(bytes(size))) as server,
        client.stream(post(server, max_bytes=size)) as answer,
    ):
        for _ in range(50):  # let the loop fill the connection's buffer
            await asyncio.to_thread(int)
        assert len(await answer.read()) == size


async def test_a_stream_that_is_closed_sends_nothing_and_says_so() -> None:
    async with raw_server() as server:
        stream = await sockets.connect(
            ip_address("127.0.0.1"), server.port, host="127.0.0.1", tls=None
        )
        stream.close()
        await stream.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(httpcore2.WriteError):
            await stream.read(10)
    assert not stream.has_sent
    assert stream.is_stale()


async def test_closing_the_client_ends_open_streams(client: EgressClient) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nx")

    async with raw_server(endless) as server, client.stream(post(server)) as answer:
        chunks = answer.aiter_bytes()
        await anext(chunks)
        await client.aclose()
        with pytest.raises(UpstreamError):
            await anext(chunks)


async def test_a_reset_is_not_taken_for_the_end_of_a_body_without_length(
    client: EgressClient,
) -> None:
    go_on = asyncio.Event()

    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nx")
        await go_on.wait()
        force_reset(writer)

    async with raw_server(cut) as server, client.stream(post(server)) as answer:
        chunks = answer.aiter_bytes()
        await anext(chunks)
        go_on.set()
        with pytest.raises(UpstreamError):
            await anext(chunks)
