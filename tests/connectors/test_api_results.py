"""Results over REST: as the server gave them, with a mark when its tool had promised more."""

from __future__ import annotations

import httpx
import pytest

from connectors.models import CatalogListing, Connection
from mcphub.core.types import JSONObject
from tests.connectors.call_stack import Gate, Stack

CALL = "/api/v1/servers/linear/tools/search/call"
BODY = {"arguments": {"q": "x"}}

pytestmark = pytest.mark.django_db(transaction=True)

STRUCTURED: JSONObject = {"content": [], "structuredContent": {"n": 10**25, "z": None}}


@pytest.mark.parametrize(
    ("result", "flaw"),
    [
        ({"content": []}, "flawed; reason=no_structured_content"),
        ({"content": [], "isError": True, "structuredContent": 7}, None),
        ({"content": [], "isError": True}, None),
        (STRUCTURED, None),
    ],
    ids=["F11 nothing structured", "F12 error that does not fit", "F12 error", "F13 structured"],
)
async def test_a_result_is_delivered_unchanged_whatever_its_tool_promised(
    web: httpx.AsyncClient,
    stack: Stack,
    connection: Connection,
    result: JSONObject,
    flaw: str | None,
) -> None:
    def promise() -> None:
        items = [{"name": "search", "inputSchema": {}, "outputSchema": {"type": "object"}}]
        CatalogListing.unscoped.filter(connection=connection).update(items=items)

    await stack.threads.run(promise)
    stack.sessions.answer = Gate(result)
    stack.sessions.answer.may_answer.set()

    answer = await web.post(CALL, json=BODY)

    assert (answer.status_code, answer.json()) == (200, result)
    assert answer.headers.get("mcphub-result") == flaw
