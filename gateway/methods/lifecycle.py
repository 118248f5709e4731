"""initialize, server/discover and ping: who the server is, and what it can do for this client."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.jsonrpc import INVALID_PARAMS
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from gateway import eras, inventory, sessions
from gateway.exchange import Exchange
from gateway.methods import tool_search
from gateway.projection import capabilities
from gateway.sources import META_KEY, Source, sources_of
from gateway.wire import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, RpcFault
from mcphub import __version__
from mcphub.core.types import JSONObject, JSONValue

SESSION_BYTES = 32 << 10
HUB_INFO: JSONObject = {"name": "mcphub", "title": "mcphub", "version": __version__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What an endpoint says about itself."""

    server_info: JSONObject
    capabilities: JSONObject
    instructions: str
    meta: JSONObject


async def initialize(exchange: Exchange) -> JSONObject:
    """Open the session (handshake era)."""
    params = exchange.params
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        raise RpcFault(INVALID_PARAMS, "`protocolVersion` is a string.")
    known = requested in HANDSHAKE_PROTOCOL_VERSIONS
    opened = exchange.session
    if opened is None:
        raise RpcFault(INVALID_PARAMS, "There is no session to open.")
    session = replace(
        opened,
        version=requested if known else LATEST_HANDSHAKE_VERSION,
        capabilities=_object(params.get("capabilities")),
        client_info=_object(params.get("clientInfo")),
    )
    if len(session.encode()) > SESSION_BYTES:
        raise RpcFault(INVALID_PARAMS, "What the client says about itself is too long.")
    exchange.adopt(session)
    described = await _describe(exchange)
    await sessions.store(session)
    exchange.response_headers["mcp-session-id"] = session.id
    result: JSONObject = {
        "protocolVersion": session.version,
        "capabilities": described.capabilities,
        "serverInfo": described.server_info,
        "_meta": described.meta,
    }
    return _with_instructions(result, described)


async def discover(exchange: Exchange) -> JSONObject:
    """Say who this is (per-request era)."""
    described = await _describe(exchange)
    result: JSONObject = {
        "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
        "capabilities": described.capabilities,
        "_meta": {**described.meta, SERVER_INFO_META_KEY: described.server_info},
    }
    told = _with_instructions(result, described)
    return eras.result_for(exchange.era, exchange.request.method, told)


async def ping(exchange: Exchange) -> JSONObject:
    return {}


async def _describe(exchange: Exchange) -> Description:
    found = await sources_of(exchange.principal, exchange.endpoint)
    if not exchange.endpoint.is_aggregate:
        only = found[0]
        return Description(
            # A server of 2026-07-28 may leave it out; the handshake needs both.
            server_info={"name": only.name, "version": "", **only.server_info},
            capabilities=capabilities_of(found, exchange),
            instructions=only.instructions,
            meta={},
        )
    return Description(
        server_info=HUB_INFO,
        capabilities=capabilities_of(found, exchange),
        instructions=_instructions(found, is_search=tool_search.is_active(exchange)),
        meta={
            META_KEY: [source.wire for source in found],
            inventory.META_KEY: inventory.gaps(found, client_of(exchange)),
        },
    )


def capabilities_of(found: tuple[Source, ...], exchange: Exchange) -> JSONObject:
    """Return what some connected source declares and the hub relays to this client."""
    return capabilities.offered(
        (source.declared for source in found),
        client_of(exchange),
        is_aggregate=exchange.endpoint.is_aggregate,
    )


def client_of(exchange: Exchange) -> capabilities.Client:
    return capabilities.Client(version=exchange.version, capabilities=exchange.capabilities)


def _instructions(found: tuple[Source, ...], *, is_search: bool) -> str:
    """Return the instructions of every source under its name, and who is missing."""
    parts = [
        f"# {source.name} ({source.slug})\n{source.instructions}"
        for source in found
        if source.is_connected and source.instructions
    ]
    if is_search:
        parts.insert(0, tool_search.INSTRUCTIONS)
    missing = [source for source in found if not source.is_connected]
    if missing:
        named = ", ".join(f"{each.slug} ({each.connection.state.wire})" for each in missing)
        parts.append(f"These servers are not connected now: {named}.")
    return "\n\n".join(parts)


def _with_instructions(result: JSONObject, described: Description) -> JSONObject:
    if described.instructions:
        result["instructions"] = described.instructions
    if not result["_meta"]:
        del result["_meta"]
    return result


def _object(value: JSONValue) -> JSONObject:
    return value if isinstance(value, dict) else {}
