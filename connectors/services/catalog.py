"""The stored catalog of a connection: lists as the server sent them, tools with public names."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction

from connectors import events
from connectors.definitions import canonical
from connectors.models import CatalogListing, CatalogTool, Connection, ListingKind
from connectors.services import notices, tool_table
from connectors.services.tool_table import bump_version
from connectors.services.transitions import Fence
from mcphub.core import clock
from mcphub.core.types import JSONObject, JSONValue
from tracing.secrets import NO_SECRETS, KnownSecrets

LONGEST_NAME = 500
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_MAYBE_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedList:
    """One list of a server, all pages; with `error` the stored items stay as they are."""

    kind: ListingKind
    items: Sequence[JSONObject] = ()
    problems: Sequence[JSONObject] = ()
    is_complete: bool = True
    error: JSONObject | None = None
    ttl_ms: int | None = None


def store(
    connection_id: uuid.UUID,
    lists: Sequence[FetchedList],
    *,
    fence: Fence | None = None,
    secrets: KnownSecrets = NO_SECRETS,
    said: Iterable[ListingKind] = (),
) -> events.ToolChanges | None:
    """Store lists of a connection; announce `tool.changed` when anything in them is new.

    Downstream clients are told of these lists, and of those that the server `said` have changed.
    `secrets` are hidden wherever a server repeats them. None, and nothing stored, when the lease
    behind `fence` is gone.
    """
    rows = Connection.unscoped.filter(pk=connection_id)
    if fence is not None:
        rows = rows.filter(held_by=fence.worker, epoch=fence.epoch)
    with transaction.atomic():
        row = rows.select_for_update().first()
        if row is None:
            return None
        lists = [_usable(each, secrets) for each in lists]
        changes = events.ToolChanges()
        for each in lists:
            if each.kind == ListingKind.TOOLS and each.error is None:
                changes = tool_table.store(row, each.items, is_whole=each.is_complete)
        changed = _store_lists(row, lists)
        if changed:
            bump_version(row)
            events.announce_tools_changed(row, changes)
        notices.lists_changed(row, row.pk, {*changed, *said})
    return changes


def forget(connections: Iterable[Connection]) -> None:
    """Drop the catalogs of connections whose server became another one."""
    for connection in connections:
        CatalogListing.unscoped.filter(connection=connection).delete()
        CatalogTool.unscoped.filter(connection=connection).delete()
        bump_version(connection)


def storable(value: JSONValue) -> JSONValue:
    """Return `value` without the characters that a database refuses (NUL, lone surrogates)."""
    if _MAYBE_UNSTORABLE.search(json.dumps(value)) is None:
        return value
    return _cleaned(value)


def clean_text(text: str) -> str:
    """Return a text that every database stores."""
    return _UNSTORABLE.sub("\ufffd", text)


def _cleaned(value: JSONValue) -> JSONValue:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _cleaned(item) for key, item in value.items()}
    return value


def _usable(fetched: FetchedList, secrets: KnownSecrets) -> FetchedList:
    """Return the list without what cannot be kept; each such item is a problem with its reason."""
    problems = list(fetched.problems)
    items: list[JSONObject] = []
    seen: set[str] = set()
    for index, item in enumerate(fetched.items):
        kept = secrets.hidden(storable(item))
        name = kept.get("name") if isinstance(kept, dict) else None
        reason = _reason(fetched.kind, name, seen)
        if fetched.kind == ListingKind.TOOLS and secrets.hidden(item.get("name")) != item.get(
            "name"
        ):
            reason = "name_holds_secret"  # under another name it could not be called
        if reason is not None:
            shown = name[:LONGEST_NAME] if isinstance(name, str) else None
            problems.append({"index": index, "name": shown, "reason": reason})
        elif isinstance(kept, dict):
            items.append(kept)
    return FetchedList(
        kind=fetched.kind,
        items=items,
        problems=[_hidden_object(problem, secrets) for problem in problems],
        is_complete=fetched.is_complete,
        error=fetched.error,
        ttl_ms=fetched.ttl_ms,
    )


def _hidden_object(value: JSONObject, secrets: KnownSecrets) -> JSONObject:
    hidden = secrets.hidden(value)
    return hidden if isinstance(hidden, dict) else {}


def _reason(kind: ListingKind, name: JSONValue, seen: set[str]) -> str | None:
    """Return why a tool cannot be kept; other things need no name of their own."""
    if kind != ListingKind.TOOLS:
        return None
    if not isinstance(name, str) or not name:
        return "name_missing"
    if len(name) > LONGEST_NAME:
        return "name_too_long"
    if name in seen:
        return "name_duplicate"
    seen.add(name)
    return None


def _store_lists(row: Connection, lists: Sequence[FetchedList]) -> set[ListingKind]:
    """Write the listings; return which of them differ from what was stored."""
    stored = {
        listing.kind: listing
        for listing in CatalogListing.unscoped.filter(connection=row).defer("items")
    }
    changed: set[ListingKind] = set()
    fresh: list[CatalogListing] = []
    for each in lists:
        old = stored.get(each.kind)
        if old is not None and each.error is not None:
            _store_error(old, each)
            continue
        listing = _listing(row, each)
        if old is None or old.digest != listing.digest:
            changed.add(each.kind)
        fresh.append(listing)
    CatalogListing.unscoped.bulk_create(
        fresh,
        update_conflicts=True,
        unique_fields=["connection", "kind"],
        update_fields=[
            "items",
            "problems",
            "is_complete",
            "error",
            "ttl_ms",
            "digest",
            "fetched_at",
        ],
    )
    return changed


def _store_error(old: CatalogListing, fetched: FetchedList) -> None:
    old.error = fetched.error
    old.save(update_fields=["error"])


def _listing(row: Connection, fetched: FetchedList) -> CatalogListing:
    content = canonical([list(fetched.items), list(fetched.problems), fetched.is_complete])
    return CatalogListing(
        tenant_id=row.tenant_id,
        connection=row,
        kind=fetched.kind,
        items=list(fetched.items),
        problems=list(fetched.problems),
        is_complete=fetched.is_complete,
        error=fetched.error,
        ttl_ms=fetched.ttl_ms,
        digest=hashlib.sha256(content.encode()).hexdigest(),
        fetched_at=clock.now(),
    )
