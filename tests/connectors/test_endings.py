"""What an upstream answer or error makes of a call: the table of the three error planes."""

from __future__ import annotations

import json

import pytest

from connectors.models import CallStatus
from connectors.services import endings
from connectors.services.endings import Again, Ending
from connectors.upstream import errors as upstream
from connectors.upstream.errors import HttpStatusError, Refusal
from mcphub.core.errors import (
    AuthorizationNeededError,
    HubError,
    ProtocolError,
    UnavailableError,
    UpstreamError,
    UpstreamTimeoutError,
)

UNKNOWN, FAILED = CallStatus.OUTCOME_UNKNOWN, CallStatus.FAILED


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (upstream.stream_broken(), UNKNOWN, "upstream_unreachable"),
        (upstream.process_ended(), UNKNOWN, "upstream_unreachable"),
        (upstream.timed_out(), UNKNOWN, "timeout"),
        (upstream.protocol_fault("garbage"), FAILED, "protocol_error"),
        (upstream.too_large(10), FAILED, "response_too_large"),
        (HttpStatusError(Refusal(status=500)), FAILED, "http_500"),
        (HttpStatusError(Refusal(status=502)), UNKNOWN, "http_502"),
        (HttpStatusError(Refusal(status=504)), UNKNOWN, "http_504"),
        (HttpStatusError(Refusal(status=429)), FAILED, "http_429"),
        (AuthorizationNeededError(), FAILED, "authorization_needed"),
    ],
)
def test_a_sent_tool_call_is_unknown_exactly_when_no_answer_of_the_server_came(
    error: HubError, status: CallStatus, code: str
) -> None:
    """G08."""
    ending = endings.of_error(error, method="tools/call", attempt=1, had_begun=True)
    assert isinstance(ending, Ending)
    assert (ending.status, ending.problem_code) == (status, code)


@pytest.mark.parametrize("error", [upstream.stream_broken(), upstream.timed_out()])
def test_a_reading_request_without_answer_has_failed(error: HubError) -> None:
    ending = endings.of_error(error, method="resources/read", attempt=1, had_begun=True)
    assert isinstance(ending, Ending)
    assert ending.status is FAILED


@pytest.mark.parametrize(
    ("error", "attempt", "expected"),
    [
        (upstream.session_lost(), 1, Again(pause=0.25)),
        (upstream.session_lost(), 2, FAILED),
        (UpstreamError(was_sent=False), 1, Again(pause=0.25)),
        (UpstreamError(was_sent=False), 2, Again(pause=1.0)),
        (UpstreamError(was_sent=False), 3, FAILED),
        (upstream.not_mcp_endpoint(), 1, FAILED),
        (UnavailableError(code="worker_full"), 1, Again(pause=0.25)),
        (endings.HeldElsewhereError("w2"), 3, Again(holder="w2")),
    ],
)
def test_what_has_not_left_is_tried_again_a_few_times(
    error: HubError, attempt: int, expected: Again | CallStatus
) -> None:
    ending = endings.of_error(error, method="tools/call", attempt=attempt, had_begun=True)
    assert (ending.status if isinstance(ending, Ending) else ending) == expected


def test_a_fault_while_opening_means_that_the_call_had_not_left() -> None:
    error = UpstreamTimeoutError(was_sent=True)  # the handshake was sent, not the call
    ending = endings.of_error(error, method="tools/call", attempt=1, had_begun=False)
    assert isinstance(ending, Ending)
    assert (ending.status, ending.was_sent) == (FAILED, False)


def test_the_peers_error_is_kept_whole_as_the_outcome() -> None:
    error = ProtocolError(rpc_code=-32602, rpc_message="bad \ud800", rpc_data={"at": [1]})
    ending = endings.of_error(error, method="tools/call", attempt=1, had_begun=True)
    assert isinstance(ending, Ending)
    assert (ending.status, ending.problem_code) == (FAILED, "protocol_error")
    assert json.loads(ending.outcome_json or b"") == {
        "error": {"code": -32602, "message": "bad \ud800", "data": {"at": [1]}}
    }
    assert "bad" not in ending.problem_detail


def test_a_tool_error_is_a_success_of_the_call() -> None:
    ending = endings.of_result({"content": [], "isError": True})
    assert (ending.status, ending.is_tool_error) == (CallStatus.SUCCEEDED, True)
