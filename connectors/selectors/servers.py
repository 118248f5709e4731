"""Servers and their catalogs as one principal sees them; query counts do not grow with the rows."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from django.db.models import QuerySet

from connectors.definitions import DefinitionPolicy, stricter
from connectors.models import (
    CatalogListing,
    CatalogTool,
    Connection,
    Connector,
    ListingKind,
    TimelineEntry,
)
from connectors.models.server_fields import ServerFields
from connectors.selectors.authorizations import with_authorizations
from connectors.selectors.connections import (
    connection_for,
    connections_for,
    is_virtual,
    server_of,
)
from connectors.selectors.inputs import pending_of
from connectors.selectors.spec import relays_of, signs_in
from connectors.selectors.views import AuthView, ServerView, SourceOutcome, ToolsOfAll, ToolView
from connectors.server_spec import AuthType, Transport
from connectors.states import State
from mcphub.core.errors import NotFoundError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

logger = logging.getLogger(__name__)

TOOL_COLUMNS = (
    "name",
    "public_name",
    "digest",
    "approved_digest",
    "approved_definition",
    "description_override",
    "is_enabled",
    "is_listed",
    "connection__slug",
    "connection__definition_policy",
    "connection__connector__definition_policy",
    "connection__custom_server__definition_policy",
)
MISCONFIGURED: JSONObject = {
    "message": "What is stored of this server cannot be read as a whole.",
    "code": "misconfigured",
    "retryable": False,
    "hint": "An operator can correct the server's auth config in the admin site.",
}


class UnknownToolError(NotFoundError):
    code = "unknown_tool"
    title = "The server has no such tool"


def servers_for(principal: Principal) -> list[ServerView]:
    """Return every server of the principal with its tools and open questions.

    Five queries, and two more where one of them signs in.
    """
    rows = connections_for(principal)
    tools = _tools_of(principal, _stored(rows))
    pending = pending_of(principal, _stored(rows))
    views = [
        replace(view, tools=_shown(principal, tools[row.pk]), pending=pending.get(row.pk, ()))
        for row in rows
        if (view := _readable(row)) is not None
    ]
    return with_authorizations(principal, views)


def server_for(principal: Principal, slug: str) -> ServerView:
    """Return one server with its tools. Raises NotFoundError."""
    row = connection_for(principal, slug)
    tools = _tools_of(principal, _stored([row]))
    pending = pending_of(principal, _stored([row]))
    shown = _shown(principal, tools[row.pk])
    view = replace(view_of(row), tools=shown, pending=pending.get(row.pk, ()))
    return with_authorizations(principal, [view])[0]


def tools_for(principal: Principal, connection: Connection) -> list[ToolView]:
    """Return the tools of one connection in the server's own order; two queries."""
    return _tools_of(principal, _stored([connection]))[connection.pk]


def tool_for(principal: Principal, connection: Connection, name: str) -> CatalogTool:
    """Return the row of a tool by the server's name, else by public name. Raises NotFoundError."""
    rows = CatalogTool.objects.of(principal).filter(connection_id=connection.pk)
    found = rows.filter(name=name).first() or rows.filter(public_name=name).first()
    if found is None:
        raise UnknownToolError
    return found


def listing_for(
    principal: Principal, connection: Connection, kind: ListingKind
) -> CatalogListing | None:
    """Return the stored listing of one kind; None when it was never read."""
    return _listings_of(principal, _stored([connection]), kind).first()


def listings_for(
    principal: Principal, connection_ids: Sequence[uuid.UUID], kind: ListingKind
) -> dict[uuid.UUID, CatalogListing]:
    """Return the stored listings of one kind by connection; one query."""
    return {row.connection_id: row for row in _listings_of(principal, connection_ids, kind)}


def tool_view_for(principal: Principal, connection: Connection, name: str) -> ToolView:
    """Return one listed tool by the server's name. Raises UnknownToolError; two queries."""
    for tool in tools_for(principal, connection):
        if tool.name == name:
            return tool
    raise UnknownToolError


def is_shown_to(principal: Principal, tool: ToolView) -> bool:
    """Whether a tool is part of the lists of this principal."""
    return tool.is_read_only or not principal.is_read_only


def definition_policy_of(row: Connection) -> DefinitionPolicy:
    """Return the stricter one of the member's and the server's own."""
    return stricter(row.definition_policy, server_of(row).definition_policy)


def timeline_for(principal: Principal, connection: Connection) -> QuerySet[TimelineEntry]:
    """Return the steps of a connection's life, newest first."""
    rows = TimelineEntry.objects.of(principal).filter(connection_id=connection.pk)
    return rows.order_by("-id")


def tools_of_all(
    principal: Principal, servers: Sequence[str] | None = None, q: str = ""
) -> ToolsOfAll:
    """Return the listed tools of several servers and how each contributed; four queries.

    `servers` narrows to public ids (an unknown one raises NotFoundError), `q` to a part of the
    name, title or description.
    """
    rows = connections_for(principal)
    if servers is not None:
        by_slug = {row.slug: row for row in rows}
        rows = [by_slug.get(slug) or connection_for(principal, slug) for slug in servers]
    stored = _stored(rows)
    listings = {
        row.connection_id: row for row in _listings_of(principal, stored, ListingKind.TOOLS)
    }
    tools = {
        pk: _shown(principal, found)
        for pk, found in _tools_of(principal, stored, listings.values()).items()
    }
    words = q.lower().split()
    found = [tool for row in rows for tool in tools.get(row.pk, ()) if _is_match(tool, words)]
    sources = [_outcome(row, listings.get(row.pk), len(tools.get(row.pk, ()))) for row in rows]
    return ToolsOfAll(tools=tuple(found), sources=tuple(sources))


def view_of(row: Connection) -> ServerView:
    """Return the picture of one connection, without tools; no query when its server is loaded."""
    server = server_of(row)
    preset = server if isinstance(server, Connector) else None
    header_names, scopes = auth_lists(server)
    kind = AuthType.OAUTH if signs_in(row) else AuthType(server.auth_type)
    has_secrets = bool(row.sealed_credentials) or bool(preset and preset.sealed_secrets)
    return ServerView(
        slug=row.slug,
        kind="connector" if preset else "custom",
        connector=preset.slug if preset else None,
        name=row.name,
        url=preset_url(preset) if preset else server.url,
        icon=preset.icon if preset else "",
        state=State(row.state),
        last_error=row.last_error or (None if is_readable(server) else MISCONFIGURED),
        auth=AuthView(
            type=kind,
            has_credentials=has_secrets and kind not in {AuthType.NONE, AuthType.OAUTH},
            header_names=header_names,
            scopes=scopes,
        ),
        transport=row.transport_used or _transport(server.transport),
        protocol_version=row.protocol_version,
        server_info=row.server_info,
        capabilities=row.capabilities,
        instructions=row.instructions,
        connect_timeout=server.connect_timeout,
        relays=relays_of(row),
        definition_policy=definition_policy_of(row),
        attempt=row.attempt,
        next_retry_at=row.next_retry_at,
        connected_at=row.connected_at,
        created_at=row.created_at,
        catalog_version=row.catalog_version,
        connection_id=None if is_virtual(row) else row.pk,
    )


def auth_lists(server: ServerFields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return header names and scopes, as far as `auth_config` can be read."""
    config = server.auth_config if isinstance(server.auth_config, dict) else {}
    return _texts(config.get("headerNames")), _texts(config.get("scopes"))


def is_readable(server: ServerFields) -> bool:
    """Whether `auth_config` is what the hub itself would have stored."""
    config = server.auth_config
    if not isinstance(config, dict):
        return False
    stored = (config.get("headerNames", []), config.get("scopes", []))
    return stored == tuple(map(list, auth_lists(server)))


def _readable(row: Connection) -> ServerView | None:
    """Return the picture of a row; a row that has none must not hide the others."""
    try:
        return view_of(row)
    except (ValueError, TypeError, AttributeError) as exc:
        logger.warning("server left out id=%s error=%s", row.slug, type(exc).__name__)
        return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _transport(text: str) -> str:
    return Transport(text).value


def preset_url(preset: Connector) -> str:
    """Return a preset's address without its query, which may hold an operator's key (W02)."""
    parts = urlsplit(preset.url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def _stored(rows: Iterable[Connection]) -> list[uuid.UUID]:
    return [row.pk for row in rows if not is_virtual(row)]


def _listings_of(
    principal: Principal, pks: Sequence[uuid.UUID], kind: ListingKind
) -> QuerySet[CatalogListing]:
    return CatalogListing.objects.of(principal).filter(connection_id__in=pks, kind=kind)


def _shown(principal: Principal, tools: Sequence[ToolView]) -> tuple[ToolView, ...]:
    return tuple(tool for tool in tools if is_shown_to(principal, tool))


def _tools_of(
    principal: Principal,
    pks: Sequence[uuid.UUID],
    listings: Iterable[CatalogListing] | None = None,
) -> dict[uuid.UUID, list[ToolView]]:
    """Return tools by connection, as listed now; `pks` come from the tenant gate."""
    tools: dict[uuid.UUID, list[ToolView]] = defaultdict(list)
    if not pks:
        return tools
    known: dict[tuple[uuid.UUID, str], CatalogTool] = {}
    rows = CatalogTool.objects.of(principal).filter(connection_id__in=pks, is_listed=True)
    related = rows.select_related("connection__connector", "connection__custom_server")
    for row in related.only(*TOOL_COLUMNS):
        known[row.connection_id, row.name] = row
    if listings is None:
        listings = _listings_of(principal, pks, ListingKind.TOOLS)
    for listing in listings:
        for item in listing.items:
            tool = known.get((listing.connection_id, str(item.get("name"))))
            if tool is not None:
                tools[listing.connection_id].append(_tool_view(tool, item))
    return tools


def _tool_view(row: CatalogTool, item: dict[str, object]) -> ToolView:
    return ToolView(
        name=row.name,
        public_name=row.public_name,
        is_enabled=row.is_enabled,
        server=row.connection.slug,
        connection_id=row.connection_id,
        item=item,  # type: ignore[arg-type]  # JSONField content is JSON
        digest=row.digest,
        is_listed=row.is_listed,
        description_override=row.description_override,
        standing=row.standing,
        policy=definition_policy_of(row.connection),
        approved_definition=row.approved_definition,
    )


def _is_match(tool: ToolView, words: Sequence[str]) -> bool:
    shown = tool.shown
    texts = (tool.name, tool.public_name, shown.get("title"), shown.get("description"))
    whole = " ".join(text for text in texts if isinstance(text, str)).lower()
    return all(word in whole for word in words)


def _outcome(row: Connection, listing: CatalogListing | None, count: int) -> SourceOutcome:
    return SourceOutcome(
        server=row.slug,
        state=State(row.state),
        tool_count=count,
        error=(listing.error if listing else None) or row.last_error,
        problems=tuple(listing.problems) if listing else (),
        fetched_at=listing.fetched_at if listing else None,
    )
