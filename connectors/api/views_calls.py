"""The ledger: calls listed and cancelled. One call, and its long poll, is in views_hot."""

from __future__ import annotations

import json

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, outputs
from connectors.api.schema import page_of_calls
from connectors.api.views_hot import as_call_id, call_bytes
from connectors.services import tool_calls
from mcphub.api.pagination import PageRequest, page_of
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope

PAGE = frozenset({"limit", "cursor"})


class CallsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(parameters=[inputs.CallsQuery], responses=page_of_calls)
    def get(self, request: Request) -> Response:
        """List the calls of the member, newest first, without their outcome."""
        query = {name: value for name, value in request.query_params.items() if name not in PAGE}
        filters = selectors.CallFilter(**inputs.CallsQuery.read(query))
        rows = selectors.calls_for(principal_in(request), filters)
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(outputs.call))


class CancelCallView(APIView):
    permission_classes = [requires_scope(Scope.TOOLS_CALL)]

    @extend_schema(request=None, responses=outputs.CallOutput)
    def post(self, request: Request, call_id: str) -> Response:
        """Ask for the end of a call; one that has ended is left alone."""
        row = tool_calls.cancel(principal_in(request), as_call_id(call_id))
        return Response(json.loads(call_bytes(row)))
