"""Sources: the servers behind an endpoint, as the principal may see them, and how each stands."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors import selectors
from connectors.api import threads
from connectors.models import Connection, ListingKind
from connectors.selectors import ConnectionView, RelayView
from connectors.server_spec import Era, Relay
from connectors.states import State
from gateway.endpoint import Endpoint
from gateway.projection.capabilities import Source as Declared
from mcphub.core.errors import ConflictError
from mcphub.core.patience import database_patience
from mcphub.core.types import JSONObject
from tenants.principal import Principal

META_KEY = "mcphub/sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A stored listing; `error` is set when the last refresh of it failed."""

    items: tuple[JSONObject, ...] = field(repr=False)
    error: JSONObject | None = None
    ttl_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One server of an endpoint; what it declares is as of its last connection."""

    connection: ConnectionView
    name: str
    capabilities: JSONObject
    server_info: JSONObject
    instructions: str
    error: JSONObject | None = None
    relays: Mapping[Relay, RelayView] = field(default_factory=dict)
    listed: Listed | None = None

    @property
    def slug(self) -> str:
        return self.connection.slug

    @property
    def is_connected(self) -> bool:
        return self.connection.state is State.CONNECTED

    @property
    def declared(self) -> Declared:
        """What the server declares, for the choice of what is advertised."""
        return Declared(
            server=self.slug,
            era=Era(self.connection.era or Era.LEGACY),
            capabilities=self.capabilities,
            is_connected=self.is_connected,
            switches=frozenset(r for r, terms in self.relays.items() if terms.is_offered),
            consents=frozenset(r for r, terms in self.relays.items() if terms.is_consented),
        )

    @property
    def wire(self) -> JSONObject:
        """What a client is told of the source: never less than that it is there."""
        told: JSONObject = {"server": self.slug, "state": self.connection.state.wire}
        error = self.error or (self.listed.error if self.listed else None)
        return told if error is None else {**told, "error": error}


async def sources_of(
    principal: Principal, endpoint: Endpoint, kind: ListingKind | None = None
) -> tuple[Source, ...]:
    """Return what is behind an endpoint, with its listings of one kind.

    On the aggregate that is whatever is connected or should be. Raises NotFoundError, and
    ConflictError (`not_connected`) for a single server that never was.
    """
    async with database_patience():
        return await threads.run(read, principal, endpoint, kind)


def read(
    principal: Principal, endpoint: Endpoint, kind: ListingKind | None = None
) -> tuple[Source, ...]:
    """As `sources_of`, for code that runs in a thread."""
    rows = _rows(principal, endpoint)
    listed: Mapping[uuid.UUID, Listed] = {}
    if kind is not None:
        found = selectors.listings_for(principal, [row.pk for row in rows], kind)
        listed = {
            pk: Listed(items=tuple(row.items), error=row.error, ttl_ms=row.ttl_ms or 0)
            for pk, row in found.items()
        }
    return tuple(_source(row, listed.get(row.pk)) for row in rows)


def _rows(principal: Principal, endpoint: Endpoint) -> list[Connection]:
    if endpoint.server is None:
        rows = selectors.connections_for(principal)
        return [row for row in rows if _is_part(row, endpoint)]
    row = selectors.connection_for(principal, endpoint.server)
    if selectors.is_virtual(row) or not row.protocol_version:
        raise ConflictError(
            "The server was never connected; connect it first.", code="not_connected"
        )
    return [row]


def _is_part(row: Connection, endpoint: Endpoint) -> bool:
    if selectors.is_virtual(row) or not endpoint.has_server(row.slug):
        return False
    return row.is_wanted or row.state == State.CONNECTED


def _source(row: Connection, listed: Listed | None) -> Source:
    return Source(
        connection=selectors.connection_view(row),
        name=row.name,
        capabilities=row.capabilities,
        server_info=row.server_info,
        instructions=row.instructions,
        error=row.last_error,
        relays=selectors.relays_of(row),
        listed=listed,
    )
