"""What a member does with a connection: connect, disconnect, name, give credentials, remove.

Web side, synchronous. The session itself is opened and closed by a worker, which is told by its
lane or by a lifecycle task; a lost message only delays, since the sweep looks again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from connectors import events, queue, selectors
from connectors.models import Connection
from connectors.models.sealed import seal_json
from connectors.server_spec import AuthType
from connectors.services import authorizations, catalog, header_rules, tool_table
from connectors.services.reopening import ask_to_open, reopen
from connectors.services.transitions import transition
from connectors.states import State
from mcphub.core import ids
from mcphub.core.errors import ConflictError, LimitError, NotFoundError, UnavailableError
from mcphub.core.types import JSONObject
from oauth import return_urls
from oauth.names import LostReason
from tenants.models import Tenant
from tenants.principal import Principal

__all__ = [
    "add_named",
    "address_changed",
    "ask_to_open",
    "connect",
    "disconnect",
    "ensure",
    "is_suspended",
    "remove",
    "rename",
    "reopen",
    "set_credentials",
    "set_log_level",
    "suspend",
    "transition",
]

ACCOUNTS_MAX = 20
"""Connections of one member to one server."""

IDLE: dict[str, Any] = {
    "is_wanted": False,
    "attempt": 0,
    "next_retry_at": None,
    "last_error": None,
    "connected_at": None,
    "sealed_session": None,
}

SUSPENDED: JSONObject = {
    "message": "The connector was switched off.",
    "code": "connector_disabled",
    "retryable": False,
    "hint": None,
}


class ConnectorNotRemovableError(ConflictError):
    code = "connector_not_removable"
    title = "A preset cannot be removed"


class TooManyConnectionsError(LimitError):
    code = "too_many_connections"
    title = "The tenant has as many connections as it may"


def ensure(principal: Principal, slug: str) -> Connection:
    """Return the stored connection with this public id; a preset gets its row on first need.

    Raises NotFoundError. Safe to run twice at once.
    """
    row = selectors.connection_for(principal, slug)
    return stored(principal, row)


def stored(principal: Principal, connection: Connection) -> Connection:
    """Return `connection` as a row of the database."""
    if not selectors.is_virtual(connection):
        return connection
    try:
        with transaction.atomic():
            connection.save(force_insert=True)
    except IntegrityError:
        return selectors.connection_for(principal, connection.slug)
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Where a sign-in leads back to, and the browser it is bound to (its digest; "" for none)."""

    return_url: str = ""
    redirect_uri: str = ""
    """The app's own, which then ends the sign-in with `complete-auth`; "" for the hub's."""
    browser_hash: str = ""


def connect(principal: Principal, connection: Connection, way: Way | None = None) -> Connection:
    """Have the session opened, now and whenever it is lost; attempts count from zero again.

    Returns at once with the row as it is then; a connection that is open already stays.
    Raises TooManyConnectionsError, InvalidInputError for the way's URLs.
    """
    row = stored(principal, connection)
    if way is not None:
        return_urls.check(principal, way.return_url)
        return_urls.check_redirect_uri(principal, way.redirect_uri)
        row.return_url, row.redirect_uri = way.return_url, way.redirect_uri
        row.browser_hash = way.browser_hash
        row.save(update_fields=["return_url", "redirect_uri", "browser_hash"])
    if row.state == State.CONNECTED.value and _has_living_holder(row):
        return row
    with transaction.atomic():
        if not row.is_wanted:
            _check_room(principal)
        reopen(row)
    row.refresh_from_db()
    return row


def disconnect(principal: Principal, connection: Connection, *, forget: bool = False) -> Connection:
    """End the session and the wish for it. Idempotent.

    `forget` drops the stored credentials and revokes the authorization.
    """
    del principal
    if selectors.is_virtual(connection):
        return connection
    signs_in = selectors.signs_in(connection)  # its stored secret is the client's, not a member's
    fields = {**IDLE, "sealed_credentials": None} if forget and not signs_in else IDLE
    with transaction.atomic():
        _end(connection, fields)
        if forget:
            authorizations.revoke_after_commit([connection.pk])
    connection.refresh_from_db()
    return connection


def suspend(row: Connection) -> None:
    """End the session because its preset is switched off; `is_suspended` keeps the wish."""
    was_wanted = row.is_wanted or is_suspended(row)
    with transaction.atomic():
        _end(row, {**IDLE, "last_error": SUSPENDED if was_wanted else None})


def is_suspended(row: Connection) -> bool:
    """Whether the session was wanted when its preset was switched off."""
    return not row.is_wanted and (row.last_error or {}).get("code") == SUSPENDED["code"]


def remove(principal: Principal, connection: Connection) -> None:
    """Delete a connection; a custom server goes with its last one.

    Raises ConnectorNotRemovableError for a preset's own connection.
    """
    custom = connection.custom_server
    has_sibling = _has_sibling(connection)
    if selectors.is_virtual(connection) or (
        custom is None and (_is_own_of_preset(connection) or not has_sibling)
    ):
        raise ConnectorNotRemovableError
    with transaction.atomic():
        _end(connection, IDLE)
        authorizations.revoke_after_commit([connection.pk])
        connection.delete()
        if custom is not None and not has_sibling:
            custom.delete()
        events.announce_server_removed(principal, connection.slug)


def rename(principal: Principal, connection: Connection, name: str) -> Connection:
    """Give a connection another display name; its public id stays."""
    row = stored(principal, connection)
    row.name = name
    row.save(update_fields=["name", "updated_at"])
    events.announce_server(row)
    return row


def set_definition_policy(principal: Principal, connection: Connection, policy: str) -> None:
    """Set the member's own; the stricter one of it and the server's counts."""
    row = stored(principal, connection)
    if row.definition_policy != policy:
        row.definition_policy = policy
        row.save(update_fields=["definition_policy", "updated_at"])
        tool_table.bump_version(row)
        events.announce_server(row)


def set_log_level(principal: Principal, row: Connection, level: str) -> None:
    """Remember from which level on the server is to log."""
    Connection.objects.of(principal).filter(pk=row.pk).update(log_level=level)


def add_named(principal: Principal, connection: Connection, name: str) -> Connection:
    """Add a further account at the same server, under a public id of its own; not connected yet.

    Raises TooManyConnectionsError.
    """
    if _accounts(connection).count() >= ACCOUNTS_MAX:
        raise TooManyConnectionsError(f"One server can have {ACCOUNTS_MAX} accounts.")
    stem = connection.slug if connection.connector is None else connection.connector.slug
    wanted = ids.slug_from(f"{stem} {name}")
    for _ in range(ACCOUNTS_MAX):
        row = Connection(
            tenant_id=principal.tenant_id,
            member_id=principal.member_id,
            connector_id=connection.connector_id,
            custom_server_id=connection.custom_server_id,
            slug=selectors.free_slug(wanted, selectors.taken_slugs(principal)),
            name=name,
        )
        with suppress(IntegrityError), transaction.atomic():  # somebody may just take the id
            row.save(force_insert=True)
            events.announce_server(row)
            return row
    raise ConflictError("Others are adding accounts; try again.")


def set_credentials(
    principal: Principal, connection: Connection, credentials: JSONObject
) -> Connection:
    """Store {"token": …} or {"headers": {…}} sealed; {} drops them. A wanted session is reopened.

    Raises InvalidInputError for headers that may not be set.
    """
    row = stored(principal, connection)
    server = selectors.server_of(row)
    header_rules.check(credentials, AuthType(server.auth_type))
    with transaction.atomic():
        row.sealed_credentials = seal_json(row, "sealed_credentials", credentials)
        row.save(update_fields=["sealed_credentials", "updated_at"])
        if row.is_wanted:
            reopen(row)
        else:
            events.announce_server(row)
    row.refresh_from_db()
    return row


def address_changed(connections: Iterable[Connection]) -> None:
    """Forget what belongs to a server's old address: credentials, session, era and catalog (W08).

    Inside the transaction that changes the address.
    """
    rows = list(connections)
    for row in rows:
        _end(
            row,
            {
                **IDLE,
                "sealed_credentials": None,
                "signs_in": False,
                "era": "",
                "transport_used": "",
                "protocol_version": "",
                "server_info": {},
                "capabilities": {},
                "instructions": "",
            },
        )
    catalog.forget(rows)
    authorizations.revoke_after_commit([row.pk for row in rows], LostReason.SERVER_CHANGED)


def _end(row: Connection, fields: dict[str, Any]) -> None:
    """Move to `disconnected` with `fields`, and have the session closed."""
    if not transition(row.pk, State.DISCONNECTED, **fields):
        Connection.unscoped.filter(pk=row.pk).update(**fields)
        events.announce_server(row)
    holder = Connection.unscoped.filter(pk=row.pk).values_list("held_by", flat=True).first()
    if holder:
        queue.ring(holder, _entry(queue.EntryKind.DISCONNECT, row.pk))


def _check_room(principal: Principal) -> None:
    tenant = Tenant.objects.filter(pk=principal.tenant_id).only("max_connections").first()
    if tenant is None:
        raise NotFoundError
    if Connection.objects.of(principal).filter(is_wanted=True).count() >= tenant.max_connections:
        raise TooManyConnectionsError(f"The limit is {tenant.max_connections}.")


def _has_living_holder(row: Connection) -> bool:
    try:
        return queue.is_alive(row.held_by)
    except UnavailableError:
        return True


def _accounts(connection: Connection) -> QuerySet[Connection]:
    """Every connection of the member to the same server."""
    rows = Connection.unscoped.filter(member_id=connection.member_id)
    if connection.custom_server_id is not None:
        return rows.filter(custom_server_id=connection.custom_server_id)
    return rows.filter(connector=connection.connector)


def _has_sibling(connection: Connection) -> bool:
    return _accounts(connection).exclude(pk=connection.pk).exists()


def _is_own_of_preset(connection: Connection) -> bool:
    return connection.connector is not None and connection.slug == connection.connector.slug


def _entry(kind: queue.EntryKind, connection_id: uuid.UUID) -> queue.LaneEntry:
    return queue.LaneEntry(kind=kind, id=connection_id)
