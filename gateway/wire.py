"""JSON-RPC as downstream clients speak it: reading messages, and errors of the three planes (pure).

Upstream errors keep code, message and data. The hub's own errors carry `data.code`, the stable
problem code of /api/v1/problems, and `data.detail`, which says what to do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    MODERN_PROTOCOL_VERSIONS,
)

from connectors.upstream.jsonrpc import MAX_DEPTH, encode, failure, is_deeper, success
from mcphub.api.errors import MalformedRequestError
from mcphub.api.parsers import read_json
from mcphub.core.errors import (
    HubError,
    InvalidInputError,
    NotFoundError,
    ProtocolError,
    RpcError,
)
from mcphub.core.types import JSONObject, JSONValue

__all__ = [
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "MODERN_PROTOCOL_VERSIONS",
    "Incoming",
    "Notification",
    "Reply",
    "Request",
    "RpcFault",
    "Unusable",
    "encode",
    "failure",
    "read_body",
    "rpc_error_of",
    "status_of",
    "success",
]

HUB_ERROR = -32010
"""Of the range that JSON-RPC and MCP leave to implementations."""
ID_LENGTH = 1000

STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_REQUIRED_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_PROTOCOL_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""HTTP status of errors in the per-request era (2026-07-28, basic/transports/streamable-http)."""

RequestId: TypeAlias = "str | int"


class RpcFault(Exception):  # noqa: N818  (an error of the JSON-RPC plane, no HubError)
    """The gateway's own answer on the JSON-RPC plane, such as an unknown method."""

    def __init__(self, code: int, message: str, data: JSONValue = None) -> None:
        super().__init__(message)
        self.error = RpcError(code=code, message=message, data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    id: RequestId
    method: str
    params: JSONObject

    @property
    def meta(self) -> JSONObject:
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    method: str
    params: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A client's answer to a request of ours; `error` None: `result` is its result."""

    id: RequestId
    result: JSONObject = field(default_factory=dict)
    error: RpcError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """No message of JSON-RPC; answered with INVALID_REQUEST under `id`."""

    id: RequestId | None
    reason: str


Incoming: TypeAlias = "Request | Notification | Reply | Unusable"


def read_body(body: bytes) -> JSONValue:
    """Return the value of a body. Raises RpcFault (PARSE_ERROR, INVALID_REQUEST)."""
    try:
        value = read_json(body)
    except MalformedRequestError as exc:
        raise RpcFault(PARSE_ERROR, exc.detail) from exc
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise RpcFault(INVALID_REQUEST, f"The message is nested in more than {MAX_DEPTH} levels.")
    return value


def read_message(value: JSONValue) -> Incoming:
    """Return what one message is; by its members, never by what we would like it to be."""
    if not isinstance(value, dict):
        return Unusable(id=None, reason="A message is a JSON object.")
    message_id = _id_of(value)
    if value.get("jsonrpc") != "2.0":
        return Unusable(id=message_id, reason='A message has "jsonrpc": "2.0".')
    if "method" not in value:
        return _reply(value, message_id)
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        return Unusable(id=message_id, reason="`method` is a string, `params` an object.")
    if "id" not in value:
        return Notification(method=method, params=params)
    return _request(message_id, method, params)


def _request(message_id: RequestId | None, method: str, params: JSONObject) -> Incoming:
    if message_id is None:
        return Unusable(id=None, reason="The id of a request is a string or a whole number.")
    return Request(id=message_id, method=method, params=params)


def _reply(value: JSONObject, message_id: RequestId | None) -> Incoming:
    result, error = value.get("result"), value.get("error")
    if message_id is None or ("result" in value) == ("error" in value):
        return Unusable(id=message_id, reason="The message is no request, notification or answer.")
    if isinstance(result, dict):
        return Reply(id=message_id, result=result)
    if not isinstance(error, dict):
        return Unusable(id=message_id, reason="`result` or `error` is an object.")
    code, text = error.get("code"), error.get("message")
    is_code = isinstance(code, int) and not isinstance(code, bool)
    return Reply(
        id=message_id,
        error=RpcError(
            code=code if is_code and isinstance(code, int) else INTERNAL_ERROR,
            message=text if isinstance(text, str) else "",
            data=error.get("data"),
        ),
    )


def _id_of(value: JSONObject) -> RequestId | None:
    found = value.get("id")
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return None if isinstance(found, str) and len(found) > ID_LENGTH else found


def rpc_error_of(error: HubError) -> RpcError:
    """Return the JSON-RPC error that stands for an error of a call."""
    if isinstance(error, ProtocolError):
        return error.rpc
    data: JSONObject = {**error.extra, "code": error.problem_code, "detail": error.detail}
    if error.retry_after is not None:
        data["retryAfter"] = math.ceil(error.retry_after)
    if isinstance(error, InvalidInputError) and error.problems:
        data["errors"] = [{"path": one.path, "message": one.message} for one in error.problems]
    is_clients = isinstance(error, InvalidInputError | NotFoundError)
    return RpcError(
        code=INVALID_PARAMS if is_clients else HUB_ERROR, message=error.detail, data=data
    )


def status_of(error: RpcError) -> int:
    """Return the HTTP status that an error has in the per-request era."""
    return STATUS.get(error.code, 200)


def unsupported_version(requested: str, supported: Sequence[str]) -> RpcFault:
    return RpcFault(
        UNSUPPORTED_PROTOCOL_VERSION,
        "Unsupported protocol version",
        {"supported": list(supported), "requested": requested},
    )
