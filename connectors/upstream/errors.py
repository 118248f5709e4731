"""Every way an upstream exchange can fail, as an error of the hub; upstream text never gets in.

UpstreamError, code …                  was_sent  was_answered
├─ upstream_unreachable  no connection     no         no
├─ upstream_unreachable  stream broke      yes        no
├─ timeout                                 yes        no
├─ session_lost          404 for a session no         yes
├─ protocol_error, not_mcp_endpoint,
│  response_too_large, bad_session_id      yes        yes
└─ HttpStatusError       http_NNN          yes/no     yes
PeerError (ProtocolError)                  the peer's own JSON-RPC error
AuthorizationNeededError                   401 and 403
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mcp_types.jsonrpc import (
    HEADER_MISMATCH,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

from mcphub.core.errors import (
    AuthorizationNeededError,
    HubError,
    ProtocolError,
    RpcError,
    UpstreamError,
    UpstreamTimeoutError,
)

MODERN_ERRORS = frozenset(
    {HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION}
)
"""JSON-RPC codes that only a server of the 2026-07-28 revision sends."""

TRANSIENT_STATUS = frozenset({408, 425, 429})
UNPROCESSED_STATUS = frozenset({400, 404, 405, 406, 410, 411, 413, 414, 415, 421, 426, 429, 431})
"""Statuses by which a server says that it did not begin with the request (RFC 9110 §15.5)."""

_VERSION = re.compile(rb"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What an HTTP error answer carried; `body` is upstream text and stays inside this package."""

    status: int
    challenge: str = ""
    retry_after: float | None = None
    body: bytes = b""


class HttpStatusError(UpstreamError):
    """An HTTP status that is no success and carries no JSON-RPC error of this request."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(
            f"The server answered with HTTP status {refusal.status}.",
            code=f"http_{refusal.status}",
            retry_after=refusal.retry_after,
            was_sent=refusal.status not in UNPROCESSED_STATUS,
            was_answered=True,
        )
        self.http_status = refusal.status
        self.named_versions = frozenset(
            found.decode() for found in _VERSION.findall(refusal.body[:4096])
        )

    @property
    def is_transient(self) -> bool:
        """Whether a later attempt may succeed; it says nothing about what the server speaks."""
        return self.http_status >= 500 or self.http_status in TRANSIENT_STATUS


class PeerError(ProtocolError):
    """The peer's JSON-RPC error together with the HTTP status it came with (200 elsewhere)."""

    def __init__(self, rpc: RpcError, *, http_status: int = 200) -> None:
        super().__init__(rpc_code=rpc.code, rpc_message=rpc.message, rpc_data=rpc.data)
        self.http_status = http_status

    @property
    def is_modern(self) -> bool:
        return self.rpc.code in MODERN_ERRORS


def authorization_needed(refusal: Refusal) -> AuthorizationNeededError:
    """Return the error for 401 and 403; `.challenge` is for the OAuth code only."""
    code = "authorization_needed" if refusal.status == 401 else "forbidden_by_server"
    return AuthorizationNeededError(
        f"The server answered with HTTP status {refusal.status}.",
        code=code,
        challenge=refusal.challenge,
        http_status=refusal.status,
    )


def protocol_fault(detail: str) -> UpstreamError:
    """Return the error for an answer that is no valid JSON-RPC answer of this request."""
    return UpstreamError(detail, code="protocol_error", was_sent=True, was_answered=True)


def foreign_answer() -> UpstreamError:
    return protocol_fault("The answer carries the id of another request.")


def too_large(limit: int) -> UpstreamError:
    return UpstreamError(
        f"The answer is larger than {limit} bytes.", code="response_too_large", was_answered=True
    )


def not_mcp_endpoint() -> UpstreamError:
    return UpstreamError(
        "The address answers, but it is no MCP endpoint.",
        code="not_mcp_endpoint",
        was_sent=False,
        was_answered=True,
    )


def bad_session_id() -> UpstreamError:
    return UpstreamError(
        "The server sent a session id with characters or a length that HTTP does not allow.",
        code="bad_session_id",
        was_sent=False,
        was_answered=True,
    )


def session_lost(detail: str = "The server no longer knows this session.") -> UpstreamError:
    """Return the error for a request that the server refused unprocessed: safe to send again."""
    return UpstreamError(detail, code="session_lost", was_sent=False, was_answered=True)


def session_closed() -> UpstreamError:
    return UpstreamError("The session is closed.", code="session_lost", was_sent=False)


def stream_broken() -> UpstreamError:
    return UpstreamError("The connection ended before the answer came.", was_sent=True)


def process_ended() -> UpstreamError:
    return UpstreamError("The server's process ended before the answer came.", was_sent=True)


def incompatible_version() -> UpstreamError:
    return UpstreamError(
        "The server speaks no protocol version that this hub speaks.",
        code="incompatible_version",
        was_sent=False,
        was_answered=True,
    )


def timed_out(detail: str = "", *, was_sent: bool = True) -> UpstreamTimeoutError:
    return UpstreamTimeoutError(detail, was_sent=was_sent)


def status_error(refusal: Refusal) -> HubError:
    """Return the error for an HTTP status ≥ 400 without a JSON-RPC error of this request."""
    if refusal.status in {401, 403}:
        return authorization_needed(refusal)
    return HttpStatusError(refusal)
