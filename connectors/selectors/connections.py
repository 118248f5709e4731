"""The tenant gate of servers: which connections and presets one principal may see.

An unknown id, another member's and one outside a connect session's limits answer the same
NotFoundError.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

from django.db.models import Q, QuerySet

from connectors.models import Connection, Connector, CustomServer
from mcphub.core import ids
from mcphub.core.errors import NotFoundError
from tenants.principal import Principal


def connectors_for(principal: Principal) -> list[Connector]:
    """Return the enabled presets in their order; a tenant's own hides the global one of its slug.

    One query.
    """
    rows = Connector.objects.of(principal).filter(is_enabled=True)
    if principal.allowed_connectors is not None:
        rows = rows.filter(slug__in=principal.allowed_connectors)
    found = list(rows)
    own = {row.slug for row in found if row.tenant_id is not None}
    return [row for row in found if row.tenant_id is not None or row.slug not in own]


def preset_slugs(principal: Principal) -> set[str]:
    """Return the ids of every preset of the tenant, switched off ones included; one query."""
    return set(Connector.objects.of(principal).values_list("slug", flat=True))


def connector_for(principal: Principal, slug: str) -> Connector:
    """Return one preset, enabled or not, of the tenant itself or global. Raises NotFoundError."""
    rows = Connector.objects.of(principal).filter(slug=slug)
    if principal.allowed_connectors is not None:
        rows = rows.filter(slug__in=principal.allowed_connectors)
    found = sorted(rows, key=lambda row: row.tenant_id is None)
    if not found:
        raise NotFoundError
    return found[0]


def rows_for(principal: Principal) -> QuerySet[Connection]:
    """Return the connections to servers that are enabled and allowed, each with its server."""
    rows = _member_rows(principal).filter(Q(connector__isnull=True) | Q(connector__is_enabled=True))
    if principal.allowed_connectors is None:
        return rows
    is_allowed = Q(connector__slug__in=principal.allowed_connectors)
    if principal.may_add_servers:
        is_allowed |= Q(custom_server__isnull=False)
    return rows.filter(is_allowed)


def connections_for(principal: Principal) -> list[Connection]:
    """Return every server: presets in their order, then the others by age; two queries.

    A preset that was never used comes as an unsaved row (`is_virtual`).
    """
    rows = list(_member_rows(principal).order_by("created_at", "id"))
    presets = connectors_for(principal)
    place: dict[uuid.UUID | None, int] = {
        preset.pk: number for number, preset in enumerate(presets)
    }
    shown = [*_virtual_rows(principal, presets, rows)]
    shown += [row for row in rows if _may_see(principal, row)]
    return sorted(shown, key=lambda row: place.get(row.connector_id, len(place)))


def connection_for(principal: Principal, slug: str) -> Connection:
    """Return the connection with this public id. Raises NotFoundError.

    A preset that was never used comes as an unsaved row (`is_virtual`); `connections.ensure`
    stores it. One query for a used server, three for another.
    """
    row = rows_for(principal).filter(slug=slug).first()
    if row is not None:
        return row
    rows = list(_member_rows(principal))
    for candidate in _virtual_rows(principal, connectors_for(principal), rows):
        if candidate.slug == slug:
            return candidate
    raise NotFoundError


def is_virtual(connection: Connection) -> bool:
    """Whether this stands for a preset that has no row yet."""
    return bool(connection._state.adding)  # noqa: SLF001  (documented: Model._state)


def server_of(connection: Connection) -> Connector | CustomServer:
    """Return the preset or custom server behind a connection."""
    server = connection.connector or connection.custom_server
    if server is None:
        raise NotFoundError
    return server


def taken_slugs(principal: Principal) -> set[str]:
    """Return the public ids that are in use for this member, presets included; two queries."""
    rows = Connection.objects.of(principal).filter(member_id=principal.member_id)
    return {*rows.values_list("slug", flat=True), *preset_slugs(principal)}


def free_slug(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted`, or it with the first number that makes it free."""
    used = set(taken)
    if wanted not in used:
        return wanted
    for number in range(2, 10_000):
        suffix = f"-{number}"
        candidate = wanted[: ids.SLUG_MAX - len(suffix)].rstrip("-_") + suffix
        if candidate not in used:
            return candidate
    raise NotFoundError


def _member_rows(principal: Principal) -> QuerySet[Connection]:
    rows = Connection.objects.of(principal).filter(member_id=principal.member_id)
    return rows.select_related("connector", "custom_server")


def _may_see(principal: Principal, row: Connection) -> bool:
    """Apply the rule of `rows_for`, for rows that are read already."""
    connector = row.connector
    if connector is None:
        return principal.allowed_connectors is None or principal.may_add_servers
    allowed = principal.allowed_connectors
    return connector.is_enabled and (allowed is None or connector.slug in allowed)


def _virtual_rows(
    principal: Principal, presets: list[Connector], rows: list[Connection]
) -> Iterator[Connection]:
    """Yield an unsaved connection for each preset without its own one.

    The preset's own connection is the one under its slug; where that id belongs to another server,
    any connection to the preset counts.
    """
    taken = {row.slug: row.connector_id for row in rows}
    used = {row.connector_id for row in rows}
    for preset in presets:
        is_elsewhere = taken.get(preset.slug, preset.pk) != preset.pk
        if preset.pk in used and (is_elsewhere or preset.slug in taken):
            continue
        slug = free_slug(preset.slug, taken)
        taken[slug] = preset.pk
        yield Connection(
            tenant_id=principal.tenant_id,
            member_id=principal.member_id,
            connector=preset,
            slug=slug,
            name=preset.name,
            created_at=preset.created_at,
        )
