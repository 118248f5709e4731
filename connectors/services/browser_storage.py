"""Storage for react-mcp front ends that keep their list and tokens in the hub (API design §12.3 B).

Off by default: the browser still talks to upstream servers and sees their tokens. A record is
replaced only by who has read it: a blind write of a list that failed to load would lose it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from connectors.models import BrowserRecord
from mcphub.core.errors import HubError, NotFoundError
from mcphub.core.keys import key_ring
from mcphub.core.sealing import owner_of
from mcphub.core.types import JSONValue
from tenants.principal import Principal

CUSTOM_SERVERS = "custom-servers"
ABSENT = '"absent"'
"""ETag of a record that does not exist yet."""


class PreconditionFailedError(HubError):
    code = "precondition_failed"
    status = 412
    title = "The object has changed since it was read"


class PreconditionRequiredError(HubError):
    code = "precondition_required"
    status = 428
    title = "Send `If-Match` with the ETag that was read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    value: JSONValue
    etag: str


def auth_key(server_id: str) -> str:
    return f"auth:{server_id}"


def load(principal: Principal, key: str) -> Kept:
    """Return a record. Raises NotFoundError."""
    row = _row(principal, key)
    if row is None:
        raise NotFoundError
    opened = key_ring().unseal(bytes(row.sealed_value), owner=owner_of(row, "sealed_value"))
    return Kept(value=json.loads(opened), etag=_etag(row))


def save(principal: Principal, key: str, value: JSONValue, *, if_match: str | None) -> Kept:
    """Create or replace a record that the writer has read; the same content again is no conflict.

    Raises PreconditionRequiredError, PreconditionFailedError.
    """
    if if_match is None:
        raise PreconditionRequiredError
    text = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(text).hexdigest()
    row = _row(principal, key)
    if row is not None and row.digest == digest:
        return Kept(value=value, etag=_etag(row))
    if if_match != (ABSENT if row is None else _etag(row)):
        raise PreconditionFailedError
    if row is None:
        row = BrowserRecord(tenant_id=principal.tenant_id, member_id=principal.member_id, key=key)
    before, row.digest = row.digest, digest
    row.sealed_value = key_ring().seal(text, owner=owner_of(row, "sealed_value"))
    _store(row, before)
    return Kept(value=value, etag=_etag(row))


def clear(principal: Principal, key: str) -> None:
    """Drop a record. Raises NotFoundError."""
    row = _row(principal, key)
    if row is None:
        raise NotFoundError
    row.delete()


def _store(row: BrowserRecord, before: str) -> None:
    """Insert, or update what nobody else has changed in between."""
    if not before:
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError as exc:
            raise PreconditionFailedError from exc
        return
    unchanged = BrowserRecord.unscoped.filter(pk=row.pk, digest=before)
    if not unchanged.update(sealed_value=row.sealed_value, digest=row.digest):
        raise PreconditionFailedError


def _row(principal: Principal, key: str) -> BrowserRecord | None:
    rows = BrowserRecord.objects.of(principal).filter(member_id=principal.member_id)
    return rows.filter(key=key).first()


def _etag(row: BrowserRecord) -> str:
    return f'"{row.digest[:32]}"'
