"""Inventory: what is relayed of each server to a given client, and why the rest is not.

Two matrices, of what servers offer and of what clients offer, out of the same decision that every
session is answered with (projection.capabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from connectors.started_tasks import TASKS_EXTENSION
from gateway.projection.capabilities import (
    EXPLANATIONS,
    Cell,
    Client,
    askable,
    client_cells,
    offered,
    server_cells,
)
from gateway.projection.capabilities import Source as Declared
from gateway.projection.kinds import UI_EXTENSION
from gateway.sources import Source
from mcphub.core.types import JSONObject, JSONValue

META_KEY = "mcphub/inventory"
EVERYTHING: JSONObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"context": {}, "tools": {}},
    "roots": {"listChanged": True},
    "extensions": {
        TASKS_EXTENSION: {},
        UI_EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"]},
    },
}
"""What a client can offer that the hub knows of."""

Cells = Callable[[Declared, Client], list[Cell]]


def inventory(sources: Sequence[Source], client: Client) -> JSONObject:
    """Return what `/mcp` advertises to this client, and a cell for each source and capability."""
    declared = [source.declared for source in sources]
    return {
        "client": {
            "protocolVersion": client.version,
            "era": client.era.value,
            "capabilities": client.capabilities,
        },
        "advertised": offered(declared, client, is_aggregate=True),
        "sources": [_source(source, client) for source in sources],
        "serverCapabilities": _matrix(server_cells, declared, client),
        "clientCapabilities": _matrix(client_cells, declared, client),
        "reasons": {why.value: text for why, text in EXPLANATIONS.items()},
    }


def gaps(sources: Iterable[Source], client: Client) -> JSONObject:
    """Return what is declared and not relayed, for the client itself; nothing is left unsaid."""
    declared = [source.declared for source in sources]
    return {
        "serverCapabilities": _gaps(server_cells, declared, client),
        "clientCapabilities": _gaps(client_cells, declared, client),
    }


def _source(source: Source, client: Client) -> JSONObject:
    declared = source.declared
    return {
        **source.wire,
        "era": declared.era.value,
        "declared": declared.capabilities,
        "advertised": offered([declared], client, is_aggregate=False),
        "askable": askable(declared, client),
    }


def _matrix(cells: Cells, sources: Sequence[Declared], client: Client) -> list[JSONValue]:
    rows: dict[str, JSONObject] = {}
    for source in sources:
        for cell in cells(source, client):
            rows.setdefault(cell.capability, {})[source.server] = _cell(cell)
    return [{"capability": name, "sources": of_each} for name, of_each in rows.items()]


def _gaps(cells: Cells, sources: Sequence[Declared], client: Client) -> list[JSONValue]:
    return [
        {"server": source.server, "capability": cell.capability, "whyNot": cell.why_not.value}
        for source in sources
        for cell in cells(source, client)
        if cell.is_declared and cell.why_not is not None
    ]


def _cell(cell: Cell) -> JSONObject:
    return {
        "declared": cell.is_declared,
        "relayable": cell.is_relayable,
        "relayed": cell.is_relayed,
        "whyNot": cell.why_not.value if cell.why_not else None,
        "answeredHere": cell.is_answered_here,
    }
