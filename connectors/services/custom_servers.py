"""A member's own servers: added, changed and, with their last connection, removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from connectors import events, selectors
from connectors.models import Connection, CustomServer
from connectors.server_spec import AuthType, Transport
from connectors.services import authorizations, connections, header_rules, tool_table
from mcphub.core import ids
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    LimitError,
    NotFoundError,
    NotPermittedError,
)
from mcphub.core.types import JSONObject
from oauth.names import LostReason
from tenants.models import Tenant
from tenants.principal import Principal

CHANGEABLE = frozenset(
    {
        "name",
        "url",
        "transport",
        "auth_type",
        "auth_config",
        "connect_timeout",
        "call_timeout",
        "auto_reconnect",
        "relay_elicitation",
        "relay_sampling",
        "relay_roots",
        "definition_policy",
    }
)
SESSION_FIELDS = frozenset(
    {
        "transport",
        "auth_type",
        "auth_config",
        "connect_timeout",
        "relay_elicitation",
        "relay_sampling",
        "relay_roots",
    }
)
"""A change of these takes effect with the next session, so a wanted one is reopened."""

ATTEMPTS = 50
"""To find an id of its own for a server, when others are added at the same moment."""


class SlugTakenError(ConflictError):
    code = "server_id_taken"
    title = "Another server has this id"


class TooManyServersError(LimitError):
    code = "too_many_servers"
    title = "The tenant has as many custom servers as it may"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewServer:
    """A server to add; `fields` are further ones of CHANGEABLE."""

    name: str
    url: str
    auth_type: AuthType = AuthType.NONE
    credentials: JSONObject = field(default_factory=dict, repr=False)
    slug: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


def create_custom_server(principal: Principal, new: NewServer) -> Connection:
    """Add a server with its first connection; not connected yet.

    Raises BlockedUrlError, InvalidInputError, SlugTakenError, TooManyServersError,
    NotPermittedError.
    """
    if not principal.may_add_servers:
        raise NotPermittedError("This session may not add servers.")
    values = {**new.fields, "name": new.name, "url": new.url, "auth_type": new.auth_type}
    _check(values)
    header_rules.check(new.credentials, new.auth_type)
    _check_room(principal)
    for attempts_left in reversed(range(ATTEMPTS if new.slug is None else 1)):
        try:
            return _insert(principal, new, values)
        except IntegrityError as exc:  # somebody took the id that was free a moment ago
            if not attempts_left:
                raise SlugTakenError from exc
    raise SlugTakenError


def _insert(principal: Principal, new: NewServer, values: Mapping[str, Any]) -> Connection:
    slug = _slug(principal, new)
    with transaction.atomic():
        server = CustomServer(
            tenant_id=principal.tenant_id, member_id=principal.member_id, **values
        )
        server.save(force_insert=True)
        row = Connection(
            tenant_id=principal.tenant_id,
            member_id=principal.member_id,
            custom_server=server,
            slug=slug,
            name=new.name,
        )
        row.save(force_insert=True)
        if new.credentials:
            row = connections.set_credentials(principal, row, new.credentials)
        events.announce_server(row)
    return row


def update_custom_server(
    principal: Principal, connection: Connection, changes: Mapping[str, Any]
) -> Connection:
    """Change a member's own server. Another `url` drops credentials, sessions and catalog (W08).

    `name` names the server and this connection. Raises NotFoundError for a preset, BlockedUrlError,
    InvalidInputError.
    """
    server = connection.custom_server
    if server is None or server.member_id != principal.member_id:
        raise NotFoundError
    _check(changes)
    new = {name: value for name, value in changes.items() if getattr(server, name) != value}
    siblings = Connection.objects.of(principal).filter(custom_server=server)
    with transaction.atomic():
        if "url" in new or "auth_type" in new:
            connections.address_changed(siblings)
            new |= {"detected_era": "", "detected_transport": ""}
        if authorizations.is_other_client(
            server.auth_config, new.get("auth_config", server.auth_config)
        ):
            keys = siblings.values_list("pk", flat=True)
            authorizations.revoke_after_commit(list(keys), LostReason.SERVER_CHANGED)
        for name, value in new.items():
            setattr(server, name, value)
        server.save(update_fields=[*new, "updated_at"])
        if "name" in new:
            connection.name = server.name
            connection.save(update_fields=["name", "updated_at"])
        _take_effect(siblings, set(new))
    return selectors.connection_for(principal, connection.slug)


def _take_effect(siblings: QuerySet[Connection], changed: set[str]) -> None:
    for row in siblings.all():
        if "definition_policy" in changed:
            tool_table.bump_version(row)
        if row.is_wanted and changed & SESSION_FIELDS:
            connections.reopen(row)
        else:
            events.announce_server(row)


def _check(values: Mapping[str, Any]) -> None:
    problems = [
        FieldProblem(path=f"/{name}", message="This cannot be set.", code="unknown_field")
        for name in sorted(set(values) - CHANGEABLE)
    ]
    if values.get("transport") == Transport.STDIO:
        problems.append(
            FieldProblem(path="/transport", message="Only an operator can add stdio servers.")
        )
    if problems:
        raise InvalidInputError("The server cannot be stored.", problems=problems)
    if "url" in values:
        policy_from_settings().check_url(values["url"])


def _check_room(principal: Principal) -> None:
    tenant = Tenant.objects.filter(pk=principal.tenant_id).only("max_custom_servers").first()
    if tenant is None:
        raise NotFoundError
    if CustomServer.objects.of(principal).count() >= tenant.max_custom_servers:
        raise TooManyServersError(f"The limit is {tenant.max_custom_servers}.")


def _slug(principal: Principal, new: NewServer) -> str:
    taken = selectors.taken_slugs(principal)
    if new.slug is None:
        return selectors.free_slug(ids.slug_from(new.name), taken)
    if not ids.is_slug(new.slug):
        raise InvalidInputError(
            "The id cannot be used.",
            problems=[FieldProblem(path="/id", message=ids.SLUG_RULE, code="bad_slug")],
        )
    if new.slug in taken:
        raise SlugTakenError
    return new.slug
