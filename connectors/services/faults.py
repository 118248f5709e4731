"""What a failed opening means: try again or not, and what the member is told (pure)."""

from __future__ import annotations

from connectors.upstream.errors import HttpStatusError
from mcphub.core.errors import (
    AuthorizationNeededError,
    HubError,
    LimitError,
    ProtocolError,
    UnavailableError,
    UpstreamError,
)
from mcphub.core.types import JSONObject
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError

PASSING_CODES = frozenset({"upstream_unreachable", "timeout", "session_lost", "outcome_unknown"})
"""Codes of UpstreamError after which a later attempt may succeed."""

HINTS = {
    "authorization_needed": "Enter valid credentials for this server, then connect again.",
    "no_oauth_metadata": "The server wants a sign-in and does not say where: give it a token.",
    "registration_unusable": "Register the hub at the provider and enter the client id.",
    "auth_temporarily_unavailable": "The tokens are kept; the provider cannot be reached.",
    "forbidden_by_server": "The server knows the credentials but does not allow their use.",
    "blocked_url": "An operator can allow this address; see MCPHUB_EGRESS_ALLOW.",
    "credential_unreadable": "Enter the credentials of this server again.",
    "incompatible_version": "Ask for a version of the server that speaks a published revision.",
    "not_mcp_endpoint": "Check the path of the address; many servers answer at /mcp.",
    "protocol_error": "The server answered, but not in the way the protocol asks for.",
    "rate_limited": "Too many sign-ins were begun in a minute; it goes on by itself.",
    "redirect_refused": "Enter the address that the server redirects to.",
    "session_lost": "The server ended the session; it was probably restarted.",
    "timeout": "The server did not answer in time; it may be starting or overloaded.",
    "upstream_unreachable": "Check that the server is running and that the address is right.",
    "worker_full": "The operator can start more workers.",
}


def may_pass(error: HubError) -> bool:
    """Whether trying again by itself makes sense. Status and code decide, never text."""
    if isinstance(error, HttpStatusError):
        return error.is_transient
    if isinstance(error, AuthorizationNeededError | ProtocolError):
        return False
    if isinstance(error, UpstreamError):
        return error.problem_code in PASSING_CODES
    return isinstance(error, UnavailableError | LimitError | AuthTemporarilyUnavailableError)


def needs_authorization(error: HubError) -> bool:
    return isinstance(error, AuthorizationNeededError)


def last_error(error: HubError) -> JSONObject:
    """Return the server object's `lastError`: our own words and codes only."""
    shown: JSONObject = {
        "message": error.detail,
        "code": error.problem_code,
        "retryable": may_pass(error) or needs_authorization(error),
        "hint": HINTS.get(error.problem_code),
    }
    if isinstance(error, GrantLostError):
        shown |= {**error.extra, "hint": "Sign in at the address of `authorizationUrl`."}
    if isinstance(error, ProtocolError):
        shown["rpcCode"] = error.rpc.code
    return shown


def step_detail(error: HubError) -> JSONObject:
    """Return what the timeline keeps of a failure."""
    detail: JSONObject = {"code": error.problem_code, "message": error.detail}
    if isinstance(error, ProtocolError):
        detail["rpcCode"] = error.rpc.code
    return detail
