"""The lists: what the connected servers offer, out of their stored catalogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from connectors import selectors
from connectors.models import ListingKind
from connectors.selectors import ToolView
from gateway import eras, pages
from gateway.exchange import Exchange
from gateway.methods import tool_search
from gateway.projection.results import Projection
from gateway.sources import META_KEY, Source, sources_of
from mcphub.core.types import JSONObject
from tenants.principal import Scope

ORIGINAL_META_KEY = "mcphub/originalDescription"
DEFINITION_META_KEY = "mcphub/definition"

Shown = Callable[[Projection, JSONObject], "JSONObject | None"]


async def list_tools(exchange: Exchange) -> JSONObject:
    """Return the tools that may be called here: listed, enabled, within the endpoint's limits."""
    found = await _sources(exchange, ListingKind.TOOLS)
    items = await _offered(exchange, found)
    if not tool_search.is_active(exchange):
        return _listed(exchange, "tools", items, found)
    listed = _listed(exchange, "tools", tool_search.TOOLS, found)
    meta = listed["_meta"]
    told: JSONObject = {"found": len(items), "with": tool_search.SEARCH}
    named = {tool_search.MODE_META_KEY: told}
    return {**listed, "_meta": {**meta, **named} if isinstance(meta, dict) else {**named}}


async def search_tools(exchange: Exchange) -> JSONObject:
    """Answer a call of the hub's own `search_tools`."""
    found = await _sources(exchange, ListingKind.TOOLS)
    return tool_search.found_in(exchange, await _offered(exchange, found))


async def list_resources(exchange: Exchange) -> JSONObject:
    return await _list(exchange, ListingKind.RESOURCES, "resources", Projection.resource)


async def list_templates(exchange: Exchange) -> JSONObject:
    return await _list(exchange, ListingKind.TEMPLATES, "resourceTemplates", Projection.template)


async def list_prompts(exchange: Exchange) -> JSONObject:
    return await _list(exchange, ListingKind.PROMPTS, "prompts", Projection.prompt)


async def _list(exchange: Exchange, kind: ListingKind, key: str, shown: Shown) -> JSONObject:
    found = await _sources(exchange, kind)
    items: list[JSONObject] = []
    for source in found:
        projection = Projection(server=source.slug, is_identity=not exchange.endpoint.is_aggregate)
        stored = source.listed.items if source.listed and source.is_connected else ()
        items += [item for each in stored if (item := shown(projection, each)) is not None]
    return _listed(exchange, key, items, found)


async def _sources(exchange: Exchange, kind: ListingKind) -> tuple[Source, ...]:
    exchange.principal.require(Scope.SERVERS_READ)
    return await sources_of(exchange.principal, exchange.endpoint, kind)


async def _offered(exchange: Exchange, found: tuple[Source, ...]) -> list[JSONObject]:
    of_each = await asyncio.gather(*(_tools_of(exchange, source) for source in found))
    return [item for items in of_each for item in items]


async def _tools_of(exchange: Exchange, source: Source) -> list[JSONObject]:
    if not source.is_connected:
        return []
    endpoint = exchange.endpoint
    newest = source.connection.catalog_version
    found = await selectors.targets.find(
        exchange.principal, source.slug, lambda kept: kept.connection.catalog_version >= newest
    )
    tools = [
        tool
        for tool in found.tools.values()
        if tool.is_offered and selectors.is_shown_to(exchange.principal, tool)
    ]
    projection = Projection(
        server=source.slug,
        is_identity=not endpoint.is_aggregate,
        tool_names={tool.name: tool.public_name for tool in tools},
    )
    shown = (projection.tool(_with_policy(tool)) for tool in tools)
    return [item for item in shown if item and endpoint.has_tool(str(item.get("name")))]


def _with_policy(tool: ToolView) -> JSONObject:
    """Return the tool as it is shown; what the user's policy changed in it is said in `_meta`."""
    told: JSONObject = {}
    if tool.description_override:
        told[ORIGINAL_META_KEY] = tool.item.get("description")
    if tool.is_blocked:
        told[DEFINITION_META_KEY] = {"standing": tool.standing.value, "blocked": True}
    if not told:
        return tool.shown
    meta = tool.item.get("_meta")
    return {**tool.shown, "_meta": {**(meta if isinstance(meta, dict) else {}), **told}}


def _listed(
    exchange: Exchange, key: str, items: list[JSONObject], found: tuple[Source, ...]
) -> JSONObject:
    result = pages.page_of(key, items, exchange.params.get("cursor"))
    if exchange.endpoint.is_aggregate:
        result["_meta"] = {META_KEY: [source.wire for source in found]}
    ages = [source.listed.ttl_ms for source in found if source.listed]
    result["ttlMs"] = min(ages, default=0)
    return eras.result_for(exchange.era, exchange.request.method, result)
