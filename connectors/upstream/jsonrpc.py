"""JSON-RPC 2.0 on bytes: strict about what could mislead us, tolerant about harmless habits."""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import NoReturn, TypeGuard

from mcphub.core.errors import InvalidInputError, RpcError
from mcphub.core.types import JSONObject, JSONValue

MAX_DEPTH = 64
LISTING_DEPTH = 256
"""A listing may be deeper: one deep schema must not hide the tools beside it (split_listing)."""

BOM = b"\xef\xbb\xbf"


class MalformedError(ValueError):
    """The bytes are no JSON-RPC message; the text says why and holds nothing of them."""


class Kind(Enum):
    """What a message is by the members it has (JSON-RPC 2.0 §4, §5)."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    ANSWER = "answer"
    INVALID = "invalid"


class IdMatch(Enum):
    """How the id of an answer relates to the id that was asked."""

    EXACT = "exact"
    LOOSE = "loose"
    OTHER = "other"


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """Return the number; one that overflows would become Infinity, which is no JSON."""
    number = float(text)
    if math.isinf(number):
        raise MalformedError("a number out of range")
    return number


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ascii_encoder = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def encode(message: JSONObject) -> bytes:
    """Return the message as UTF-8; lone surrogates travel as escapes.

    Raises InvalidInputError for values that JSON cannot hold.
    """
    try:
        text = _encoder.encode(message)
        return text.encode()
    except UnicodeEncodeError:
        return _ascii_encoder.encode(message).encode()
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError("The parameters hold a value that JSON cannot express.") from exc


def parse(raw: bytes | bytearray, *, max_depth: int = MAX_DEPTH) -> JSONObject:
    """Return the one message in `raw`. Raises MalformedError; a batch is refused (2025-06-18)."""
    if raw[:3] == BOM:
        raw = raw[3:]
    try:
        text = raw.decode()
    except UnicodeDecodeError as exc:
        raise MalformedError("not UTF-8") from exc
    try:
        value = _decoder.decode(text)
    except MalformedError:
        raise
    except RecursionError as exc:
        raise MalformedError("nested too deep") from exc
    except ValueError as exc:
        raise MalformedError("not JSON") from exc
    if not isinstance(value, dict):
        raise MalformedError("a batch" if isinstance(value, list) else "not an object")
    if raw.count(b"{") + raw.count(b"[") > max_depth and is_deeper(value, max_depth):
        raise MalformedError("nested too deep")
    return value


def is_deeper(value: JSONValue, limit: int) -> bool:
    """Whether containers are nested in more than `limit` levels; never recurses."""
    level: list[JSONValue] = [value]
    for _ in range(limit):
        level = [
            child
            for container in level
            for child in (
                container.values()
                if isinstance(container, dict)
                else container
                if isinstance(container, list)
                else ()
            )
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def kind_of(message: JSONObject) -> Kind:
    if isinstance(message.get("method"), str):
        return Kind.REQUEST if _is_id(message.get("id")) else Kind.NOTIFICATION
    if "result" in message or "error" in message:
        return Kind.ANSWER
    return Kind.INVALID


def match_id(asked: int, got: JSONValue) -> IdMatch:
    """Compare ids; some servers answer a number by its string form or as a float."""
    if isinstance(got, bool):
        return IdMatch.OTHER
    if isinstance(got, int):
        return IdMatch.EXACT if got == asked else IdMatch.OTHER
    if isinstance(got, float):
        return IdMatch.LOOSE if got == asked else IdMatch.OTHER
    return IdMatch.LOOSE if got == str(asked) else IdMatch.OTHER


def error_of(message: JSONObject) -> RpcError | None:
    """Return the error of an answer. Raises MalformedError when it has none of the right shape."""
    error = message.get("error")
    if error is None and "result" in message:
        return None
    if not isinstance(error, dict):
        raise MalformedError("an error that is no object")
    code = error.get("code")
    if isinstance(code, bool) or not isinstance(code, int):
        raise MalformedError("an error without a code")
    text = error.get("message")
    return RpcError(
        code=code, message=text if isinstance(text, str) else "", data=error.get("data")
    )


def result_of(message: JSONObject) -> JSONObject:
    """Return the result of an answer without error. Raises MalformedError: not an object."""
    result = message.get("result")
    if not isinstance(result, dict):
        raise MalformedError("a result that is no object")
    return result


def params_of(message: JSONObject) -> JSONObject:
    """Return the params of a request or notification; anything but an object counts as none."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _is_id(value: JSONValue) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def request(request_id: int, method: str, params: JSONObject | None) -> JSONObject:
    message: JSONObject = {"jsonrpc": "2.0", "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def notification(method: str, params: JSONObject | None) -> JSONObject:
    message: JSONObject = {"jsonrpc": "2.0", "method": method}
    if params:
        message["params"] = params
    return message


def success(request_id: JSONValue, result: JSONObject) -> JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: JSONValue, error: RpcError) -> JSONObject:
    body: JSONObject = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request_id, "error": body}
