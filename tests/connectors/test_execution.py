"""A call from submit to its end, with a worker in the same loop."""

from __future__ import annotations

import json

import pytest

from connectors.models import CallStatus
from connectors.services import tool_calls
from connectors.services.outcomes import outcome_of
from tests.connectors.call_stack import RESULT, Stack

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_submitted_call_comes_back_with_the_servers_result(stack: Stack) -> None:
    await stack.start_worker()
    submitted = await stack.submit({"q": "open issues"})
    outcome = await tool_calls.wait(submitted.id, 5)
    assert outcome is not None
    assert outcome.status is CallStatus.SUCCEEDED
    assert json.loads(outcome.outcome_json or b"") == {"result": RESULT}
    assert stack.sessions.requests[0].params == {
        "name": "search",
        "arguments": {"q": "open issues"},
    }
    row = await stack.row(submitted.id)
    assert (row.status, row.attempt, row.worker) == ("succeeded", 1, "w1")
    assert outcome_of(row).outcome_json == outcome.outcome_json
