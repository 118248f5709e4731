"""Makes presets, custom servers, connections with a catalog, and calls, as stored rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from connectors.definitions import digest_of
from connectors.models import (
    CatalogListing,
    CatalogTool,
    Connection,
    Connector,
    CustomServer,
    InputKind,
    InputRequest,
    ListingKind,
    ToolCall,
)
from connectors.models.sealed import seal_json
from connectors.states import State
from mcphub.core.clock import now
from mcphub.core.ids import new_uuid
from mcphub.core.keys import key_ring
from mcphub.core.types import JSONObject
from tests import factories
from tests.world import Person

SEARCH: JSONObject = {
    "name": "search",
    "title": "Search",
    "description": "Finds issues.",
    "inputSchema": {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "required": ["q"],
    },
    "annotations": {"readOnlyHint": True},
    "x-odd": {"kept": [1, None]},
}


def make_connector(slug: str = "", **fields: Any) -> Connector:
    """Return a preset; global unless `tenant` is given."""
    secrets = fields.pop("secrets", None)
    name = slug or factories.unique("c")
    row = Connector(
        **{"slug": name, "name": name.title(), "url": f"https://{name}.example/mcp", **fields}
    )
    row.sealed_secrets = seal_json(row, "sealed_secrets", secrets) if secrets else None
    row.save()
    return row


def make_connection(
    person: Person, connector: Connector | CustomServer, slug: str = "", **fields: Any
) -> Connection:
    """Return the person's connection; `credentials` are sealed, `tools` are its catalog."""
    credentials = fields.pop("credentials", None)
    tools: Sequence[JSONObject] | None = fields.pop("tools", None)
    row = Connection(
        tenant=person.tenant,
        member=person.member,
        connector=connector if isinstance(connector, Connector) else None,
        custom_server=connector if isinstance(connector, CustomServer) else None,
        slug=slug or getattr(connector, "slug", "") or factories.unique("s"),
        **{"name": connector.name, **fields},
    )
    row.sealed_credentials = (
        seal_json(row, "sealed_credentials", credentials) if credentials else None
    )
    row.save()
    if tools is not None:
        make_catalog(row, tools)
    return row


def make_custom(person: Person, slug: str = "", **fields: Any) -> Connection:
    """Return the connection to a new custom server."""
    server_fields = {
        name: fields.pop(name) for name in ("url", "auth_type", "auth_config") if name in fields
    }
    name = slug or factories.unique("own")
    server = CustomServer.unscoped.create(
        tenant=person.tenant,
        member=person.member,
        name=name.title(),
        **{"url": f"https://{name}.example/mcp", **server_fields},
    )
    return make_connection(person, server, name, **fields)


def make_connected(person: Person, slug: str = "", **fields: Any) -> Connection:
    """Return a connected custom server with one tool, `search`."""
    return make_custom(
        person,
        slug,
        **{
            "state": State.CONNECTED.value,
            "is_wanted": True,
            "connected_at": now(),
            "protocol_version": "2025-11-25",
            "era": "legacy",
            "tools": [SEARCH],
            **fields,
        },
    )


def make_catalog(row: Connection, tools: Sequence[JSONObject]) -> None:
    """Store a listing of tools, as a refresh would."""
    CatalogListing.unscoped.create(
        tenant=row.tenant,
        connection=row,
        kind=ListingKind.TOOLS,
        items=list(tools),
        problems=[{"index": 9, "name": None, "reason": "name_missing"}],
        fetched_at=now(),
    )
    for tool in tools:
        CatalogTool.unscoped.create(
            tenant=row.tenant,
            member=row.member,
            connection=row,
            name=str(tool["name"]),
            public_name=f"{row.slug}__{tool['name']}",
            digest=digest_of(tool),
            approved_digest=digest_of(tool),
        )
    row.catalog_version += 1
    row.save(update_fields=["catalog_version"])


def approved(tool: JSONObject) -> JSONObject:
    """Return what the API says of the definition of a tool that nobody has changed."""
    return {
        "digest": digest_of(tool),
        "standing": "approved",
        "policy": "warn",
        "blocked": False,
    }


def make_input(person: Person, connection: Connection, **fields: Any) -> InputRequest:
    """Return an open question of a connection; `params` are sealed."""
    params = fields.pop("params", {"message": "Who?", "requestedSchema": {"type": "object"}})
    at = now()
    row = InputRequest(
        tenant=person.tenant,
        member_id=person.member.pk,
        connection=connection,
        **{
            "kind": InputKind.FORM,
            "created_at": at,
            "expires_at": at + timedelta(seconds=600),
            **fields,
        },
    )
    content: JSONObject = {"method": "elicitation/create", "params": params}
    row.sealed_params = seal_json(row, "sealed_params", content) or b""
    row.save()
    return row


def make_call(person: Person, connection: Connection, **fields: Any) -> ToolCall:
    """Return a queued call of `search`; `outcome` is sealed."""
    outcome = fields.pop("outcome", None)
    pk = new_uuid()
    at = now()
    row = ToolCall(
        id=pk,
        tenant=person.tenant,
        member_id=person.member.pk,
        connection_id=connection.pk,
        server=connection.slug,
        sealed_params=b"",
        **{
            "target": "search",
            "timeout_ms": 60_000,
            "created_at": at,
            "deadline_at": at + timedelta(seconds=60),
            **fields,
        },
    )
    if outcome is not None:
        row.sealed_outcome = key_ring().seal(
            json.dumps(outcome, separators=(",", ":")).encode(), owner=f"tool_call:{pk}:outcome"
        )
    row.save()
    return row
