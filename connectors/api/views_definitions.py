"""Changed definitions of tools: what they were, what they are, and their approval."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, tool_outputs
from connectors.services import tool_table
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope


class ToolChangesView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(
        parameters=[inputs.ToolChangesQuery], responses=tool_outputs.ToolChangeOutput(many=True)
    )
    def get(self, request: Request) -> Response:
        """List the tools whose definition is not the approved one, with both definitions."""
        server = inputs.ToolChangesQuery.read(request.query_params).get("server")
        found = selectors.tools_of_all(principal_in(request), [server] if server else None)
        waiting = [tool for tool in found.tools if tool.is_waiting]
        return Response([tool_outputs.tool_change(tool) for tool in waiting])


class ApproveToolView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_WRITE)]

    @extend_schema(request=inputs.ApprovalInput, responses=tool_outputs.ToolOutput)
    def post(self, request: Request, server: str, tool: str) -> Response:
        """Approve a tool's definition; `digest` says which one was looked at."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        found = selectors.tool_for(principal, row, tool)
        digest = inputs.ApprovalInput.read(request.data)["digest"]
        tool_table.approve(principal, row, found.name, digest=digest)
        selectors.targets.forget(principal, server)
        return Response(selectors.tool_view_for(principal, row, found.name).wire)
