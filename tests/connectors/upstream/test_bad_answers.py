"""One bad answer fails one call, with a stable code, and never the session (R10, R16, P01-P13)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from pytest_django import Settings

from mcphub.core.errors import (
    AuthorizationNeededError,
    ProtocolError,
    UpstreamError,
    UpstreamTimeoutError,
)
from mcphub.core.types import JSONObject, JSONValue
from tests.connectors.upstream.support import (
    Listener,
    bearer,
    call_of,
    connect_failure,
    failure_of,
    talking_to,
    text_of,
)
from tests.fakes.raw_server import (
    RawServer,
    Request,
    Wire,
    error,
    event,
    head,
    result,
    serving,
    text_result,
)

Behaviour = Callable[[Request, Wire], Awaitable[None]]
OK = text_result()


class OneBad(RawServer):
    """Behaves badly when the tool is `bad`, else well."""

    def __init__(self, bad: Behaviour) -> None:
        super().__init__()
        self._bad = bad

    async def on_call(self, request: Request, wire: Wire) -> None:
        if request.params["name"] == "bad":
            await self._bad(request, wire)
        else:
            await wire.answer(result(request.id, text_result()))


def sends(raw: bytes) -> Behaviour:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.send(raw)

    return behave


def answers(body: JSONValue | bytes, content_type: str = "application/json") -> Behaviour:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.answer(body, content_type=content_type)

    return behave


def streams(*events: bytes) -> Behaviour:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.open_stream()
        for piece in events:
            await wire.send(piece)

    return behave


def refuses(status: int, body: JSONValue | bytes = b"", **headers: str) -> Behaviour:
    async def behave(request: Request, wire: Wire) -> None:
        pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
        await wire.answer(body, status=status, headers=pairs)

    return behave


async def answers_other_id(request: Request, wire: Wire) -> None:
    await wire.answer(result(int(str(request.id)) + 1, text_result("wrong")))


async def streams_other_id(request: Request, wire: Wire) -> None:
    await wire.open_stream()
    await wire.event(result(int(str(request.id)) + 1, text_result("wrong")))


async def resets(request: Request, wire: Wire) -> None:
    wire.reset()


async def truncates(request: Request, wire: Wire) -> None:
    await wire.send(head(200, "application/json", length=500) + b'{"jsonrpc":"2.0"')


async def streams_then_resets(request: Request, wire: Wire) -> None:
    await wire.open_stream()
    await wire.send(b": here\n\n")
    wire.reset()


async def nests(request: Request, wire: Wire) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    await wire.answer(b'{"jsonrpc":"2.0","id":%d,"result":{"a":%s}}' % (int(str(request.id)), deep))


BAD: dict[str, tuple[Behaviour, str, bool]] = {
    "E15 garbage status line": (sends(b"\0\1garbage\r\n\r\n"), "upstream_unreachable", True),
    "E15 reset": (resets, "upstream_unreachable", True),
    "E10 closed before the headers": (sends(b""), "upstream_unreachable", True),
    "E10 closed inside a JSON body": (truncates, "upstream_unreachable", True),
    "E10 closed inside a stream": (streams(b": x\n\n"), "upstream_unreachable", True),
    "E10 reset inside a stream": (streams_then_resets, "upstream_unreachable", True),
    "R16 invalid JSON": (answers(b"{nope"), "protocol_error", True),
    "R16 empty answer": (answers(b""), "protocol_error", True),
    "R16 batch": (answers([result(1, {})]), "protocol_error", True),
    "R16 text": (answers("text"), "protocol_error", True),
    "E26 other id in JSON": (answers_other_id, "protocol_error", True),
    "E26 other id in a stream": (streams_other_id, "protocol_error", True),
    "F19 result is a list": (answers(result(1, [])), "protocol_error", True),
    "P13 invalid UTF-8": (answers(b'{"a":"\xff"}'), "protocol_error", True),
    "P13 invalid JSON event": (streams(event(b"{nope")), "protocol_error", True),
    "P11 nested 100,000 deep": (nests, "protocol_error", True),
    "a web page": (answers(b"<html>", "text/html"), "not_mcp_endpoint", False),
    "no answer but a request": (
        answers({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        "protocol_error",
        True,
    ),
    "500": (refuses(500), "http_500", True),
    "429": (refuses(429), "http_429", False),
    "415": (refuses(415), "http_415", False),
    "302 without a place": (refuses(302), "http_302", True),
    "P02 gzip": (refuses(200, b"\x1f\x8b", content_encoding="gzip"), "encoding_refused", True),
    "E20 redirect to another origin": (
        refuses(307, location="http://127.0.0.2:1/mcp"),
        "redirect_refused",
        True,
    ),
}


@pytest.mark.parametrize(("bad", "code", "was_sent"), BAD.values(), ids=BAD.keys())
async def test_bad_answer_fails_its_call_and_neither_neighbour_nor_session(
    bad: Behaviour, code: str, was_sent: bool
) -> None:
    listener = Listener()
    async with talking_to(OneBad(bad), listener) as session, asyncio.timeout(5):
        failed, good = await asyncio.gather(
            failure_of(session, call_of("bad")), session.request(call_of("good"))
        )
        after = await session.request(call_of("good"))
    assert isinstance(failed, UpstreamError)
    assert (failed.problem_code, failed.was_sent) == (code, was_sent)
    assert failed.was_answered is (code != "upstream_unreachable")
    assert (good, after, listener.lost) == (OK, OK, [])


@pytest.mark.parametrize("kind", ["json", "stream", "declared"])
async def test_p01_answer_over_the_cap_is_too_large(kind: str, settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 200_000
    big = b'{"jsonrpc":"2.0","id":%d,"result":{"a":"' + b"x" * 300_000 + b'"}}'

    async def behave(request: Request, wire: Wire) -> None:
        body = big % request.id
        if kind == "json":
            await wire.send(head(200, "application/json") + body)
        elif kind == "declared":
            await wire.send(head(200, "application/json", length=80 << 20))
            await wire.until_gone()
        else:
            await wire.open_stream()
            await wire.event(body)

    async with talking_to(OneBad(behave)) as session:
        assert (await failure_of(session, call_of("bad"))).problem_code == "response_too_large"
        assert await session.request(call_of("good")) == OK


@pytest.mark.parametrize("is_stream", [False, True])
async def test_p03_two_megabyte_result_passes_intact(is_stream: bool) -> None:
    text = "x" * (2 << 20)

    async def behave(request: Request, wire: Wire) -> None:
        answer = result(request.id, text_result(text))
        if is_stream:
            await wire.open_stream()
            await wire.event(answer)
        else:
            await wire.answer(answer)

    async with talking_to(OneBad(behave)) as session:
        assert text_of(await session.request(call_of("bad"))) == text


async def drips_headers(request: Request, wire: Wire) -> None:
    while not await wire.until_gone(0.05):
        await wire.send(b"H")


async def drips_body(request: Request, wire: Wire) -> None:
    await wire.send(head(200, "application/json", length=5000))
    while not await wire.until_gone(0.05):
        await wire.send(b" ")


async def drips_comments(request: Request, wire: Wire) -> None:
    await wire.open_stream()
    while not await wire.until_gone(0.05):
        await wire.send(b": still here\n\n")


async def stays_silent(request: Request, wire: Wire) -> None:
    await wire.until_gone()


@pytest.mark.parametrize("drip", [drips_headers, drips_body, drips_comments, stays_silent])
async def test_e11_p04_deadline_is_absolute_whatever_drips(drip: Behaviour) -> None:
    async with talking_to(OneBad(drip)) as session, asyncio.timeout(3):
        slow, good = await asyncio.gather(
            failure_of(session, call_of("bad", 0.4)), session.request(call_of("good"))
        )
        after = await session.request(call_of("good"))
    assert isinstance(slow, UpstreamTimeoutError)
    assert (slow.problem_code, slow.was_sent) == ("timeout", True)
    assert (good, after) == (OK, OK)


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, error(1, -32602, "bad", {"a": 1})), (400, error(None, -32602, "bad", {"a": 1}))],
)
async def test_peer_error_keeps_code_message_and_data(status: int, body: JSONObject) -> None:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.answer({**body, "id": body["id"] and request.id}, status=status)

    async with talking_to(OneBad(behave)) as session:
        failed = await failure_of(session, call_of("bad"))
    assert isinstance(failed, ProtocolError)
    assert (failed.rpc.code, failed.rpc.message, failed.rpc.data) == (-32602, "bad", {"a": 1})


@pytest.mark.parametrize("text", ['"%s"', "%s.0", "%s"])
async def test_p08_string_form_of_the_id_is_accepted(text: str) -> None:
    async def behave(request: Request, wire: Wire) -> None:
        body = '{"jsonrpc":"2.0","id":' + text % request.id + ',"result":' + json.dumps(OK) + "}"
        await wire.answer(body.encode())

    async with talking_to(OneBad(behave)) as session:
        assert await session.request(call_of("bad")) == OK


async def test_r16_duplicate_answers_are_ignored_and_told() -> None:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.send(
            event(result(request.id, text_result("first")))
            + event(result(request.id, text_result("second")))
            + event(result(99, text_result("other")))
        )

    listener = Listener()
    async with talking_to(OneBad(behave), listener) as session:
        assert text_of(await session.request(call_of("bad"))) == "first"
    dropped = [detail["why"] for kind, detail in listener.steps if kind == "answer_dropped"]
    assert dropped == ["duplicate", "other_id"]


async def test_e36_byte_order_mark_before_the_stream_is_skipped() -> None:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.send(b"\xef\xbb\xbf" + event(result(request.id, OK)))

    async with talking_to(OneBad(behave)) as session:
        assert await session.request(call_of("bad")) == OK


async def test_e05_priming_event_comment_and_ping_are_no_answers() -> None:
    async def behave(request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.send(b"id: 1\ndata:\n\n: comment\n\nevent: ping\ndata: now\n\n")
        await wire.event(result(request.id, OK))

    async with talking_to(OneBad(behave)) as session:
        assert await session.request(call_of("bad")) == OK


async def test_f16_unknown_kinds_and_fields_of_a_result_are_kept() -> None:
    odd: JSONObject = {
        "content": [{"type": "video", "x": 1}, {"type": "resource_link", "uri": "a://b"}],
        "structuredContent": {"a": [1, None]},
        "vendor": {"deep": True},
        "isError": True,
        "_meta": {"k": "v"},
    }

    async def behave(request: Request, wire: Wire) -> None:
        await wire.answer(result(request.id, odd))

    async with talking_to(OneBad(behave)) as session:
        assert await session.request(call_of("bad")) == odd


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("99999", 3600.0), ("soon", None)])
async def test_retry_after_is_captured_and_bounded(value: str, seconds: float | None) -> None:
    async with talking_to(OneBad(refuses(429, retry_after=value))) as session:
        assert (await failure_of(session, call_of("bad"))).retry_after == seconds


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credential_carries_the_challenge_and_shows_nothing(status: int) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="x:write"'
    bad = refuses(status, error(1, -1, "secret text"), www_authenticate=challenge)
    async with talking_to(OneBad(bad), headers=bearer("t")) as session:
        failed = await failure_of(session, call_of("bad"))
        assert await session.request(call_of("good")) == OK
    assert isinstance(failed, AuthorizationNeededError)
    assert (failed.challenge, failed.http_status) == (challenge, status)
    assert "secret" not in str(failed)
    assert "scope" not in str(failed)


async def test_upstream_text_of_a_refusal_is_in_no_error() -> None:
    async with talking_to(OneBad(refuses(500, b"secret text"))) as session:
        failed = await failure_of(session, call_of("bad"))
    assert "secret" not in failed.detail


class BadSessionId(RawServer):
    def __init__(self, value: bytes) -> None:
        super().__init__()
        self.session_id = value  # type: ignore[misc]  # a test's server differs in one value


@pytest.mark.parametrize(
    "value", [b"a b", b"\xc3\xa9", b"a\tb", b"x" * 1025, b"a\x7fb"], ids=range(5)
)
async def test_e37_p09_session_id_that_is_no_header_value_is_refused(value: bytes) -> None:
    server = BadSessionId(value)
    async with serving(server):
        failed = await connect_failure(server.url)
    assert failed.problem_code == "bad_session_id"
