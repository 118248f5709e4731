"""Presets: declared by the operator in the admin site, or by a tenant's admins for their tenant.

Both ways end here: addresses are checked by the egress policy, secrets are sealed and never come
out again, and another address drops everything that belongs to the old one (W08).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from connectors import events, oauth_choices
from connectors.models import Connection, Connector
from connectors.models.sealed import open_json, seal_json
from connectors.server_spec import AuthType, Transport
from connectors.services import authorizations, connections, header_rules, preset_rules, tool_table
from mcphub.core import ids
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotPermittedError,
)
from mcphub.core.types import JSONObject
from oauth.names import LostReason
from tenants.principal import Principal, Scope

IDENTITY = frozenset({"url", "transport", "auth_type", "command"})
"""A change of these makes it another server: what was stored for the old one is dropped."""
SESSION_FIELDS = frozenset(
    {"auth_config", "connect_timeout", "relay_elicitation", "relay_sampling", "relay_roots"}
)
"""A change of these takes effect with the next session."""
EXISTS = "Another connector has this id."


class ConnectorExistsError(ConflictError):
    code = "already_exists"
    title = "There is one already"


class ConnectorIdTakenError(ConflictError):
    code = "connector_id_taken"
    title = "The operator's connector has this id"


def create_connector(
    principal: Principal, *, fields: Mapping[str, Any], secrets: JSONObject | None = None
) -> Connector:
    """Declare a preset of the principal's tenant; `fields` are columns of Connector.

    Raises NotPermittedError, ConnectorExistsError, ConnectorIdTakenError, BlockedUrlError,
    InvalidInputError.
    """
    principal.require(Scope.CONNECTORS_WRITE)
    return store(Connector(tenant_id=principal.tenant_id, **fields), secrets=secrets or {})


def update_connector(
    principal: Principal,
    connector: Connector,
    *,
    fields: Mapping[str, Any],
    secrets: JSONObject | None = None,
) -> Connector:
    """Change a preset of the principal's tenant. Raises as `create_connector`."""
    _check_owner(principal, connector)
    for name, value in fields.items():
        setattr(connector, name, value)
    return store(connector, secrets=secrets)


def delete_connector(principal: Principal, connector: Connector) -> None:
    """Remove a preset of the principal's tenant with every connection to it."""
    _check_owner(principal, connector)
    remove(connector)


def store(connector: Connector, *, secrets: JSONObject | None = None) -> Connector:
    """Insert or update a preset; `secrets` None leaves the sealed ones, {} drops them.

    Sessions of members are ended when the address changes and reopened when something else about
    the session does. Raises as `create_connector`.
    """
    check(connector, secrets)
    before = Connector.unscoped.filter(pk=connector.pk).first()
    changed = _changed(before, connector)
    is_moved = bool(changed & IDENTITY)
    if is_moved:
        connector.detected_era = connector.detected_transport = ""
    if secrets is not None or is_moved:
        connector.sealed_secrets = seal_json(connector, "sealed_secrets", secrets or {})
    try:
        with transaction.atomic():
            connector.save()
            if before is not None:
                has_new_secrets = secrets is not None and secrets != _opened(before)
                _take_effect(connector, changed, has_new_secrets=has_new_secrets)
                if authorizations.is_other_client(before.auth_config, connector.auth_config):
                    keys = _rows(connector).values_list("pk", flat=True)
                    authorizations.revoke_after_commit(list(keys), LostReason.SERVER_CHANGED)
    except IntegrityError as exc:
        raise ConnectorExistsError(EXISTS) from exc
    return connector


def remove(connector: Connector) -> None:
    """Remove a preset; every session to it is ended."""
    with transaction.atomic():
        rows = list(_rows(connector))
        connections.address_changed(rows)
        connector.delete()
        for row in rows:
            events.announce_server_removed(events.owner_of(row), row.slug)


def check(connector: Connector, secrets: JSONObject | None = None) -> None:
    """Refuse a preset that could not work.

    Raises BlockedUrlError, InvalidInputError, ConnectorExistsError, ConnectorIdTakenError.
    """
    problems: list[FieldProblem] = []
    if not ids.is_slug(connector.slug):
        problems.append(FieldProblem(path="/id", message=ids.SLUG_RULE, code="bad_slug"))
    problems += _stdio_problems(connector)
    problems += preset_rules.problems_of(connector.icon, connector.auth_config)
    told = {problem.path for problem in problems}
    problems += [each for each in _oauth_problems(connector, secrets) if each.path not in told]
    headers = (secrets or {}).get("headers")
    if headers:
        header_rules.check({"headers": headers}, AuthType.HEADERS, base="/secrets")
    if problems:
        raise InvalidInputError("The connector cannot be stored.", problems=problems)
    if connector.transport != Transport.STDIO:
        policy_from_settings().check_url(connector.url)
    _check_id(connector)


def _check_id(connector: Connector) -> None:
    """Refuse an id that is in use, or that would change what the operator's one means."""
    others = Connector.unscoped.exclude(pk=connector.pk).filter(slug=connector.slug)
    owners = set(others.values_list("tenant_id", flat=True))
    if connector.tenant_id in owners:
        raise ConnectorExistsError(EXISTS)
    if None not in owners or connector.tenant_id is None:
        return
    before = Connector.unscoped.filter(pk=connector.pk).values_list("slug", "tenant_id").first()
    if before != (connector.slug, connector.tenant_id):  # one that was there first may stay
        raise ConnectorIdTakenError


def _oauth_problems(connector: Connector, secrets: JSONObject | None) -> list[FieldProblem]:
    given = (secrets or {}).get("oauth")
    found = given if isinstance(given, dict) else {}
    try:
        oauth_choices.read(connector.auth_config, found, url=connector.url)
    except InvalidInputError as exc:
        return exc.problems if connector.auth_type == AuthType.OAUTH else []
    return []


def _stdio_problems(connector: Connector) -> list[FieldProblem]:
    """Only operator presets may start a program, and only where the operator allows it at all."""
    if connector.transport != Transport.STDIO:
        if connector.command:
            return [FieldProblem(path="/command", message="Only with the transport stdio.")]
        return []
    if connector.tenant_id is not None:
        message = "Only a connector for everybody can be a program."
        return [FieldProblem(path="/transport", message=message)]
    if not settings.STDIO_ENABLED:
        return [FieldProblem(path="/transport", message="stdio is not enabled here.")]
    command = connector.command
    is_command = isinstance(command, list) and all(isinstance(part, str) for part in command)
    if not command or not is_command:
        return [FieldProblem(path="/command", message='A list such as ["program", "argument"].')]
    return []


def _changed(before: Connector | None, after: Connector) -> set[str]:
    if before is None:
        return set()
    names = {*IDENTITY, *SESSION_FIELDS, "is_enabled", "definition_policy"}
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def _take_effect(connector: Connector, changed: set[str], *, has_new_secrets: bool) -> None:
    """Bring the members' connections in step with the preset; inside the transaction."""
    rows = list(_rows(connector))
    if changed & IDENTITY or not connector.is_enabled:
        _end(connector, rows, is_moved=bool(changed & IDENTITY))
        return
    for row in rows:
        if "definition_policy" in changed:
            tool_table.bump_version(row)
        is_back = connections.is_suspended(row) and connector.auto_reconnect
        if is_back or (row.is_wanted and (has_new_secrets or changed & SESSION_FIELDS)):
            connections.reopen(row)
        else:
            events.announce_server(row)


def _end(connector: Connector, rows: list[Connection], *, is_moved: bool) -> None:
    if is_moved:
        connections.address_changed(rows)
    else:
        for row in rows:
            connections.suspend(row)
    if not connector.is_enabled:
        for row in rows:
            events.announce_server_removed(events.owner_of(row), row.slug)


def _rows(connector: Connector) -> QuerySet[Connection]:
    return Connection.unscoped.filter(connector=connector).select_related("connector")


def _opened(connector: Connector) -> JSONObject:
    return open_json(connector, "sealed_secrets")


def _check_owner(principal: Principal, connector: Connector) -> None:
    principal.require(Scope.CONNECTORS_WRITE)
    if connector.tenant_id != principal.tenant_id:
        raise NotPermittedError("The operator declared this connector.")
