"""The error tree: everything that mcphub itself refuses or fails with (the *hub* error plane).

A tool error (`isError` result) and a peer's JSON-RPC error (`ProtocolError`) are other planes and
never become one of ours.

    HubError
    ├─ InvalidInputError        422  the request's own shape or values
    ├─ NotFoundError            404  unknown id, or somebody else's (same answer)
    ├─ NotAuthenticatedError    401
    ├─ NotPermittedError        403
    ├─ ConflictError            409
    ├─ LimitError               429  a quota or a rate; retryable
    ├─ UnavailableError         503  a part of the hub is away; retryable
    │  └─ BusyError             503  nothing is away, but a queue is too long; retryable
    ├─ BlockedUrlError          400  egress policy
    ├─ UpstreamError            502  the upstream server could not be used
    │  ├─ UpstreamTimeoutError  504
    │  └─ OutcomeUnknownError   502  sent, no answer: never replayed
    ├─ AuthorizationNeededError 409  the user has to sign in at the upstream server
    └─ ProtocolError            502  the peer's own JSON-RPC error, code and data kept
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mcphub.core.types import JSONObject, JSONValue


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """One wrong value of a request: RFC 6901 pointer, text for a developer, stable code."""

    path: str
    message: str
    code: str = "invalid"
    property: str = ""
    """The property of a form, where the request answers one."""


class HubError(Exception):
    """Base of the tree; `code` is public and stable, `detail` is safe to show.

    `extra` is merged into the problem document (RFC 9457 §3.2) and must hold no upstream text.
    `was_sent` tells whether any byte of a request had left for an upstream server.
    """

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    title: ClassVar[str] = "Internal error"
    was_sent: bool = False

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        retry_after: float | None = None,
        extra: JSONObject | None = None,
    ) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        self.problem_code = code or self.code
        self.retry_after = retry_after
        self.extra: JSONObject = extra or {}


class InvalidInputError(HubError):
    code = "invalid_input"
    status = 422
    title = "The request has values that cannot be used"

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        problems: list[FieldProblem] | None = None,
        extra: JSONObject | None = None,
    ) -> None:
        super().__init__(detail, code=code, extra=extra)
        self.problems = problems or []


class NotFoundError(HubError):
    code = "not_found"
    status = 404
    title = "There is no such object"


class NotAuthenticatedError(HubError):
    code = "not_authenticated"
    status = 401
    title = "A valid credential is needed"


class NotPermittedError(HubError):
    code = "not_permitted"
    status = 403
    title = "The credential does not allow this"


class ConflictError(HubError):
    code = "conflict"
    status = 409
    title = "The object is not in a state that allows this"


class LimitError(HubError):
    code = "limit_reached"
    status = 429
    retryable = True
    title = "A limit is reached"


class UnavailableError(HubError):
    code = "unavailable"
    status = 503
    retryable = True
    title = "A part of the service is away"


class BusyError(UnavailableError):
    """Everything is there, but a queue of our own is too long for this request."""

    code = "busy"
    title = "The service is busy"

    def __init__(self) -> None:
        super().__init__("More has come at once than can be done in time.", retry_after=1.0)


class BlockedUrlError(HubError):
    code = "blocked_url"
    status = 400
    title = "This address may not be called"


class UpstreamError(HubError):
    code = "upstream_unreachable"
    status = 502
    retryable = True
    title = "The server could not be reached"

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        retry_after: float | None = None,
        extra: JSONObject | None = None,
        was_sent: bool = True,
        was_answered: bool = False,
    ) -> None:
        """Keep what is known about the request.

        `was_sent` is False only when the server cannot have processed it, so that it may be sent
        again. `was_answered` is True when an answer came, however bad: the outcome is then a
        failure and not unknown.
        """
        super().__init__(detail, code=code, retry_after=retry_after, extra=extra)
        self.was_sent = was_sent
        self.was_answered = was_answered


class UpstreamTimeoutError(UpstreamError):
    code = "timeout"
    status = 504
    title = "The server did not answer in time"


class OutcomeUnknownError(UpstreamError):
    code = "outcome_unknown"
    retryable = False
    title = "The request may have reached the server, and no answer came"


class AuthorizationNeededError(HubError):
    code = "authorization_needed"
    status = 409
    title = "The server wants the user to sign in"

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        challenge: str = "",
        http_status: int = 0,
    ) -> None:
        super().__init__(detail, code=code)
        self.challenge = challenge
        """The `WWW-Authenticate` text of the refusal: upstream text, parsed only, never shown."""
        self.http_status = http_status


class ProtocolError(HubError):
    """The peer answered with a JSON-RPC error; code, message and data are kept."""

    code = "protocol_error"
    status = 502
    title = "The server answered with a protocol error"

    def __init__(self, *, rpc_code: int, rpc_message: str, rpc_data: JSONValue = None) -> None:
        super().__init__(self.title)
        self.rpc = RpcError(code=rpc_code, message=rpc_message, data=rpc_data)


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """A JSON-RPC 2.0 error object as the peer sent it (JSON-RPC 2.0 §5.1)."""

    code: int
    message: str
    data: JSONValue = field(default=None)
