"""The gateway's address answers before there is a gateway, and says so."""

from __future__ import annotations

import pytest
from django.test import Client

DETAIL = "This version does not offer its tools over MCP; call them over /api/v1 (see /api/docs)."


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp/linear"])
def test_every_request_to_the_gateway_is_told_that_there_is_none(method: str, path: str) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.generic(method, path, b"{}", content_type="application/json")
    assert answer.status_code == 501
    assert answer["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert (body["code"], body["detail"]) == ("gateway_not_available", DETAIL)
