"""Endpoints of the trace."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mcphub.api.pagination import PageRequest, page_of
from tenants.api.permissions import principal_in, requires_scope
from tenants.api.views import page_schema
from tenants.principal import Scope
from tracing import selectors
from tracing.api import inputs, outputs
from tracing.rows import wire

LIST_CONTENT_BYTES = 16 << 10


class TracesView(APIView):
    permission_classes = [requires_scope(Scope.TRACES_READ)]

    @extend_schema(
        parameters=[inputs.TraceQuery], responses=page_schema("TracePage", outputs.TraceOutput)
    )
    def get(self, request: Request) -> Response:
        """List messages that match, newest first; long content is left out."""
        wanted = inputs.trace_filter(request.query_params)
        rows = selectors.events_for(principal_in(request), wanted)
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(lambda row: wire(row, largest=LIST_CONTENT_BYTES)))


class TraceView(APIView):
    permission_classes = [requires_scope(Scope.TRACES_READ)]

    @extend_schema(responses=outputs.TraceOutput)
    def get(self, request: Request, trace_id: str) -> Response:
        """Return one message with its whole content."""
        return Response(wire(selectors.event_for(principal_in(request), trace_id)))
