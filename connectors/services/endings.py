"""Endings: what an upstream result or error means for a call's row (pure).

Three planes, never merged: a tool error is a success of the call, the peer's JSON-RPC error is kept
as the outcome, the hub's own errors are a problem code. `outcome_unknown` is used exactly when the
request may have reached the server and no answer came.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from connectors.models import CallStatus
from connectors.started_tasks import key_of, task_id_of
from mcphub.core.errors import HubError, ProtocolError, UnavailableError, UpstreamError
from mcphub.core.types import JSONObject

LARGEST_ATTEMPT = 3
PAUSES = (0.25, 1.0)
"""Waits before the attempts 2 and 3."""

ATTEMPTS = {"session_lost": 2, "upstream_unreachable": LARGEST_ATTEMPT}
"""Codes after which a request that has not left is tried again, and up to which attempt."""

PROXY_STATUS = frozenset({502, 504})
"""Answers of a proxy in front of the server: whether that had the request, nobody knows."""

READING = frozenset(
    {
        "resources/read",
        "resources/list",
        "resources/templates/list",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tools/list",
        "prompts/get",
        "prompts/list",
        "completion/complete",
        "ping",
        "logging/setLevel",
    }
)
"""Methods that change nothing: without an answer they have failed, whatever happened there."""


class HeldElsewhereError(UpstreamError):
    """Another worker that lives holds the session: the call belongs there."""

    code = "session_lost"

    def __init__(self, holder: str) -> None:
        super().__init__("Another worker holds the session.", was_sent=False)
        self.holder = holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a call ends; `was_sent` False: nothing had left."""

    status: CallStatus
    outcome_json: bytes | None = field(default=None, repr=False)
    task_key: str | None = None
    """Of the task that the server started instead of an answer."""
    is_tool_error: bool = False
    problem_code: str = ""
    problem_detail: str = ""
    was_sent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Give the call back, to be claimed here after `pause` or by `holder`.

    Nothing has left, or the rest of its answer can be asked for by another holder.
    """

    pause: float = 0.0
    holder: str = ""


def of_result(result: JSONObject) -> Ending:
    """Return success, whatever the tool says in its result."""
    task_id = task_id_of(result)
    return Ending(
        status=CallStatus.SUCCEEDED,
        outcome_json=_json({"result": result}),
        task_key=key_of(task_id) if task_id else None,
        is_tool_error=result.get("isError") is True,
    )


def of_error(error: HubError, *, method: str, attempt: int, had_begun: bool) -> Ending | Again:
    """`had_begun` False: the session had still to be opened, so the request cannot have left."""
    if isinstance(error, HeldElsewhereError):
        return Again(holder=error.holder)
    if isinstance(error, ProtocolError) and had_begun:
        return _peer_error(error)
    was_sent = had_begun and (error.was_sent if isinstance(error, UpstreamError) else False)
    if not was_sent and attempt < _attempts(error):
        return Again(pause=PAUSES[min(attempt, len(PAUSES)) - 1])
    if was_sent and is_unanswered(error) and method not in READING:
        return of_problem(CallStatus.OUTCOME_UNKNOWN, error)
    return of_problem(CallStatus.FAILED, error, was_sent=was_sent)


def of_problem(status: CallStatus, error: HubError, *, was_sent: bool = True) -> Ending:
    return Ending(
        status=status,
        problem_code=error.problem_code[:60],
        problem_detail=error.detail[:500],
        was_sent=was_sent,
    )


def cancelled(*, was_sent: bool) -> Ending:
    detail = "It had been sent; the server may have carried it out." if was_sent else ""
    return Ending(
        status=CallStatus.CANCELLED,
        problem_code="cancelled",
        problem_detail=detail,
        was_sent=was_sent,
    )


def expired() -> Ending:
    return Ending(
        status=CallStatus.EXPIRED,
        problem_code="timeout",
        problem_detail="The time of the call was over before it could be sent.",
        was_sent=False,
    )


def unanswered() -> Ending:
    """Return the end of a call whose server waited for an answer that nobody gave."""
    return Ending(
        status=CallStatus.EXPIRED,
        problem_code="input_expired",
        problem_detail="A question of the server was not answered in time.",
    )


def unknown(code: str = "outcome_unknown") -> Ending:
    """Return the end of a sent call whose answer nobody waits for any more."""
    return Ending(
        status=CallStatus.OUTCOME_UNKNOWN,
        problem_code=code,
        problem_detail="The request may have reached the server, and no answer came.",
    )


def is_unanswered(error: HubError) -> bool:
    """Whether the server itself has not answered the request."""
    if not isinstance(error, UpstreamError):
        return False
    return not error.was_answered or getattr(error, "http_status", 0) in PROXY_STATUS


def _attempts(error: HubError) -> int:
    if isinstance(error, UnavailableError):
        return LARGEST_ATTEMPT
    return ATTEMPTS.get(error.problem_code, 0) if isinstance(error, UpstreamError) else 0


def _peer_error(error: ProtocolError) -> Ending:
    rpc: JSONObject = {"code": error.rpc.code, "message": error.rpc.message}
    if error.rpc.data is not None:
        rpc["data"] = error.rpc.data
    return Ending(
        status=CallStatus.FAILED,
        outcome_json=_json({"error": rpc}),
        problem_code=ProtocolError.code,
        problem_detail=ProtocolError.title,
    )


def _json(value: JSONObject) -> bytes:
    """Return compact JSON; a lone surrogate has no UTF-8 form and stays the escape that it was."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
