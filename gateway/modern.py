"""POSTs of the per-request era (2026-07-28): each says everything about itself, in body and head.

Headers that contradict the body are refused: whatever stands between client and hub routes by them.
"""

from __future__ import annotations

import base64
import binascii
import re

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.jsonrpc import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST

from connectors.server_spec import Era
from gateway import answering, wire
from gateway.auth import Arrival
from gateway.exchange import Exchange
from gateway.http import HttpRequest
from gateway.wire import MODERN_PROTOCOL_VERSIONS, Incoming, Notification, Request, RpcFault
from mcphub.core.types import JSONObject, JSONValue

ENCODED = re.compile(r"=\?base64\?(.*)\?=")
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Which parameter `Mcp-Name` repeats."""


def is_modern(request: HttpRequest, value: JSONValue) -> bool:
    """Whether a POST is of this era: its header or its body says so, or an unknown version."""
    named = request.headers.get("mcp-protocol-version")
    if named is not None:
        return named not in wire.HANDSHAKE_PROTOCOL_VERSIONS
    meta = _meta_of(value)
    return PROTOCOL_VERSION_META_KEY in meta and "mcp-session-id" not in request.headers


async def post(arrival: Arrival, value: JSONValue) -> None:
    """Answer one POST. Raises RpcFault for a message that is none."""
    request, answer = arrival.request, arrival.answer
    message: Incoming = wire.read_message(value)
    if isinstance(message, Notification):
        check_version(request.headers.get("mcp-protocol-version", ""))
        await answer.empty(202)
        return
    if not isinstance(message, Request):
        reason = getattr(message, "reason", "A client sends requests and notifications only.")
        raise RpcFault(INVALID_REQUEST, reason)
    try:
        check_request(request, message)
    except RpcFault as exc:
        await answer.finish(wire.status_of(exc.error), wire.failure(message.id, exc.error))
        return
    exchange = Exchange(
        principal=arrival.principal,
        endpoint=arrival.endpoint,
        era=Era.MODERN,
        version=request.headers["mcp-protocol-version"],
        request=message,
        channel=answer,
        headers=request.headers,
        capabilities=_object(message.meta, CLIENT_CAPABILITIES_META_KEY),
        client_info=_object(message.meta, CLIENT_INFO_META_KEY),
    )
    await answering.serve([exchange], arrival, is_batch=False)


def check_request(request: HttpRequest, message: Request) -> None:
    """Check the envelope, then the headers against it, then the version. Raises RpcFault."""
    meta = message.meta
    missing = [
        key for key in (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY) if key not in meta
    ]
    if missing:
        raise RpcFault(INVALID_PARAMS, f"`_meta` lacks {' and '.join(missing)}.")
    if not isinstance(meta[CLIENT_CAPABILITIES_META_KEY], dict):
        raise RpcFault(INVALID_PARAMS, f"{CLIENT_CAPABILITIES_META_KEY} is an object.")
    if request.repeated:
        raise _mismatch(f"The header {min(request.repeated)} came twice.")
    version = request.headers.get("mcp-protocol-version")
    if version is None or version != meta[PROTOCOL_VERSION_META_KEY]:
        raise _mismatch("The header mcp-protocol-version and `_meta` name different versions.")
    if request.headers.get("mcp-method") != message.method:
        raise _mismatch("The header mcp-method and the body name different methods.")
    named = message.params.get(NAMED_BY.get(message.method, ""))
    if isinstance(named, str) and (decoded(request.headers.get("mcp-name")) or "") != named:
        raise _mismatch("The header mcp-name and the body name different things.")
    check_version(version)


def check_version(version: str) -> None:
    """Raise RpcFault (UNSUPPORTED_PROTOCOL_VERSION) for a version that is not spoken here."""
    if version not in MODERN_PROTOCOL_VERSIONS:
        raise wire.unsupported_version(version, MODERN_PROTOCOL_VERSIONS)


def decoded(header: str | None) -> str | None:
    """Return a header's value without its base64 form; None when that form is broken."""
    match = ENCODED.fullmatch(header or "")
    if match is None:
        return header
    try:
        content = base64.b64decode(match[1], validate=True)
        if base64.b64encode(content).decode() != match[1]:
            return None
        return content.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _meta_of(value: JSONValue) -> JSONObject:
    params = value.get("params") if isinstance(value, dict) else None
    return _object(params, "_meta") if isinstance(params, dict) else {}


def _object(holder: JSONObject, key: str) -> JSONObject:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _mismatch(text: str) -> RpcFault:
    return RpcFault(HEADER_MISMATCH, text)
