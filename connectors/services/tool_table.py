"""The table of a connection's tools: public names, digests, and what their user says of them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import F

from connectors import events, names, selectors
from connectors.definitions import (
    DefinitionPolicy,
    Standing,
    definition_of,
    digest_of,
)
from connectors.models import CatalogListing, CatalogTool, Connection, ListingKind
from connectors.services import notices
from mcphub.core.errors import ConflictError, NotFoundError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

LONGEST_DESCRIPTION = 8000


class DefinitionMovedError(ConflictError):
    code = "definition_moved"
    title = "The definition has changed again since it was shown"


def store(row: Connection, items: Sequence[JSONObject], *, is_whole: bool) -> events.ToolChanges:
    """Bring the table in step with a list of tools; say what changed. Inside a transaction.

    The first list of a connection is taken as approved: its user has just chosen this server.
    """
    stored = {tool.name: tool for tool in CatalogTool.unscoped.filter(connection=row)}
    listed = {str(item["name"]): item for item in items}
    digests = {name: digest_of(item) for name, item in listed.items()}
    added = [name for name in digests if name not in stored]
    back = [name for name in digests if name in stored and not stored[name].is_listed]
    changed = [name for name in digests if name in stored and stored[name].digest != digests[name]]
    gone = [
        name for name, tool in stored.items() if is_whole and tool.is_listed and name not in digests
    ]
    is_blocking = selectors.definition_policy_of(row) is DefinitionPolicy.BLOCK
    _add(row, added, digests, stored, is_approved=not stored or not is_blocking)
    before = _definitions(row) if changed else {}
    touched = [stored[name] for name in {*back, *changed, *gone}]
    for tool in touched:
        tool.is_listed = tool.name in digests
        _note_digest(tool, digests.get(tool.name, tool.digest), before.get(tool.name))
    fields = ["is_listed", "digest", "approved_definition"]
    CatalogTool.unscoped.bulk_update(touched, fields, batch_size=200)
    waiting = {*added, *changed, *back} if is_blocking and stored else set[str]()
    approved = {tool.name for tool in touched if tool.standing is Standing.APPROVED}
    return events.ToolChanges(
        added=tuple(sorted([*added, *back])),
        changed=tuple(sorted(set(changed) - set(back))),
        removed=tuple(sorted(gone)),
        blocked=tuple(sorted(waiting - approved)),
    )


def set_enabled(
    principal: Principal, connection: Connection, name: str, *, is_enabled: bool
) -> None:
    """Allow or forbid calls of one tool, by its upstream name. Raises NotFoundError."""
    with transaction.atomic():
        tool = _tool(principal, connection, name)
        if tool.is_enabled != is_enabled:
            tool.is_enabled = is_enabled
            _save(connection, tool, "is_enabled")


def override_description(
    principal: Principal, connection: Connection, name: str, description: str
) -> None:
    """Have a tool shown with another description; "" restores its own. Raises NotFoundError."""
    with transaction.atomic():
        tool = _tool(principal, connection, name)
        if tool.description_override != description:
            tool.description_override = description
            _save(connection, tool, "description_override")


def approve(principal: Principal, connection: Connection, name: str, *, digest: str) -> None:
    """Approve the definition with this digest, the one that the user has seen.

    Doing it again changes nothing. Raises NotFoundError, DefinitionMovedError.
    """
    with transaction.atomic():
        tool = _tool(principal, connection, name)
        if tool.digest != digest:
            raise DefinitionMovedError
        if tool.approved_digest != digest:
            tool.approved_digest = digest
            tool.approved_definition = None
            _save(connection, tool, "approved_digest", "approved_definition")


def bump_version(connection: Connection) -> None:
    """Move the catalog's version on, by which web processes know that theirs is old."""
    rows = Connection.unscoped.filter(pk=connection.pk)
    rows.update(catalog_version=F("catalog_version") + 1)
    connection.catalog_version = rows.values_list("catalog_version", flat=True).get()


def _add(
    row: Connection,
    added: Sequence[str],
    digests: dict[str, str],
    stored: dict[str, CatalogTool],
    *,
    is_approved: bool,
) -> None:
    taken = {name: tool.public_name for name, tool in stored.items()}
    public = names.assign(row.slug, digests, taken)
    CatalogTool.unscoped.bulk_create(
        CatalogTool(
            tenant_id=row.tenant_id,
            member_id=row.member_id,
            connection=row,
            name=name,
            public_name=public[name],
            digest=digests[name],
            approved_digest=digests[name] if is_approved else "",
        )
        for name in added
    )


def _note_digest(tool: CatalogTool, digest: str, before: JSONObject | None) -> None:
    """Take a new digest; keep the approved definition as long as the current one is another."""
    if digest == tool.approved_digest:
        tool.approved_definition = None
    elif tool.digest == tool.approved_digest:
        tool.approved_definition = before
    tool.digest = digest


def _definitions(row: Connection) -> dict[str, JSONObject]:
    """Return what the stored list says of each tool, before the new one is stored."""
    listing = CatalogListing.unscoped.filter(connection=row, kind=ListingKind.TOOLS).first()
    return {str(item["name"]): definition_of(item) for item in listing.items} if listing else {}


def _tool(principal: Principal, connection: Connection, name: str) -> CatalogTool:
    rows = CatalogTool.objects.of(principal).select_for_update()
    tool = rows.filter(connection=connection, name=name).first()
    if tool is None:
        raise NotFoundError
    return tool


def _save(connection: Connection, tool: CatalogTool, *fields: str) -> None:
    tool.save(update_fields=fields)
    bump_version(connection)
    events.announce_tools_changed(connection, events.ToolChanges(changed=[tool.name]))
    notices.lists_changed(connection, connection.pk, [ListingKind.TOOLS])
