"""Reading HTTP answers of MCP servers: bounded bodies, refusals, session ids."""

from __future__ import annotations

import re
from contextlib import aclosing
from datetime import UTC
from email.utils import parsedate_to_datetime

from django.conf import settings
from mcp_types.jsonrpc import METHOD_NOT_FOUND

from connectors.upstream import errors, jsonrpc
from mcphub.core.clock import now
from mcphub.core.egress import EgressResponse
from mcphub.core.errors import HubError, RpcError, UpstreamError
from mcphub.core.types import JSONObject

REFUSAL_BYTES = 64 << 10
RETRY_AFTER_MAX = 3600.0
EVENT_STREAM = "text/event-stream"
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}")


def session_id_of(response: EgressResponse) -> str:
    """Return the session id that the server gave, "" when none. Raises `bad_session_id`."""
    values = response.headers.get_list("mcp-session-id")
    if not values:
        return ""
    if len(values) > 1 or not _SESSION_ID.fullmatch(values[0]):
        raise errors.bad_session_id()
    return values[0]


async def read_body(response: EgressResponse) -> bytes:
    """Return a body of at most MAX_BODY_BYTES. Raises `response_too_large`."""
    limit: int = settings.MAX_BODY_BYTES
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:19]) > limit:
        raise errors.too_large(limit)
    body, complete = await _read(response, limit)
    if not complete:
        raise errors.too_large(limit)
    return body


async def _read(response: EgressResponse, limit: int) -> tuple[bytes, bool]:
    size = 0
    pieces: list[bytes] = []
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                return b"".join(pieces), False
            pieces.append(chunk)
    return b"".join(pieces), True


async def read_refusal(response: EgressResponse) -> errors.Refusal:
    """Return what a refusing answer carried; a body that breaks or is too long counts as none."""
    body = b""
    if response.content_type != EVENT_STREAM:
        try:
            body, _ = await _read(response, REFUSAL_BYTES)
        except UpstreamError:
            body = b""
    return errors.Refusal(
        status=response.status,
        challenge=", ".join(response.headers.get_list("www-authenticate")),
        retry_after=retry_after_of(response.headers.get("retry-after", "")),
        body=body,
    )


def retry_after_of(text: str) -> float | None:
    """Return the seconds of a Retry-After header (RFC 9110 §10.2.3), bounded."""
    text = text.strip()
    if text.isdecimal():
        return min(float(text[:9]), RETRY_AFTER_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now()).total_seconds(), 0.0), RETRY_AFTER_MAX)


def rpc_refusal(refusal: errors.Refusal) -> tuple[JSONObject, RpcError] | None:
    """Return the JSON-RPC error in the body of a refusal, None when there is none."""
    try:
        message = jsonrpc.parse(refusal.body)
        error = jsonrpc.error_of(message)
    except jsonrpc.MalformedError:
        return None
    return None if error is None else (message, error)


def is_session_lost(refusal: errors.Refusal, request_id: int) -> bool:
    """Whether a request that carried a session id was refused because of it.

    404 is what the specification asks for; a 404 that says "method not found" for this very
    request is none. Many servers answer 400 with error -32000 for no particular request instead.
    Status and code decide, never text.
    """
    found = rpc_refusal(refusal)
    if refusal.status == 404:
        if found is None:
            return True
        message, error = found
        is_ours = jsonrpc.match_id(request_id, message.get("id")) is not jsonrpc.IdMatch.OTHER
        return not (is_ours and error.code == METHOD_NOT_FOUND)
    if refusal.status == 400 and found is not None:
        message, error = found
        return message.get("id") is None and error.code == -32000
    return False


def error_for(refusal: errors.Refusal, request_id: int) -> tuple[HubError, JSONObject | None]:
    """Return the error of a refused request, and the JSON-RPC message when the body was one."""
    found = rpc_refusal(refusal)
    if found is not None and refusal.status not in {401, 403}:
        message, rpc = found
        got = message.get("id")
        if got is None or jsonrpc.match_id(request_id, got) is not jsonrpc.IdMatch.OTHER:
            error = errors.PeerError(rpc, http_status=refusal.status)
            error.retry_after = refusal.retry_after
            return error, message
    return errors.status_error(refusal), None
