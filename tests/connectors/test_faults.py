"""What a failed opening means, by status and code alone; and how long to wait before the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.services import faults
from connectors.states import BACKOFF_SECONDS, State, backoff
from connectors.upstream import errors
from connectors.upstream.errors import HttpStatusError, Refusal
from mcphub.core.errors import (
    BlockedUrlError,
    HubError,
    LimitError,
    ProtocolError,
    UnavailableError,
    UpstreamError,
)

CASES: list[tuple[HubError, bool, bool]] = [
    (UpstreamError(), True, False),
    (errors.timed_out(), True, False),
    (errors.session_lost(), True, False),
    (UnavailableError(), True, False),
    (LimitError(), True, False),
    (HttpStatusError(Refusal(status=503)), True, False),
    (HttpStatusError(Refusal(status=429)), True, False),
    (HttpStatusError(Refusal(status=400)), False, False),
    (HttpStatusError(Refusal(status=415)), False, False),
    (errors.not_mcp_endpoint(), False, False),
    (errors.incompatible_version(), False, False),
    (errors.bad_session_id(), False, False),
    (errors.protocol_fault("x"), False, False),
    (errors.too_large(1), False, False),
    (BlockedUrlError(), False, False),
    (ProtocolError(rpc_code=-32603, rpc_message="secret text"), False, False),
    (errors.status_error(Refusal(status=401)), False, True),
    (errors.status_error(Refusal(status=403)), False, True),
]


@pytest.mark.parametrize(("error", "may_pass", "needs_authorization"), CASES)
def test_status_and_code_decide_what_happens_next(
    error: HubError, may_pass: bool, needs_authorization: bool
) -> None:
    assert faults.may_pass(error) is may_pass
    assert faults.needs_authorization(error) is needs_authorization


@pytest.mark.parametrize(("error", "may_pass", "needs_authorization"), CASES)
def test_the_member_is_told_a_code_and_our_own_words(
    error: HubError, may_pass: bool, needs_authorization: bool
) -> None:
    told = faults.last_error(error)
    assert told["code"] == error.problem_code
    assert told["retryable"] is (may_pass or needs_authorization)
    assert "secret" not in str(told) + str(faults.step_detail(error))


def test_the_peer_s_own_error_is_told_by_its_number() -> None:
    error = ProtocolError(rpc_code=-32603, rpc_message="secret text")
    assert faults.last_error(error)["rpcCode"] == -32603
    assert faults.step_detail(error)["rpcCode"] == -32603


@given(st.integers(1, 5), st.floats(0, 1, exclude_max=True))
def test_waits_are_spread_by_a_fifth_around_the_schedule(attempt: int, jitter: float) -> None:
    wait = backoff(attempt, jitter)
    assert wait is not None
    assert abs(wait - BACKOFF_SECONDS[attempt - 1]) <= 0.2 * BACKOFF_SECONDS[attempt - 1] + 1e-9


def test_there_is_no_sixth_automatic_attempt() -> None:
    assert backoff(6, 0.5) is None


def test_the_words_of_the_api_are_camel_case() -> None:
    assert [state.wire for state in State] == [
        "disconnected",
        "authRequired",
        "authPending",
        "connecting",
        "connected",
        "error",
    ]
