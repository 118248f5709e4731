"""Catalog of one server: MCP list results with what the hub adds; switching tools off."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import queue, selectors
from connectors.api import inputs, outputs, threads, tool_outputs
from connectors.models import CatalogListing, Connection, ListingKind
from connectors.services import settling, tool_table
from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject
from tenants.api.asynchronous import async_view
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Principal, Scope

REFRESH_SECONDS = 5.0
KEYS = {
    ListingKind.TOOLS: "tools",
    ListingKind.RESOURCES: "resources",
    ListingKind.TEMPLATES: "resourceTemplates",
    ListingKind.PROMPTS: "prompts",
}


class ToolView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_WRITE)]

    @extend_schema(request=inputs.ToolPatchInput, responses=tool_outputs.ToolOutput)
    def patch(self, request: Request, server: str, tool: str) -> Response:
        """Switch a tool on or off, or show it with another description."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        found = selectors.tool_for(principal, row, tool)
        values = inputs.ToolPatchInput.read(request.data, partial=True)
        if "enabled" in values:
            tool_table.set_enabled(principal, row, found.name, is_enabled=values["enabled"])
        if "description" in values:
            text = values["description"] or ""
            tool_table.override_description(principal, row, found.name, text)
        selectors.targets.forget(principal, server)
        return Response(selectors.tool_view_for(principal, row, found.name).wire)


@async_view("GET", scope=Scope.SERVERS_READ)
async def tools(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    return await _listing(request, principal, server, ListingKind.TOOLS)


@async_view("GET", scope=Scope.SERVERS_READ)
async def resources(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    return await _listing(request, principal, server, ListingKind.RESOURCES)


@async_view("GET", scope=Scope.SERVERS_READ)
async def templates(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    return await _listing(request, principal, server, ListingKind.TEMPLATES)


@async_view("GET", scope=Scope.SERVERS_READ)
async def prompts(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    return await _listing(request, principal, server, ListingKind.PROMPTS)


async def _listing(
    request: HttpRequest, principal: Principal, server: str, kind: ListingKind
) -> HttpResponse:
    row = await threads.run(selectors.connection_for, principal, server)
    if _wants_refresh(request):
        await _refresh(principal, row, kind)
    body = await threads.run(_body, principal, row, kind)
    return JsonResponse(body)


async def _refresh(principal: Principal, row: Connection, kind: ListingKind) -> None:
    """Have the list read again, and wait for it a while. Raises NotConnectedError."""
    if not row.held_by or row.state != "connected":
        raise selectors.NotConnectedError
    before = await threads.run(_fetched_at, principal, row, kind)
    entry = queue.LaneEntry(kind=queue.EntryKind.REFRESH, id=row.pk)
    await threads.run(queue.ring, row.held_by, entry)
    await settling.until(lambda: _fetched_at(principal, row, kind) != before, REFRESH_SECONDS)


def _fetched_at(
    principal: Principal, row: Connection, kind: ListingKind
) -> tuple[datetime, object] | None:
    listing = selectors.listing_for(principal, row, kind)
    return (listing.fetched_at, listing.error) if listing else None


def _body(principal: Principal, row: Connection, kind: ListingKind) -> JSONObject:
    listing = selectors.listing_for(principal, row, kind)
    if kind is ListingKind.TOOLS:
        tools = selectors.tools_for(principal, row)
        items = [tool.wire for tool in tools if selectors.is_shown_to(principal, tool)]
    else:
        items = _marked(row, listing)
    return outputs.listing(KEYS[kind], items, listing)


def _marked(row: Connection, listing: CatalogListing | None) -> list[JSONObject]:
    """Return the server's own objects with where they come from (P19)."""
    items: list[JSONObject] = listing.items if listing else []
    return [
        {
            **item,
            "source": {"serverId": row.slug, "name": item.get("name")},
            "trusted": False,
        }
        for item in items
    ]


def _wants_refresh(request: HttpRequest) -> bool:
    text = request.GET.get("refresh", "false")
    if text not in {"true", "false"}:
        problem = FieldProblem(path="/refresh", message="true or false")
        raise InvalidInputError(problems=[problem])
    return text == "true"
