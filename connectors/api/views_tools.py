"""Tools of all servers, in the form of a model provider when one is asked for."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, outputs
from connectors.provider_profiles import Exportable, Format, export
from connectors.selectors import ToolsOfAll
from mcphub.core.types import JSONObject
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope


class ToolsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(parameters=[inputs.ToolsQuery], responses=outputs.ToolsOutput)
    def get(self, request: Request) -> Response:
        """List every tool under its public name; `sources` says how each server contributed."""
        values = inputs.ToolsQuery.read(request.query_params)
        names = [name for key in ("server", "servers") for name in _split(values.get(key))]
        found = selectors.tools_of_all(principal_in(request), names or None, values["q"])
        body = _exported(Format(values["format"]), found) if "format" in values else _plain(found)
        body["sources"] = [outputs.source(one) for one in found.sources]
        etag = outputs.etag_of(body)
        if etag in request.headers.get("If-None-Match", ""):
            return Response(status=304, headers={"ETag": etag})
        return Response(body, headers={"ETag": etag})


def _split(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


def _plain(found: ToolsOfAll) -> JSONObject:
    return {"tools": [tool.wire for tool in found.tools]}


def _exported(wanted: Format, found: ToolsOfAll) -> JSONObject:
    made = export(
        wanted,
        (
            Exportable(
                server=tool.server,
                name=tool.name,
                public_name=tool.public_name,
                is_enabled=tool.is_enabled,
                item=tool.shown,
            )
            for tool in found.tools
        ),
    )
    return {
        "format": made.format.value,
        "tools": [*made.tools],
        "index": {**made.index},
        "dropped": [
            {"serverId": one.server, "name": one.name, "reason": one.reason} for one in made.dropped
        ],
        "etag": made.etag,
    }
