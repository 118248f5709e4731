"""Requests that a server answers: which one it is, and under which names it knows what is meant."""

from __future__ import annotations

from mcp_types.jsonrpc import INVALID_PARAMS

from connectors import selectors
from connectors.api import threads
from connectors.models import ListingKind
from connectors.selectors import CallTarget, ConnectionView, UnknownToolError
from connectors.server_spec import Era
from connectors.services import tool_policy
from gateway import param_headers, relay
from gateway.exchange import Exchange
from gateway.methods import catalog, tool_search
from gateway.projection import names
from gateway.projection.requests import Addressed, addressed_by_template, addressed_by_uri
from gateway.sources import sources_of
from gateway.wire import RpcFault
from mcphub.core.types import JSONObject

RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; later it is INVALID_PARAMS (server/resources)."""


async def call_tool(exchange: Exchange) -> JSONObject:
    name = _text(exchange.params, "name")
    if tool_search.is_active(exchange) and name == tool_search.SEARCH:
        return await catalog.search_tools(exchange)
    if tool_search.is_active(exchange) and name == tool_search.CALL:
        return await call_tool(tool_search.unwrapped(exchange))
    arguments = exchange.params.get("arguments", {})
    if not isinstance(arguments, dict):
        raise RpcFault(INVALID_PARAMS, "`arguments` is an object.")
    target = await _tool_target(exchange, name)
    own = target.tool.name if target.tool else name
    tool_policy.check(exchange.principal, target.tool)
    if exchange.is_modern:
        await param_headers.check(target.tool, arguments, exchange.headers)
    params = _without_task(exchange, target.connection, {**exchange.params, "name": own})
    return await relay.run(exchange, target.connection, target=own, params=params)


async def read_resource(exchange: Exchange) -> JSONObject:
    uri = _text(exchange.params, "uri")
    addressed = _addressed(exchange, addressed_by_uri(exchange.params))
    if addressed is None:
        code = INVALID_PARAMS if exchange.is_modern else RESOURCE_NOT_FOUND
        raise RpcFault(code, "Resource not found", {"uri": uri})
    connection = await _connection(exchange, addressed.server)
    return await relay.run(
        exchange, connection, target=str(addressed.params["uri"]), params=addressed.params
    )


async def get_prompt(exchange: Exchange) -> JSONObject:
    name = _text(exchange.params, "name")
    server, own = await _prompt_origin(exchange, name)
    connection = await _connection(exchange, server)
    params = {**exchange.params, "name": own}
    return await relay.run(exchange, connection, target=own, params=params)


async def complete(exchange: Exchange) -> JSONObject:
    ref = exchange.params.get("ref")
    if not isinstance(ref, dict) or not isinstance(exchange.params.get("argument"), dict):
        raise RpcFault(INVALID_PARAMS, "`ref` and `argument` are objects.")
    if ref.get("type") == "ref/prompt":
        server, own = await _prompt_origin(exchange, _text(ref, "name"))
        params: JSONObject = {**exchange.params, "ref": {**ref, "name": own}}
    else:
        addressed = _addressed(exchange, addressed_by_template(exchange.params))
        if addressed is None:
            raise RpcFault(INVALID_PARAMS, "There is no such resource template.")
        server, params = addressed.server, addressed.params
    connection = await _connection(exchange, server)
    return await relay.run(exchange, connection, target="", params=params)


def _without_task(exchange: Exchange, connection: ConnectionView, params: JSONObject) -> JSONObject:
    """Drop the wish for a task where the server's era has no such wish (2025-11-25, tasks)."""
    if exchange.era == connection.era == Era.LEGACY:
        return params
    return {key: value for key, value in params.items() if key != "task"}


async def _tool_target(exchange: Exchange, name: str) -> CallTarget:
    """Return where a call goes; one server knows best which tools it has, listed or not.

    Raises UnknownToolError, and what the policy says of a tool that is not listed.
    """
    principal, endpoint = exchange.principal, exchange.endpoint
    if not endpoint.has_tool(name):
        raise UnknownToolError(f"Unknown tool: {name[:200]}")
    if endpoint.server is None:
        target = await selectors.public_tool_for_call(principal, name)
        if not endpoint.has_server(target.connection.slug):
            raise UnknownToolError(f"Unknown tool: {name[:200]}")
        return target
    found = await selectors.targets.find(principal, endpoint.server, lambda kept: kept.has(name))
    tool = found.tools.get(name)
    if tool is None and found.connection.catalog_version:
        await threads.run(tool_policy.check_unlisted, principal, endpoint.server, name)
    return CallTarget(connection=found.connection, tool=tool)


async def _connection(exchange: Exchange, server: str) -> ConnectionView:
    """Return the connection to a server of the endpoint. Raises NotFoundError, ConflictError."""
    return (await selectors.targets.find(exchange.principal, server)).connection


def _addressed(exchange: Exchange, public: Addressed | None) -> Addressed | None:
    """Return whose URI is meant; on the endpoint of one server it is always its own."""
    endpoint = exchange.endpoint
    if endpoint.server is not None:
        return Addressed(endpoint.server, exchange.params)
    return public if public is not None and endpoint.has_server(public.server) else None


async def _prompt_origin(exchange: Exchange, name: str) -> tuple[str, str]:
    """Return the server and its own name of a prompt. Raises RpcFault for an unknown one."""
    endpoint = exchange.endpoint
    if endpoint.server is not None:
        return endpoint.server, name
    found = await sources_of(exchange.principal, endpoint, ListingKind.PROMPTS)
    table = names.prompt_table(
        (source.slug, [str(item.get("name")) for item in source.listed.items])
        for source in found
        if source.listed is not None
    )
    origin = table.get(name)
    if origin is None:
        raise RpcFault(INVALID_PARAMS, f"Unknown prompt: {name[:200]}")
    return origin.server, origin.name


def _text(params: JSONObject, key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str) or not value:
        raise RpcFault(INVALID_PARAMS, f"`{key}` is a text.")
    return value
