"""The gateway's address, taken before the gateway is there: a clear answer for every method."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from mcphub.api.errors import problem_response
from mcphub.core.errors import HubError


class GatewayNotAvailableError(HubError):
    code = "gateway_not_available"
    status = 501
    title = "The hub is no MCP server yet"


@csrf_exempt
def not_available(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Say to an MCP client that its configuration is right and this version is too old for it."""
    del rest
    error = GatewayNotAvailableError(
        "This version does not offer its tools over MCP; call them over /api/v1 (see /api/docs)."
    )
    return problem_response(error, request)
