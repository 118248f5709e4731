"""Sources: the servers behind an endpoint, as the principal may see them, and how each stands."""

from __future__ import annotations

from dataclasses import dataclass

from connectors import selectors
from connectors.api import threads
from connectors.models import Connection
from connectors.selectors import ConnectionView
from connectors.states import State
from gateway.endpoint import Endpoint
from mcphub.core.errors import ConflictError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

META_KEY = "mcphub/sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One server of an endpoint; what it declares is as of its last connection."""

    connection: ConnectionView
    name: str
    capabilities: JSONObject
    server_info: JSONObject
    instructions: str
    error: JSONObject | None = None

    @property
    def slug(self) -> str:
        return self.connection.slug

    @property
    def is_connected(self) -> bool:
        return self.connection.state is State.CONNECTED

    @property
    def wire(self) -> JSONObject:
        """What a client is told of the source."""
        told: JSONObject = {"server": self.slug, "state": self.connection.state.wire}
        return told if self.error is None else {**told, "error": self.error}


async def sources_of(principal: Principal, endpoint: Endpoint) -> tuple[Source, ...]:
    """Return what is behind an endpoint: on the aggregate, whatever is connected or should be.

    Raises NotFoundError, and ConflictError (`not_connected`) for a single server that never was.
    """
    return await threads.run(_read, principal, endpoint)


def _read(principal: Principal, endpoint: Endpoint) -> tuple[Source, ...]:
    if endpoint.server is not None:
        row = selectors.connection_for(principal, endpoint.server)
        if selectors.is_virtual(row) or not row.protocol_version:
            raise ConflictError(
                "The server was never connected; connect it first.", code="not_connected"
            )
        return (_source(row),)
    rows = selectors.connections_for(principal)
    return tuple(_source(row) for row in rows if _is_part(row, endpoint))


def _is_part(row: Connection, endpoint: Endpoint) -> bool:
    if selectors.is_virtual(row) or not endpoint.has_server(row.slug):
        return False
    return row.is_wanted or row.state == State.CONNECTED


def _source(row: Connection) -> Source:
    return Source(
        connection=selectors.connection_view(row),
        name=row.name,
        capabilities=row.capabilities,
        server_info=row.server_info,
        instructions=row.instructions,
        error=row.last_error,
    )
