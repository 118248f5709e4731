"""JSON-RPC on bytes: what is refused, what is tolerated (security reference P08, P11, P13)."""

from __future__ import annotations

import json

import pytest

from connectors.upstream import jsonrpc
from connectors.upstream.jsonrpc import IdMatch, Kind, MalformedError
from mcphub.core.errors import InvalidInputError, RpcError
from mcphub.core.types import JSONObject, JSONValue

HUGE_INTEGER = b'{"jsonrpc":"2.0","id":1,"result":{"n":' + b"9" * 5000 + b"}}"


def nested(depth: int) -> bytes:
    return b'{"result":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"nope",
        b'{"result":',
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
        b'"text"',
        b'{"result":{"n":NaN}}',
        b'{"result":{"n":-Infinity}}',
        b'{"result":{"n":1e400}}',
        b'{"result":{"t":"\xff"}}',
        HUGE_INTEGER,
        nested(65),
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=range(14),
)
def test_p11_p13_bytes_that_are_no_message_are_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        jsonrpc.parse(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'\xef\xbb\xbf{"id":1}', {"id": 1}),
        (b' {"id":1}\r\n', {"id": 1}),
        (b'{"id":1,"id":2}', {"id": 2}),
        (b'{"t":"\\ud800 \\u0000"}', {"t": "\ud800 \0"}),
        (b'{"n":1e300}', {"n": 1e300}),
    ],
)
def test_p11_odd_json_survives(raw: bytes, message: JSONObject) -> None:
    assert jsonrpc.parse(raw) == message


def test_p11_depth_is_counted_in_containers_not_in_brackets_of_text() -> None:
    assert jsonrpc.parse(nested(64))
    assert jsonrpc.parse(json.dumps({"text": "{[" * 500}).encode())
    assert jsonrpc.parse(json.dumps({"wide": [[]] * 500}).encode())
    assert jsonrpc.parse(nested(200), max_depth=jsonrpc.LISTING_DEPTH)


def test_lone_surrogates_are_sent_as_escapes() -> None:
    assert jsonrpc.encode({"t": "\ud800"}) == b'{"t":"\\ud800"}'
    assert jsonrpc.encode({"t": "é"}) == '{"t":"é"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**5000], ids=range(3))
def test_value_that_json_cannot_hold_is_the_callers_fault(value: float) -> None:
    with pytest.raises(InvalidInputError):
        jsonrpc.encode({"n": value})


@pytest.mark.parametrize(
    ("got", "match"),
    [
        (7, IdMatch.EXACT),
        ("7", IdMatch.LOOSE),
        (7.0, IdMatch.LOOSE),
        (8, IdMatch.OTHER),
        ("07", IdMatch.OTHER),
        (True, IdMatch.OTHER),
        (None, IdMatch.OTHER),
        ([7], IdMatch.OTHER),
        ({"id": 7}, IdMatch.OTHER),
    ],
)
def test_p08_answer_must_carry_the_asked_id(got: JSONValue, match: IdMatch) -> None:
    assert jsonrpc.match_id(7, got) is match


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"id": 1, "method": "ping"}, Kind.REQUEST),
        ({"id": "a", "method": "ping"}, Kind.REQUEST),
        ({"id": None, "method": "ping"}, Kind.NOTIFICATION),
        ({"method": "ping"}, Kind.NOTIFICATION),
        ({"id": 1, "result": {}}, Kind.ANSWER),
        ({"id": None, "error": {}}, Kind.ANSWER),
        ({"method": 5}, Kind.INVALID),
        ({}, Kind.INVALID),
    ],
)
def test_message_is_classified_by_its_members(message: JSONObject, kind: Kind) -> None:
    assert jsonrpc.kind_of(message) is kind


@pytest.mark.parametrize(
    "error", ["text", 5, None, [], {}, {"code": "x"}, {"code": True}, {"code": 1.5}]
)
def test_error_of_the_wrong_shape_is_malformed(error: JSONValue) -> None:
    with pytest.raises(MalformedError):
        jsonrpc.error_of({"error": error})


def test_null_error_beside_a_result_is_none() -> None:
    assert jsonrpc.error_of({"error": None, "result": {}}) is None


def test_error_keeps_code_message_and_data() -> None:
    found = jsonrpc.error_of({"error": {"code": -1, "message": "m", "data": [1]}})
    assert found == RpcError(code=-1, message="m", data=[1])


@pytest.mark.parametrize("result", [[], "x", None, 1])
def test_f19_result_that_is_no_object_is_malformed(result: JSONValue) -> None:
    with pytest.raises(MalformedError):
        jsonrpc.result_of({"result": result})
